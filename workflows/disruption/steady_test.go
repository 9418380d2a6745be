package disruption

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/clean"
	"github.com/squall-chaos/squall/activities/prepare"
	"github.com/squall-chaos/squall/activities/status"
	probing "github.com/squall-chaos/squall/activities/steadystate"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

const (
	before = v1beta1.ProbeBefore
	in     = v1beta1.ProbeDuring
	after  = v1beta1.ProbeAfter
)

// guardedPlay plays the prober: when a session starts, it reports as the test wants, and
// when the test lets it.
type guardedPlay struct {
	*world
	// asks are the inputs of all sessions.
	asks []probing.Input
	// mute are the phases in which the prober reports nothing unless a test does.
	mute map[v1beta1.ProbePhase]bool
	// written are the steady states written into status.
	written []v1beta1.SteadyStateStatus
	// changes are the changes that get an event.
	changes []status.SteadyStateChange
	// silentFrom is the session from which on the prober reports nothing unless a test does.
	silentFrom int
	seq        int64
	// clockAhead is how far the prober's clock is ahead of the workflow's.
	clockAhead time.Duration
	// carried is the input from the run before this one, if there was one.
	carried Input
}

// guardedWorld is a world with one probe, which succeeds in all phases unless the test
// wants something else.
func guardedWorld(t *testing.T, probes ...v1beta1.Probe) *guardedPlay {
	if len(probes) == 0 {
		probes = []v1beta1.Probe{{Name: "shop", PeriodSeconds: 1}}
	}
	p := &guardedPlay{world: newWorld(t), mute: map[v1beta1.ProbePhase]bool{}}
	spec := v1beta1.SteadyState{Probes: probes}.WithDefaults()
	p.plan.SteadyState, p.plan.ProbeRules = &spec, prepare.ProbeRulesNow
	p.env.OnActivity(a.ReportSteadyState, anything(2)...).Return(func(_ context.Context, r status.SteadyStateReport) error {
		p.written = append(p.written, r.Status)
		if r.Change != status.SteadyStateAsked {
			p.changes = append(p.changes, r.Change)
		}
		return nil
	})
	p.env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, args converter.EncodedValues) {
		var asked probing.Input
		if info.ActivityType.Name != "AskProbes" || args.Get(&asked) != nil {
			return
		}
		p.asks = append(p.asks, asked)
		if !p.mute[asked.Phase] && (p.silentFrom == 0 || asked.Session < p.silentFrom) {
			p.report(asked.Phase, v1beta1.ProbeSuccess, "status 200")
		}
	})
	return p
}

// report reports a state for all probes of a phase.
func (p *guardedPlay) report(phase v1beta1.ProbePhase, state v1beta1.ProbeState, text string) {
	p.seq++
	transition := contract.ProbeTransition{Phase: phase, Session: p.asks[len(p.asks)-1].Session, Seq: p.seq, At: p.env.Now().Add(p.clockAhead)}
	for _, probe := range p.plan.SteadyState.Of(phase) {
		transition.Probes = append(transition.Probes, contract.ProbeReport{Name: probe.Name, State: state, Since: p.env.Now(), Answered: text != "", Text: text})
	}
	p.env.SignalWorkflow(contract.SignalProbe, transition)
}

// asked are the phases in which a prober was started.
func (p *guardedPlay) asked() string {
	var phases []string
	for _, ask := range p.asks {
		phases = append(phases, string(ask.Phase))
	}
	return strings.Join(phases, " ")
}

func (p *guardedPlay) wantVerdict(t *testing.T, result Result, verdict v1beta1.Verdict, text string) {
	t.Helper()
	if result.Verdict != verdict || !strings.Contains(result.Summary, text) {
		t.Errorf("result = %+v, want %s and %q in the summary", result, verdict, text)
	}
	if last := p.finished.SteadyState; last == nil || last.Verdict != verdict || !strings.Contains(last.Summary, text) {
		t.Errorf("the last status says %+v, want %s and %q", last, verdict, text)
	}
}

// rule P8
func TestNothingIsInjectedBeforeTheGateOpens(t *testing.T) {
	t.Run("steady from the beginning to the end", func(t *testing.T) {
		p := guardedWorld(t)
		result := p.run(t)
		p.want(t, "prepare", "select", "create", "clean", "finish")
		p.wantVerdict(t, result, v1beta1.VerdictPassed, "every probe was steady")
		if p.asked() != "Before During After" {
			t.Errorf("asked %s", p.asked())
		}
	})
	t.Run("not every target is injected before the end", func(t *testing.T) {
		p := guardedWorld(t)
		p.injecting = 24 * time.Hour
		p.wantVerdict(t, p.run(t), v1beta1.VerdictInconclusive, "not every target was injected")
	})
	t.Run("it opens late", func(t *testing.T) {
		p := guardedWorld(t)
		p.mute[before] = true
		p.after(30*time.Second, func() {
			p.want(t, "prepare", "select")
			if state := p.state(t); state.Phase != v1beta1.PhaseSelecting || state.Steady.Phase != before {
				t.Errorf("state at the gate: %+v", state)
			}
			p.report(before, v1beta1.ProbeSuccess, "status 200")
		})
		result := p.run(t)
		p.want(t, "prepare", "select", "create", "clean", "finish")
		p.wantVerdict(t, result, v1beta1.VerdictPassed, "")
	})
	t.Run("who asks tells by its result", func(t *testing.T) {
		p := guardedWorld(t)
		p.mute[before], p.mute[after] = true, true
		steady := probing.Result{Probes: []contract.ProbeReport{{Name: "shop", State: v1beta1.ProbeSuccess, Answered: true, Text: "status 200"}}}
		p.env.OnActivity(a.AskProbes, mock.Anything, mock.MatchedBy(func(asked probing.Input) bool { return asked.Phase != in })).
			After(10*time.Second).Return(steady, nil)
		result := p.run(t)
		p.want(t, "prepare", "select", "create", "clean", "finish")
		p.wantVerdict(t, result, v1beta1.VerdictPassed, "")
	})
	t.Run("it never opens", func(t *testing.T) {
		p := guardedWorld(t)
		p.mute[before] = true
		p.after(10*time.Second, func() { p.report(before, v1beta1.ProbeFailure, "status 503") })
		began := p.env.Now()
		result := p.run(t)
		p.want(t, "prepare", "select", "clean", "finish")
		p.wantVerdict(t, result, v1beta1.VerdictFailed, "probe shop was not steady before: status 503")
		if want := "not steady: probe shop was not steady before: status 503"; result.Ending != want || result.Targets != 0 || !strings.HasPrefix(result.Summary, "nothing was injected") {
			t.Errorf("result = %+v, want ending %q and no target", result, want)
		}
		if took := p.env.Now().Sub(began); took > 62*time.Second {
			t.Errorf("that took %s, want the gate's minute", took)
		}
		if p.asked() != "Before" {
			t.Errorf("asked %s, want nothing but Before", p.asked())
		}
	})
	t.Run("nobody could ask", func(t *testing.T) {
		p := guardedWorld(t)
		p.mute[before] = true
		result := p.run(t)
		p.want(t, "prepare", "select", "clean", "finish")
		p.wantVerdict(t, result, v1beta1.VerdictInconclusive, "probe shop could not be asked before")
	})
	t.Run("it opens and closes again before all succeed", func(t *testing.T) {
		p := guardedWorld(t, v1beta1.Probe{Name: "shop"}, v1beta1.Probe{Name: "cart"})
		p.mute[before] = true
		send := func(name string, state v1beta1.ProbeState) {
			p.seq++
			p.env.SignalWorkflow(contract.SignalProbe, contract.ProbeTransition{Phase: before, Session: 1, Seq: p.seq, Probes: []contract.ProbeReport{{Name: name, State: state, Answered: true}}})
		}
		p.after(5*time.Second, func() { send("shop", v1beta1.ProbeSuccess) })
		p.after(6*time.Second, func() { send("shop", v1beta1.ProbeFailure) })
		p.after(7*time.Second, func() { send("cart", v1beta1.ProbeSuccess) })
		result := p.run(t)
		p.want(t, "prepare", "select", "clean", "finish")
		p.wantVerdict(t, result, v1beta1.VerdictFailed, "probe shop")
	})
	t.Run("deleted at the gate", func(t *testing.T) {
		p := guardedWorld(t)
		p.mute[before] = true
		p.after(5*time.Second, p.end)
		result := p.run(t)
		p.want(t, "prepare", "select", "clean", "finish")
		p.wantVerdict(t, result, v1beta1.VerdictInconclusive, "when the gate was left")
	})
	t.Run("the disruption's time is over first", func(t *testing.T) {
		p := guardedWorld(t)
		p.mute[before] = true
		p.plan.ExpireAt = p.plan.CreateAt.Add(20 * time.Second)
		p.after(5*time.Second, func() { p.report(before, v1beta1.ProbeFailure, "status 503") })
		result := p.run(t)
		p.want(t, "prepare", "select", "clean", "finish")
		p.wantVerdict(t, result, v1beta1.VerdictFailed, "was not steady before")
	})
	t.Run("not before the probes of During are asked", func(t *testing.T) {
		p := guardedWorld(t)
		p.mute[in] = true
		p.after(5*time.Second, func() {
			p.want(t, "prepare", "select")
			p.report(in, v1beta1.ProbeSuccess, "")
		})
		p.run(t)
		p.want(t, "prepare", "select", "create", "clean", "finish")
	})
	t.Run("no program runs the probes of During", func(t *testing.T) {
		p := guardedWorld(t)
		p.mute[in] = true
		result := p.run(t)
		p.want(t, "prepare", "select", "clean", "finish")
		p.wantVerdict(t, result, v1beta1.VerdictAborted, "could not be asked")
	})
	t.Run("a probe that asks After alone", func(t *testing.T) {
		p := guardedWorld(t, v1beta1.Probe{Name: "shop", Phases: []v1beta1.ProbePhase{after}})
		result := p.run(t)
		p.want(t, "prepare", "select", "create", "clean", "finish")
		p.wantVerdict(t, result, v1beta1.VerdictPassed, "")
		if p.asked() != "After" {
			t.Errorf("asked %s", p.asked())
		}
	})
}

// Targets that are lost at the gate are replaced.
func TestTargetsAreReplacedAtTheGate(t *testing.T) {
	p := guardedWorld(t)
	p.mute[before] = true
	p.selections = []targets.Selection{
		{Desired: 2, Selected: 2, Added: []int{0}}, {Desired: 2, Selected: 0}, {Desired: 2, Selected: 2, Added: []int{1}}, {Desired: 2, Selected: 2},
	}
	p.after(5*time.Second, func() { p.observe(contract.Observation{Hash: "a", TargetsLost: 2, SpecChanged: true}) })
	p.after(6*time.Second, func() { p.report(before, v1beta1.ProbeSuccess, "status 200") })
	p.after(10*time.Second, func() {
		p.want(t, "prepare", "select", "select") // the gate stays closed while there is no target
		p.observe(contract.Observation{Hash: "b", Candidates: 2})
	})
	p.after(time.Minute, p.end)
	p.run(t)
	p.want(t, "prepare", "select", "select", "select", "create", "create", "spec changed", "select", "clean", "clean", "finish")
}

// rule P9
func TestALostProbeEndsTheDisruption(t *testing.T) {
	t.Run("Abort", func(t *testing.T) {
		p := guardedWorld(t)
		p.after(10*time.Minute, func() { p.report(in, v1beta1.ProbeFailure, "status 503") })
		result := p.run(t)
		p.want(t, "prepare", "select", "create", "clean", "finish")
		p.wantVerdict(t, result, v1beta1.VerdictAborted, "probe shop was lost: status 503")
		if want := "aborted: probe shop was lost: status 503"; result.Ending != want {
			t.Errorf("ending %q, want %q", result.Ending, want)
		}
		if p.asked() != "Before During After" {
			t.Errorf("asked %s: what was aborted is asked whether it recovers", p.asked())
		}
		if took := p.env.Now().Sub(p.plan.CreateAt); took > 11*time.Minute {
			t.Errorf("it ended after %s, and was lost after 10 minutes", took)
		}
	})
	t.Run("Record", func(t *testing.T) {
		p := guardedWorld(t, v1beta1.Probe{Name: "shop", OnFailure: v1beta1.ProbeRecord})
		p.after(10*time.Minute, func() { p.report(in, v1beta1.ProbeFailure, "status 503") })
		result := p.run(t)
		p.wantVerdict(t, result, v1beta1.VerdictFailed, "probe shop was lost: status 503")
		if result.Ending != v1beta1.EndingExpired {
			t.Errorf("ending %q, want it to last", result.Ending)
		}
	})
	t.Run("while chaos pods are created", func(t *testing.T) {
		p := guardedWorld(t)
		p.selections = []targets.Selection{{Selected: 450, Added: []int{0, 1, 2}}, {Selected: 450}}
		p.creating = 20 * time.Second
		p.after(5*time.Second, func() { p.report(in, v1beta1.ProbeFailure, "status 503") })
		result := p.run(t)
		p.wantVerdict(t, result, v1beta1.VerdictAborted, "")
		p.wantCleaned(t, 0, 1, 2)
	})
	t.Run("the finalizer stays while it is not clean, and the verdict too", func(t *testing.T) {
		p := guardedWorld(t)
		p.cleans = []clean.Result{{Remaining: 1, Left: []chaospod.LeftPod{failedPod}}, {}}
		p.after(time.Minute, func() { p.report(in, v1beta1.ProbeFailure, "status 503") })
		result := p.run(t)
		p.want(t, "prepare", "select", "create", "clean", "clean", "finish")
		p.wantVerdict(t, result, v1beta1.VerdictAborted, "")
	})
	t.Run("it is deleted after it was aborted", func(t *testing.T) {
		p := guardedWorld(t)
		p.mute[after] = true
		p.after(time.Minute, func() { p.report(in, v1beta1.ProbeFailure, "status 503") })
		p.after(2*time.Minute, p.end)
		result := p.run(t)
		p.wantVerdict(t, result, v1beta1.VerdictAborted, "probe shop was lost")
		if took := p.env.Now().Sub(p.plan.CreateAt); took > 125*time.Second {
			t.Errorf("it let go after %s; it was deleted after 2 minutes", took)
		}
	})
}

// rule P10
func TestAProberThatDiesIsFollowed(t *testing.T) {
	p := guardedWorld(t)
	left := probing.Snapshot{At: p.env.Now().Add(50 * time.Second), Reports: []contract.ProbeReport{{Name: "shop", State: v1beta1.ProbeSuccess}}}
	p.fails(in, temporal.NewHeartbeatTimeoutError(left))
	result := p.run(t)
	p.wantVerdict(t, result, v1beta1.VerdictPassed, "")
	if p.asked() != "Before During During After" || p.asks[2].Session != 3 || p.asks[2].Resume == nil || len(p.asks[2].Resume.Reports) != 1 || !p.asks[2].Began.Equal(p.asks[1].Began) {
		t.Errorf("asked %s: %+v, want one that goes on with what was left", p.asked(), p.asks)
	}
	if p.asks[3].Resume != nil {
		t.Errorf("phase After goes on with %+v", p.asks[3].Resume)
	}
}

// A silent prober is detected by one clock, even if the machines' clocks differ.
func TestAProberWithAnotherClock(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour} {
		dead := func(p *guardedPlay) error {
			return temporal.NewHeartbeatTimeoutError(probing.Snapshot{At: p.env.Now().Add(50*time.Second + ahead)})
		}
		t.Run(name+", and it is followed", func(t *testing.T) {
			p := guardedWorld(t)
			p.clockAhead = ahead
			p.fails(in, dead(p))
			p.wantVerdict(t, p.run(t), v1beta1.VerdictPassed, "")
			if asked := p.asks[2]; asked.Idle < 9*time.Second || asked.Idle > 12*time.Second || asked.Lasted < time.Minute || asked.Lasted > 62*time.Second {
				t.Errorf("the next prober receives %s without a prober, in a phase of %s; want about 10 s and a minute", asked.Idle, asked.Lasted)
			}
		})
		t.Run(name+", and nobody follows", func(t *testing.T) {
			p := guardedWorld(t)
			p.clockAhead, p.silentFrom = ahead, 3
			p.fails(in, dead(p))
			p.wantVerdict(t, p.run(t), v1beta1.VerdictAborted, "could not be asked for too long: no program runs it")
			if lasted := p.asks[len(p.asks)-1].Began.Sub(p.asks[1].Began); lasted < 65*time.Second || lasted > 80*time.Second {
				t.Errorf("After began %s after During, want it 23 s after the prober was heard last, 50 s after it began", lasted)
			}
		})
	}
}

// rule P11
func TestSilentProberCountsAsBlind(t *testing.T) {
	dead := func(p *guardedPlay) error {
		return temporal.NewHeartbeatTimeoutError(probing.Snapshot{At: p.env.Now().Add(50 * time.Second)})
	}
	t.Run("Abort", func(t *testing.T) {
		p := guardedWorld(t)
		p.silentFrom = 3
		p.fails(in, dead(p))
		began := p.env.Now()
		result := p.run(t)
		p.wantVerdict(t, result, v1beta1.VerdictAborted, "could not be asked for too long: no program runs it")
		if lasted := p.finished.At; !lasted.IsZero() || p.asks[len(p.asks)-1].Began.Sub(began) > 80*time.Second {
			t.Errorf("After began at %s, want it 23 s after the prober was heard last, a minute after %s", p.asks[len(p.asks)-1].Began, began)
		}
	})
	t.Run("the workflow's workers were away as well: it is decided when one is back", func(t *testing.T) {
		p := guardedWorld(t)
		long := probing.Snapshot{At: p.env.Now().Add(-time.Hour)}
		p.fails(in, temporal.NewHeartbeatTimeoutError(long))
		result := p.run(t)
		p.wantVerdict(t, result, v1beta1.VerdictAborted, "no program runs it")
		if p.asks[len(p.asks)-1].Began.Sub(p.asks[0].Began) > 62*time.Second {
			t.Errorf("it was decided late: %+v", p.asks)
		}
	})
	t.Run("Record: it is asked again", func(t *testing.T) {
		p := guardedWorld(t)
		p.plan.SteadyState.OnProberLost = v1beta1.ProbeRecord
		p.silentFrom = 3
		p.fails(in, dead(p))
		p.after(5*time.Minute, func() { p.report(in, v1beta1.ProbeSuccess, "status 200") })
		p.after(6*time.Minute, func() { p.silentFrom = 0 })
		result := p.run(t)
		p.wantVerdict(t, result, v1beta1.VerdictInconclusive, "no program runs it")
		if p.asked() != "Before During During After" {
			t.Errorf("asked %s: %+v", p.asked(), p.asks)
		}
		if result.Ending != v1beta1.EndingExpired {
			t.Errorf("ending %q, want it to last", result.Ending)
		}
	})
	t.Run("the prober fails each time: it is tried ever more seldom", func(t *testing.T) {
		p := guardedWorld(t)
		p.plan.SteadyState.OnProberLost = v1beta1.ProbeRecord
		p.silentFrom = 2
		p.env.OnActivity(a.AskProbes, mock.Anything, mock.MatchedBy(func(asked probing.Input) bool { return asked.Phase == in })).
			Return(probing.Result{}, errors.New("this worker asks no probes"))
		p.wantVerdict(t, p.run(t), v1beta1.VerdictInconclusive, "")
		if n := strings.Count(p.asked(), "During"); n < 5 || n > 25 {
			t.Errorf("asked %d times within an hour, want about 20", n)
		}
	})
	t.Run("one probe could not be asked for too long", func(t *testing.T) {
		p := guardedWorld(t)
		p.after(time.Minute, func() { p.report(in, v1beta1.ProbeUnknown, "no server") })
		p.wantVerdict(t, p.run(t), v1beta1.VerdictAborted, "could not be asked for too long: no server")
	})
}

// fails ends the first AskProbes of a phase with an error, a minute after its start.
func (p *guardedPlay) fails(phase v1beta1.ProbePhase, err error) {
	p.env.OnActivity(a.AskProbes, mock.Anything, mock.MatchedBy(func(in probing.Input) bool { return in.Phase == phase })).
		After(time.Minute).Return(probing.Result{}, err).Once()
}

// asksOn makes every other AskProbes run for good.
func (p *guardedPlay) asksOn() {
	p.env.OnActivity(a.AskProbes, anything(2)...).After(1000*time.Hour).Return(probing.Result{}, nil)
}

// rule P14
func TestAfterDecidesInTime(t *testing.T) {
	p := guardedWorld(t)
	p.plan.ExpireAt = p.plan.CreateAt.Add(10 * time.Minute)
	for _, test := range []struct {
		name    string
		do      func(p *guardedPlay)
		verdict v1beta1.Verdict
		text    string
		within  time.Duration
	}{
		{"it comes back", func(p *guardedPlay) {
			p.after(12*time.Minute, func() { p.report(after, v1beta1.ProbeSuccess, "status 200") })
		}, v1beta1.VerdictPassed, "", 12*time.Minute + 5*time.Second},
		{"it does not", func(p *guardedPlay) {
			p.after(12*time.Minute, func() { p.report(after, v1beta1.ProbeFailure, "status 503") })
		}, v1beta1.VerdictFailed, "did not come back in time: status 503", 15*time.Minute + 5*time.Second},
		{"nobody can say", func(*guardedPlay) {}, v1beta1.VerdictInconclusive, "could not be asked after", 15*time.Minute + 5*time.Second},
		{"it is deleted meanwhile", func(p *guardedPlay) { p.after(11*time.Minute, p.end) }, v1beta1.VerdictInconclusive, "was not asked after", 11*time.Minute + 5*time.Second},
		{"everything is stopped meanwhile", func(p *guardedPlay) {
			p.after(11*time.Minute, func() { p.env.SignalWorkflow(contract.SignalEnd, contract.End{Reason: fireStop}) })
		}, v1beta1.VerdictInconclusive, "was not asked after", 11*time.Minute + 5*time.Second},
		{"it is ended for another reason meanwhile", func(p *guardedPlay) {
			p.after(11*time.Minute, func() { p.env.SignalWorkflow(contract.SignalEnd, contract.End{Reason: "enough"}) })
		}, v1beta1.VerdictInconclusive, "could not be asked after", 15*time.Minute + 5*time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := guardedWorld(t)
			p.plan.ExpireAt = p.plan.CreateAt.Add(10 * time.Minute)
			p.mute[after] = true
			test.do(p)
			result := p.run(t)
			p.wantVerdict(t, result, test.verdict, test.text)
			if took := p.env.Now().Sub(p.plan.CreateAt); took > test.within {
				t.Errorf("it took %s, want %s", took, test.within)
			}
			p.want(t, "prepare", "select", "create", "clean", "finish")
		})
	}
	t.Run("deleted before: nobody asks", func(t *testing.T) {
		p := guardedWorld(t)
		p.after(time.Minute, p.end)
		result := p.run(t)
		p.wantVerdict(t, result, v1beta1.VerdictInconclusive, "was not asked after")
		if p.asked() != "Before During" {
			t.Errorf("asked %s", p.asked())
		}
	})
	t.Run("only what is clean is asked, and once", func(t *testing.T) {
		p := guardedWorld(t)
		p.cleans = []clean.Result{{Remaining: 1, Left: []chaospod.LeftPod{failedPod}}, {}}
		p.left = []int{1, 0}
		p.run(t)
		p.want(t, "prepare", "select", "create", "clean", "clean", "finish", "clean", "finish")
		if p.asked() != "Before During After" {
			t.Errorf("asked %s", p.asked())
		}
	})
}

// rule P12
func TestAnHourOfProbingIsAShortHistory(t *testing.T) {
	p := guardedWorld(t, v1beta1.Probe{Name: "shop", PeriodSeconds: 1}, v1beta1.Probe{Name: "slow", PeriodSeconds: 1, OnFailure: v1beta1.ProbeRecord})
	counted := &eventCounter{}
	p.env.SetWorkerOptions(patientWorker(counted))
	p.after(30*time.Minute, func() { p.report(in, v1beta1.ProbeSuccess, "status 204") })
	p.run(t)
	if counted.events == 0 || counted.events >= 200 {
		t.Errorf("an hour takes %d events, want less than 200", counted.events)
	}
	t.Logf("an hour takes at most %d events", counted.events)
}

// eventCounter counts the events of history that a workflow costs at most: as if
// every command and every message had a workflow task of its own.
type eventCounter struct {
	interceptor.WorkerInterceptorBase
	interceptor.WorkflowInboundInterceptorBase
	interceptor.WorkflowOutboundInterceptorBase
	events int
}

const eventsOfATask = 3

func (c *eventCounter) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	c.WorkflowInboundInterceptorBase.Next = next
	return c
}

func (c *eventCounter) Init(out interceptor.WorkflowOutboundInterceptor) error {
	c.WorkflowOutboundInterceptorBase.Next = out
	return c.WorkflowInboundInterceptorBase.Next.Init(c)
}

func (c *eventCounter) HandleSignal(ctx workflow.Context, in *interceptor.HandleSignalInput) error {
	c.events += 1 + eventsOfATask
	return c.WorkflowInboundInterceptorBase.Next.HandleSignal(ctx, in)
}

func (c *eventCounter) ExecuteActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	c.events += 4 + eventsOfATask // scheduled, started, cancelled or not, completed
	return c.WorkflowOutboundInterceptorBase.Next.ExecuteActivity(ctx, name, args...)
}

func (c *eventCounter) ExecuteLocalActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	c.events += 1 + eventsOfATask
	return c.WorkflowOutboundInterceptorBase.Next.ExecuteLocalActivity(ctx, name, args...)
}

func (c *eventCounter) NewTimerWithOptions(ctx workflow.Context, d time.Duration, options workflow.TimerOptions) workflow.Future {
	c.events += 2 + eventsOfATask
	return c.WorkflowOutboundInterceptorBase.Next.NewTimerWithOptions(ctx, d, options)
}

func (c *eventCounter) AwaitWithOptions(ctx workflow.Context, options workflow.AwaitOptions, condition func() bool) (bool, error) {
	c.events += 2 + eventsOfATask
	return c.WorkflowOutboundInterceptorBase.Next.AwaitWithOptions(ctx, options, condition)
}

func (c *eventCounter) UpsertTypedSearchAttributes(ctx workflow.Context, attributes ...temporal.SearchAttributeUpdate) error {
	c.events++
	return c.WorkflowOutboundInterceptorBase.Next.UpsertTypedSearchAttributes(ctx, attributes...)
}

// Flapping probes do not fill the history with writes of status.
func TestFlappingProbesAreWrittenSeldom(t *testing.T) {
	p := guardedWorld(t)
	p.mute[before] = true
	for i := range 50 {
		p.after(time.Duration(i+1)*time.Second, func() { p.report(before, v1beta1.ProbeFailure, fmt.Sprint("status ", i)) })
	}
	p.run(t)
	if quiet := len(p.written) - len(p.changes); quiet > mostSteadyReports {
		t.Errorf("%d writes that tell no change, want at most %d", quiet, mostSteadyReports)
	}
}

// rule P18
func TestStatusQueryAndPageAgree(t *testing.T) {
	p := guardedWorld(t, v1beta1.Probe{Name: "shop", OnFailure: v1beta1.ProbeRecord}, v1beta1.Probe{Name: "cart"})
	p.after(10*time.Minute, func() {
		p.env.SignalWorkflow(contract.SignalProbe, contract.ProbeTransition{Phase: in, Session: 2, Seq: 99, Probes: []contract.ProbeReport{
			{Name: "shop", State: v1beta1.ProbeFailure, Answered: true, Text: "status 503"}}})
	})
	p.after(11*time.Minute, func() {
		state, written := p.state(t), p.written[len(p.written)-1]
		asked := state.Steady.Status(*p.plan.SteadyState, false, p.env.Now())
		if written.Summary != asked.Summary || written.Phase != in || written.Probes[0].State != v1beta1.ProbeFailure || asked.Probes[0].State != v1beta1.ProbeFailure {
			t.Errorf("status %+v\nquery %+v", written, asked)
		}
		page := details(ref, state)
		for _, want := range []string{"### Steady state", written.Summary, "- **shop**: Failure (status 503); Before: Steady; During: Lost; After: -", "- **cart**: Success (status 200); Before: Steady; During: asked; After: -"} {
			if !strings.Contains(page, want) {
				t.Errorf("the page lacks %q:\n%s", want, page)
			}
		}
	})
	result := p.run(t)
	p.wantVerdict(t, result, v1beta1.VerdictFailed, "probe shop was lost: status 503")
	state := p.state(t)
	if page := details(ref, state); !strings.Contains(page, p.finished.SteadyState.Summary) {
		t.Errorf("the page of one that is over does not say %q:\n%s", p.finished.SteadyState.Summary, page)
	}
	if want := []status.SteadyStateChange{status.SteadyStateReached, status.SteadyStateLost, status.SteadyStateRecovered}; !slices.Equal(p.changes, want) {
		t.Errorf("people are told %v, want %v", p.changes, want)
	}
	if !slices.IsSortedFunc(p.written, func(a, b v1beta1.SteadyStateStatus) int { return a.ReportedAt.Compare(b.ReportedAt.Time) }) {
		t.Errorf("status was told out of order: %+v", p.written)
	}
}

// A new run knows the steady state of the run before, and continues with it.
func TestNewRunContinuesToGuard(t *testing.T) {
	t.Run("while it holds", func(t *testing.T) {
		p := guardedWorld(t, v1beta1.Probe{Name: "shop", OnFailure: v1beta1.ProbeRecord})
		p.after(time.Minute, func() { p.report(in, v1beta1.ProbeFailure, "status 503") })
		p.after(2*time.Minute, func() {
			p.env.SetContinueAsNewSuggested(true)
			p.observe(contract.Observation{Hash: "a", Candidates: 3})
		})
		next := p.newRun(t)
		result := next.run(t)
		next.want(t, "select", "clean", "finish")
		next.wantVerdict(t, result, v1beta1.VerdictFailed, "probe shop was lost: status 503")
		if next.asked() != "During After" || next.asks[0].Session != 3 {
			t.Errorf("asked %s: %+v", next.asked(), next.asks)
		}
	})
	t.Run("at the gate", func(t *testing.T) {
		p := guardedWorld(t)
		p.mute[before] = true
		p.after(20*time.Second, func() {
			p.env.SetContinueAsNewSuggested(true)
			p.report(before, v1beta1.ProbeFailure, "status 503")
		})
		next := p.newRun(t)
		next.mute[before] = true
		next.after(10*time.Second, func() {
			next.want(t)
			next.report(before, v1beta1.ProbeSuccess, "status 200")
		})
		result := next.run(t)
		next.want(t, "create", "select", "clean", "finish")
		next.wantVerdict(t, result, v1beta1.VerdictPassed, "")
	})
}

// newRun runs until a new run is due, and returns the world of that one.
func (p *guardedPlay) newRun(t *testing.T) *guardedPlay {
	t.Helper()
	p.asksOn()
	p.env.ExecuteWorkflow(contract.WorkflowType, Input{Input: contract.Input{Disruption: ref}})
	var again *workflow.ContinueAsNewError
	if err := p.env.GetWorkflowError(); !errors.As(err, &again) {
		t.Fatalf("the workflow ended with %v, want a new run", err)
	}
	next := guardedWorld(t)
	if err := converter.GetDefaultDataConverter().FromPayloads(again.Input, &next.carried); err != nil {
		t.Fatal(err)
	}
	next.env.SetStartTime(p.env.Now())
	next.plan, next.selections = p.plan, p.selections
	return next
}

// run runs the workflow, from what an earlier run carried over if there was one.
func (p *guardedPlay) run(t *testing.T) (result Result) {
	t.Helper()
	p.asksOn()
	if p.carried.Carried == nil {
		return p.world.run(t)
	}
	p.env.ExecuteWorkflow(contract.WorkflowType, p.carried)
	if err := p.env.GetWorkflowError(); err != nil {
		t.Fatalf("workflow failed: %v", err)
	}
	if err := p.env.GetWorkflowResult(&result); err != nil {
		t.Fatal(err)
	}
	return result
}
