package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/notify"
	"github.com/squall-chaos/squall/activities/scenarios"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/notification"
)

var gameDay = contract.ScenarioRef{Namespace: "shop", Name: "gameday", UID: "s1"}

// theatre plays a cluster to the workflow of a scenario.
type theatre struct {
	*testsuite.TestWorkflowEnvironment
	t    *testing.T
	plan scenarios.Plan
	// endings is how each disruption ends, by its name, once it is over.
	endings map[string]v1beta1.ScenarioRun
	// begun are the names of the created disruptions, ended of the deleted ones.
	begun, ended []string
	stopped      string
	last         v1beta1.DisruptionScenarioStatus
	looks        int
}

func newTheatre(t *testing.T, steps ...scenarios.Step) *theatre {
	var suite testsuite.WorkflowTestSuite
	p := &theatre{TestWorkflowEnvironment: suite.NewTestWorkflowEnvironment(), t: t, plan: scenarios.Plan{Generation: 1, Steps: steps}, endings: map[string]v1beta1.ScenarioRun{}}
	p.RegisterWorkflowWithOptions(Workflow, workflow.RegisterOptions{Name: contract.ScenarioWorkflowType})
	p.RegisterActivity(&scenarios.Activities{})
	p.OnActivity(a.ReadScenario, mock.Anything, mock.Anything).Return(func(context.Context, contract.ScenarioInput) (scenarios.Plan, error) { return p.plan, nil })
	p.OnActivity(a.ReportScenario, mock.Anything, mock.Anything).Return(func(_ context.Context, in scenarios.ReportInput) error {
		p.last = in.Status
		return nil
	})
	p.OnActivity(a.BeginStep, mock.Anything, mock.Anything).Return(func(_ context.Context, in scenarios.BeginStepInput) (scenarios.BegunStep, error) {
		begun := scenarios.BegunStep{Runs: in.Known, Stopped: p.stopped}
		for i := len(in.Known); i < p.plan.Steps[in.Step].Disruptions && p.stopped == ""; i++ {
			name := p.plan.Steps[in.Step].Name + string(rune('1'+i))
			p.begun = append(p.begun, name)
			begun.Runs = append(begun.Runs, v1beta1.ScenarioRun{Name: name, UID: "u"})
		}
		return begun, nil
	})
	p.OnActivity(a.SeeRuns, mock.Anything, mock.Anything).Return(func(_ context.Context, in scenarios.RunsInput) ([]v1beta1.ScenarioRun, error) {
		p.looks++
		for i, run := range in.Runs {
			if over, found := p.endings[run.Name]; found {
				in.Runs[i].Ending, in.Runs[i].Verdict = over.Ending, over.Verdict
			}
		}
		return in.Runs, nil
	})
	p.OnActivity(a.EndRuns, mock.Anything, mock.Anything).Return(func(_ context.Context, in scenarios.RunsInput) error {
		for _, run := range in.Runs {
			p.ended = append(p.ended, run.Name)
		}
		return nil
	})
	return p
}

// over ends a disruption after some time, and signals that to the workflow.
func (p *theatre) over(after time.Duration, name, ending string, verdict v1beta1.Verdict) {
	p.RegisterDelayedCallback(func() {
		p.endings[name] = v1beta1.ScenarioRun{Ending: ending, Verdict: verdict}
		p.SignalWorkflow(contract.SignalSettled, nil)
	}, after)
}

// done carries the scenario out, and expects this verdict and this message.
func (p *theatre) done(verdict v1beta1.Verdict, message string) Result {
	p.t.Helper()
	p.ExecuteWorkflow(contract.ScenarioWorkflowType, contract.ScenarioInput{Scenario: gameDay})
	var r Result
	if err := p.GetWorkflowResult(&r); err != nil {
		p.t.Fatal(err)
	}
	if r.Verdict != verdict || p.last.Verdict != verdict || p.last.Phase != v1beta1.ScenarioFinished || !strings.Contains(p.last.Message, message) {
		p.t.Errorf("%+v, status %+v; want %s with %q", r, p.last, verdict, message)
	}
	for _, step := range p.last.Steps {
		if step.Phase != v1beta1.ScenarioFinished && step.Phase != v1beta1.ScenarioSkipped || step.EndedAt == nil {
			p.t.Errorf("step %+v is not over", step)
		}
	}
	return r
}

// Steps follow one another, disruptions of one step run side by side; the workflow reads
// nothing while nothing happens.
func TestScenario(t *testing.T) {
	p := newTheatre(t, scenarios.Step{Name: "a", Disruptions: 2}, scenarios.Step{Name: "rest", Wait: time.Hour},
		scenarios.Step{Name: "look", Approval: "is the shop well?"}, scenarios.Step{Name: "b", Disruptions: 1})
	p.over(10*time.Minute, "a1", "expired", v1beta1.VerdictPassed)
	p.over(20*time.Minute, "a2", "expired", v1beta1.VerdictPassed)
	p.RegisterDelayedCallback(func() {
		if p.last.Phase != v1beta1.ScenarioWaiting || p.last.Step != "rest" {
			t.Errorf("status %+v, want that it waits", p.last)
		}
		p.SignalWorkflow(contract.SignalApprove, contract.Approval{Step: "look", By: "too early"})
	}, 40*time.Minute)
	p.RegisterDelayedCallback(func() {
		if p.last.Phase != v1beta1.ScenarioSuspended || p.last.Step != "look" || !strings.Contains(p.last.Message, "is the shop well?") {
			t.Errorf("status %+v, want that it is suspended", p.last)
		}
		if diff := cmp.Diff([]string{"a1", "a2"}, p.begun); diff != "" {
			t.Errorf("begun before the approval (-want +got):\n%s", diff)
		}
		p.SignalWorkflow(contract.SignalApprove, contract.Approval{Step: "a", By: "of another step"})
		p.SignalWorkflow(contract.SignalApprove, contract.Approval{Step: "look", By: "ann"})
		p.over(time.Minute, "b1", "expired", v1beta1.VerdictPassed)
	}, 30*time.Hour)
	p.done(v1beta1.VerdictPassed, "All steps are done.")
	if diff := cmp.Diff([]string{"a1", "a2", "b1"}, p.begun); diff != "" || len(p.ended) > 0 {
		t.Errorf("begun (-want +got):\n%s\ndeleted %v", diff, p.ended)
	}
	if by := p.last.Steps[2].ApprovedBy; by != "ann" {
		t.Errorf("approved by %q, want ann", by)
	}
	if p.looks != 5 { // each step at its begin, and once for each end
		t.Errorf("looked %d times, want 5", p.looks)
	}
}

func TestScenarioOnFailure(t *testing.T) {
	for _, c := range []struct {
		name, ending string
		verdict      v1beta1.Verdict
		continues    bool
		want         v1beta1.Verdict
		steps        int
	}{
		{"it failed, and stops", "expired", v1beta1.VerdictFailed, false, v1beta1.VerdictFailed, 1},
		{"it failed, and goes on", "expired", v1beta1.VerdictFailed, true, v1beta1.VerdictFailed, 2},
		{"nobody can say", "expired", v1beta1.VerdictInconclusive, false, v1beta1.VerdictInconclusive, 1},
		{"it was deleted", "deleted", v1beta1.VerdictAborted, false, v1beta1.VerdictAborted, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newTheatre(t, scenarios.Step{Name: "a", Disruptions: 1, Continues: c.continues}, scenarios.Step{Name: "b", Disruptions: 1})
			p.over(time.Minute, "a1", c.ending, c.verdict)
			p.over(2*time.Minute, "b1", "expired", v1beta1.VerdictPassed)
			p.done(c.want, "")
			if len(p.last.Steps) != c.steps || p.last.Steps[0].Verdict != c.want {
				t.Errorf("steps %+v, want %d", p.last.Steps, c.steps)
			}
		})
	}
}

// A step with a condition is done or skipped by the verdict of one before it, and
// one that was skipped has none.
func TestScenarioBranches(t *testing.T) {
	failed := &v1beta1.ScenarioCondition{Step: "a", Verdict: []v1beta1.Verdict{v1beta1.VerdictFailed, v1beta1.VerdictAborted}}
	passed := &v1beta1.ScenarioCondition{Step: "a", Verdict: []v1beta1.Verdict{v1beta1.VerdictPassed}}
	afterB := &v1beta1.ScenarioCondition{Step: "b", Verdict: []v1beta1.Verdict{v1beta1.VerdictPassed}}
	for _, c := range []struct {
		verdict v1beta1.Verdict
		begun   []string
		skipped []string
	}{
		{v1beta1.VerdictPassed, []string{"a1", "c1"}, []string{"b", "after-b"}},
		{v1beta1.VerdictFailed, []string{"a1", "b1", "after-b1"}, []string{"c"}},
		{v1beta1.VerdictInconclusive, []string{"a1"}, []string{"b", "after-b", "c"}},
	} {
		t.Run(string(c.verdict), func(t *testing.T) {
			p := newTheatre(t, scenarios.Step{Name: "a", Disruptions: 1, Continues: true}, scenarios.Step{Name: "b", Disruptions: 1, When: failed},
				scenarios.Step{Name: "after-b", Disruptions: 1, When: afterB}, scenarios.Step{Name: "c", Disruptions: 1, When: passed})
			p.over(time.Minute, "a1", "expired", c.verdict)
			for _, name := range []string{"b1", "after-b1", "c1"} {
				p.endings[name] = v1beta1.ScenarioRun{Ending: "expired", Verdict: v1beta1.VerdictPassed}
			}
			p.done(c.verdict, "All steps are done.")
			var skipped []string
			for _, at := range p.last.Steps {
				if at.Phase == v1beta1.ScenarioSkipped {
					skipped = append(skipped, at.Name)
				}
			}
			if diff := cmp.Diff(c.begun, p.begun) + cmp.Diff(c.skipped, skipped); diff != "" {
				t.Errorf("begun and skipped (-want +got):\n%s", diff)
			}
		})
	}
}

// Any stop ends the running disruptions first, and no further step begins.
func TestScenarioIsStopped(t *testing.T) {
	for name, stop := range map[string]func(*theatre){
		"the sale begins":                        func(p *theatre) { p.SignalWorkflow(contract.SignalEnd, contract.End{Reason: "the sale begins"}) },
		"the scenario was deleted or ended":      func(p *theatre) { p.SignalWorkflow(contract.SignalEnd, contract.End{}) },
		"its workflow was cancelled in Temporal": func(p *theatre) { p.CancelWorkflow() },
	} {
		t.Run(name, func(t *testing.T) {
			p := newTheatre(t, scenarios.Step{Name: "a", Disruptions: 2, Continues: true}, scenarios.Step{Name: "b", Disruptions: 1})
			p.over(time.Minute, "a1", "expired", v1beta1.VerdictPassed)
			p.RegisterDelayedCallback(func() { stop(p) }, 2*time.Minute)
			p.RegisterDelayedCallback(func() {
				if p.last.Phase != v1beta1.ScenarioStopping || len(p.ended) == 0 || p.last.Message != "Its disruptions are deleted: "+name+"." {
					t.Errorf("status %+v, deleted %v: want that it stops", p.last, p.ended)
				}
			}, time.Hour)
			p.over(2*time.Hour, "a2", "deleted", v1beta1.VerdictAborted)
			p.done(v1beta1.VerdictAborted, "No further step is done: ")
			if len(p.begun) != 2 {
				t.Errorf("begun %v", p.begun)
			}
		})
		t.Run(name+", while it waits", func(t *testing.T) {
			for _, step := range []scenarios.Step{{Name: "a", Wait: time.Hour}, {Name: "a", Approval: "well?"}} {
				p := newTheatre(t, step, scenarios.Step{Name: "b", Disruptions: 1})
				p.RegisterDelayedCallback(func() { stop(p) }, time.Minute)
				p.done(v1beta1.VerdictAborted, "No further step is done: ")
				if len(p.begun) > 0 || len(p.ended) > 0 {
					t.Errorf("begun %v, deleted %v", p.begun, p.ended)
				}
			}
		})
	}
}

// A step that cannot begin, such as during an EmergencyStop, ends the scenario.
func TestScenarioIsHeld(t *testing.T) {
	p := newTheatre(t, scenarios.Step{Name: "a", Disruptions: 1, Continues: true}, scenarios.Step{Name: "b", Disruptions: 1})
	p.stopped = "emergency stop fire"
	p.done(v1beta1.VerdictAborted, "emergency stop fire")
	if len(p.begun) > 0 || len(p.last.Steps) != 1 {
		t.Errorf("begun %v, steps %+v", p.begun, p.last.Steps)
	}
}

func TestScenarioIsRejected(t *testing.T) {
	p := newTheatre(t)
	p.plan = scenarios.Plan{Rejected: "spec.steps[0]: no"}
	p.ExecuteWorkflow(contract.ScenarioWorkflowType, contract.ScenarioInput{Scenario: gameDay})
	var r Result
	if err := p.GetWorkflowResult(&r); err != nil || p.last.Phase != v1beta1.ScenarioRejected || p.last.Message != "spec.steps[0]: no" || r.Verdict != "" {
		t.Errorf("%+v, %v, status %+v", r, err, p.last)
	}
}

// receives sends all notifications to a webhook that always answers, and records them,
// each as a line.
func (p *theatre) receives() (received func() []string) {
	hook := notify.Recipient{Way: notify.Webhook, Least: v1beta1.NotificationInfo}
	p.plan.Notify, p.plan.Requester = &notify.Audience{Recipients: []notify.Recipient{hook}, Purpose: "to be sure"}, "ann"
	p.RegisterWorkflowWithOptions(notification.Workflow, workflow.RegisterOptions{Name: contract.NotificationWorkflowType})
	p.RegisterActivity(&notify.Activities{})
	var mu sync.Mutex
	var all []string
	p.OnActivity((*notify.Activities)(nil).Notify, mock.Anything, mock.Anything).Return(func(_ context.Context, in notify.Delivery) error {
		n := in.Notification
		if n.Object != v1beta1.DisruptionRef(gameDay) || n.Kind != v1beta1.KindDisruptionScenario || n.Purpose != "to be sure" || n.Requester != "ann" {
			p.t.Errorf("told of %+v", n)
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, fmt.Sprintf("%s %s %s: %s", n.Type, n.ID, n.Verdict, n.Message))
		return nil
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// Rule M1: people are notified that a step waits for them, and how it ended.
func TestNotificationsOfAScenario(t *testing.T) {
	p := newTheatre(t, scenarios.Step{Name: "look", Approval: "is the shop well?"}, scenarios.Step{Name: "again", Approval: "still?"}, scenarios.Step{Name: "a", Disruptions: 1})
	received := p.receives()
	for i, step := range []string{"look", "again"} {
		p.RegisterDelayedCallback(func() {
			if got := len(received()); got != i+1 {
				t.Errorf("before step %s is approved %q were told", step, received())
			}
			p.SignalWorkflow(contract.SignalApprove, contract.Approval{Step: step, By: "bob"})
		}, time.Duration(i+1)*time.Hour)
	}
	p.over(3*time.Hour, "a1", "expired", v1beta1.VerdictFailed)
	p.done(v1beta1.VerdictFailed, "step a is Failed")
	want := []string{
		"Warning s1/approvalawaited-1 : Waits for an approval of step look: is the shop well? To approve: squall -n shop approve gameday look",
		"Warning s1/approvalawaited-2 : Waits for an approval of step again: still? To approve: squall -n shop approve gameday again",
		"Warning s1/finished-1 Failed: No further step is done: step a is Failed, and its onFailure is not Continue.",
	}
	if diff := cmp.Diff(want, received()); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}

	p = newTheatre(t)
	p.plan.Rejected = "spec.steps[0]: no"
	received = p.receives()
	p.ExecuteWorkflow(contract.ScenarioWorkflowType, contract.ScenarioInput{Scenario: gameDay})
	if diff := cmp.Diff([]string{"Error s1/rejected-1 : Nothing is done: spec.steps[0]: no"}, received()); diff != "" {
		t.Errorf("told of one that is rejected (-want +got):\n%s", diff)
	}
}

// If the scenario is stopped before it reaches a step that an earlier workflow began, it
// ends that step.
func TestScenarioIsStoppedBeforeItGoesOn(t *testing.T) {
	p := newTheatre(t, scenarios.Step{Name: "a", Disruptions: 1}, scenarios.Step{Name: "b", Disruptions: 1}, scenarios.Step{Name: "c", Disruptions: 1})
	then := metav1.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	p.plan.Status = v1beta1.DisruptionScenarioStatus{Phase: v1beta1.ScenarioRunning, Step: "b", Steps: []v1beta1.ScenarioStepStatus{
		{Name: "a", Phase: v1beta1.ScenarioFinished, Verdict: v1beta1.VerdictPassed, StartedAt: then, EndedAt: &then},
		{Name: "b", Phase: v1beta1.ScenarioRunning, StartedAt: then, Disruptions: []v1beta1.ScenarioRun{{Name: "b1", UID: "u"}}},
	}}
	p.RegisterDelayedCallback(func() { p.SignalWorkflow(contract.SignalEnd, contract.End{Reason: "the sale begins"}) }, 0)
	p.over(time.Hour, "b1", "deleted", v1beta1.VerdictAborted)
	p.done(v1beta1.VerdictAborted, "the sale begins")
	if diff := cmp.Diff([]string{"b1"}, p.ended); diff != "" || len(p.begun) > 0 {
		t.Errorf("deleted (-want +got):\n%s\nbegun %v", diff, p.begun)
	}
}

// A workflow that was terminated is started again: finished steps stay finished.
func TestScenarioGoesOn(t *testing.T) {
	p := newTheatre(t, scenarios.Step{Name: "a", Disruptions: 1, Continues: true}, scenarios.Step{Name: "b", Disruptions: 1})
	then := metav1.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	p.plan.Status = v1beta1.DisruptionScenarioStatus{Phase: v1beta1.ScenarioRunning, Step: "b", Steps: []v1beta1.ScenarioStepStatus{
		{Name: "a", Phase: v1beta1.ScenarioFinished, Verdict: v1beta1.VerdictFailed, StartedAt: then, EndedAt: &then},
		{Name: "b", Phase: v1beta1.ScenarioRunning, StartedAt: then, Disruptions: []v1beta1.ScenarioRun{{Name: "b1", UID: "u"}}},
	}}
	p.over(time.Minute, "b1", "expired", v1beta1.VerdictPassed)
	p.done(v1beta1.VerdictFailed, "All steps are done.")
	if len(p.begun) > 0 {
		t.Errorf("begun again: %v", p.begun)
	}
}
