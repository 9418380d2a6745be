package scenario

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"

	"github.com/squall-chaos/squall/activities/scenarios"
	probing "github.com/squall-chaos/squall/activities/steadystate"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

const (
	before = v1beta1.ProbeBefore
	in     = v1beta1.ProbeDuring
	after  = v1beta1.ProbeAfter
)

// guardedTheatre has one probe of the whole run. reports is its state by phase, Success
// in the others; no prober reports in a phase that is mute.
type guardedTheatre struct {
	*theatre
	reports map[v1beta1.ProbePhase]v1beta1.ProbeState
	mute    map[v1beta1.ProbePhase]bool
	asked   []v1beta1.ProbePhase
}

func newGuardedTheatre(t *testing.T, probe v1beta1.Probe, steps ...scenarios.Step) *guardedTheatre {
	g := &guardedTheatre{theatre: newTheatre(t, steps...), reports: map[v1beta1.ProbePhase]v1beta1.ProbeState{}, mute: map[v1beta1.ProbePhase]bool{}}
	probe.Name, probe.PeriodSeconds = "shop", 1
	g.plan.SteadyState = (&v1beta1.SteadyState{Probes: []v1beta1.Probe{probe}}).ForWorkflow()
	g.RegisterActivity(&probing.Activities{})
	g.OnActivity((*probing.Activities)(nil).AskProbes, mock.Anything, mock.Anything).After(1000*time.Hour).Return(probing.Result{}, nil).Maybe()
	g.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, args converter.EncodedValues) {
		var asks probing.Input
		if info.ActivityType.Name != "AskProbes" || args.Get(&asks) != nil {
			return
		}
		if asks.Scenario == nil || *asks.Scenario != gameDay {
			t.Errorf("asked for %+v, want the scenario's probes", asks)
		}
		g.asked = append(g.asked, asks.Phase)
		if !g.mute[asks.Phase] {
			state, other := g.reports[asks.Phase]
			if !other {
				state = v1beta1.ProbeSuccess
			}
			g.report(asks.Phase, asks.Session, state, 0)
		}
	})
	return g
}

// report sends a state of the probe after some time.
func (g *guardedTheatre) report(phase v1beta1.ProbePhase, session int, state v1beta1.ProbeState, after time.Duration) {
	g.RegisterDelayedCallback(func() {
		g.SignalWorkflow(contract.SignalProbe, contract.ProbeTransition{Phase: phase, Session: session, Seq: int64(after) + 1,
			Probes: []contract.ProbeReport{{Name: "shop", State: state, Text: "says " + string(state), Answered: true}}})
	}, after)
}

// wantProbes expects that these phases were asked, and this verdict in the end.
func (g *guardedTheatre) wantProbes(verdict v1beta1.Verdict, summary string, asked ...v1beta1.ProbePhase) {
	g.t.Helper()
	if diff := cmp.Diff(asked, g.asked); diff != "" {
		g.t.Errorf("phases that were asked (-want +got):\n%s", diff)
	}
	shown := g.last.SteadyState
	if shown == nil || shown.Verdict != verdict || shown.Phase != "" || !strings.Contains(shown.Summary, summary) {
		g.t.Errorf("status.steadyState is %+v, want %s with %q", shown, verdict, summary)
	}
}

func TestScenarioIsGuarded(t *testing.T) {
	oneStep := scenarios.Step{Name: "a", Disruptions: 1}
	t.Run("steady all the time", func(t *testing.T) {
		g := newGuardedTheatre(t, v1beta1.Probe{}, oneStep)
		g.over(time.Minute, "a1", "expired", v1beta1.VerdictPassed)
		g.done(v1beta1.VerdictPassed, "All steps are done.")
		g.wantProbes(v1beta1.VerdictPassed, "every probe was steady", before, in, after)
	})
	t.Run("not steady before", func(t *testing.T) {
		g := newGuardedTheatre(t, v1beta1.Probe{}, oneStep)
		g.reports[before] = v1beta1.ProbeFailure
		g.done(v1beta1.VerdictFailed, "not steady: probe shop was not steady before: says Failure")
		g.wantProbes(v1beta1.VerdictFailed, "was not steady before", before)
		if len(g.begun) > 0 {
			t.Errorf("%v was begun behind a closed gate", g.begun)
		}
	})
	t.Run("the gate opens late", func(t *testing.T) {
		g := newGuardedTheatre(t, v1beta1.Probe{}, oneStep)
		g.mute[before] = true
		g.RegisterDelayedCallback(func() {
			if len(g.begun) > 0 || !strings.Contains(g.last.Message, "Waiting for: shop") {
				t.Errorf("begun %v, message %q; want that it waits for the probe", g.begun, g.last.Message)
			}
		}, 40*time.Second)
		g.report(before, 1, v1beta1.ProbeSuccess, 50*time.Second)
		g.over(2*time.Minute, "a1", "expired", v1beta1.VerdictPassed)
		g.done(v1beta1.VerdictPassed, "All steps are done.")
	})
	t.Run("lost, while disruptions run", func(t *testing.T) {
		g := newGuardedTheatre(t, v1beta1.Probe{}, oneStep, scenarios.Step{Name: "b", Disruptions: 1})
		g.report(in, 2, v1beta1.ProbeFailure, time.Minute)
		g.RegisterDelayedCallback(func() {
			if diff := cmp.Diff([]string{"a1"}, g.ended); diff != "" || g.last.Phase != v1beta1.ScenarioStopping {
				t.Errorf("phase %s, deleted (-want +got):\n%s", g.last.Phase, diff)
			}
		}, 61*time.Second)
		g.over(2*time.Minute, "a1", "deleted", v1beta1.VerdictAborted)
		g.done(v1beta1.VerdictAborted, "aborted: probe shop was lost: says Failure")
		g.wantProbes(v1beta1.VerdictAborted, "probe shop was lost", before, in, after)
		if diff := cmp.Diff([]string{"a1"}, g.begun); diff != "" {
			t.Errorf("begun (-want +got):\n%s", diff)
		}
	})
	t.Run("lost, while a person is waited for", func(t *testing.T) {
		g := newGuardedTheatre(t, v1beta1.Probe{}, scenarios.Step{Name: "look", Approval: "is it well?"}, oneStep)
		g.report(in, 2, v1beta1.ProbeFailure, time.Hour)
		g.done(v1beta1.VerdictAborted, "aborted: probe shop was lost")
		g.wantProbes(v1beta1.VerdictAborted, "probe shop was lost", before, in) // nothing was disturbed
	})
	t.Run("lost, and recorded", func(t *testing.T) {
		g := newGuardedTheatre(t, v1beta1.Probe{OnFailure: v1beta1.ProbeRecord}, oneStep)
		g.report(in, 2, v1beta1.ProbeFailure, time.Minute)
		g.RegisterDelayedCallback(func() {
			if shown := g.last.SteadyState; shown == nil || shown.Summary != "Lost, and it goes on: shop." {
				t.Errorf("status %+v, want that it is told", shown)
			}
		}, 61*time.Second)
		g.over(2*time.Minute, "a1", "expired", v1beta1.VerdictPassed)
		g.done(v1beta1.VerdictFailed, "All steps are done.")
		if len(g.ended) > 0 {
			t.Errorf("%v was deleted", g.ended)
		}
	})
	t.Run("nobody asks", func(t *testing.T) {
		g := newGuardedTheatre(t, v1beta1.Probe{Phases: []v1beta1.ProbePhase{in}}, oneStep)
		g.mute[in] = true
		g.done(v1beta1.VerdictAborted, "could not be asked for too long")
		if len(g.begun) > 0 {
			t.Errorf("%v was begun unguarded", g.begun)
		}
	})
	t.Run("it does not come back", func(t *testing.T) {
		g := newGuardedTheatre(t, v1beta1.Probe{}, oneStep)
		g.reports[after] = v1beta1.ProbeFailure
		g.over(time.Minute, "a1", "expired", v1beta1.VerdictPassed)
		g.done(v1beta1.VerdictFailed, "All steps are done.")
		g.wantProbes(v1beta1.VerdictFailed, "did not come back in time", before, in, after)
	})
	t.Run("deleted: nobody waits for it to come back", func(t *testing.T) {
		g := newGuardedTheatre(t, v1beta1.Probe{}, oneStep)
		g.RegisterDelayedCallback(func() { g.SignalWorkflow(contract.SignalEnd, contract.End{Reason: "deleted"}) }, time.Minute)
		g.over(2*time.Minute, "a1", "deleted", v1beta1.VerdictAborted)
		g.done(v1beta1.VerdictAborted, "deleted")
		if diff := cmp.Diff([]v1beta1.ProbePhase{before, in}, g.asked); diff != "" {
			t.Errorf("phases that were asked (-want +got):\n%s", diff)
		}
	})
	t.Run("begun by another workflow: it is guarded, and waits for no gate", func(t *testing.T) {
		g := newGuardedTheatre(t, v1beta1.Probe{}, oneStep)
		g.plan.Status.Steps = []v1beta1.ScenarioStepStatus{{Name: "a", Phase: v1beta1.ScenarioRunning, Disruptions: []v1beta1.ScenarioRun{{Name: "a1", UID: "u"}}}}
		g.over(time.Minute, "a1", "expired", v1beta1.VerdictPassed)
		g.done(v1beta1.VerdictInconclusive, "All steps are done.")
		g.wantProbes(v1beta1.VerdictInconclusive, "", in, after)
	})
}
