package disruption

import (
	"errors"
	"testing"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/clean"
	"github.com/squall-chaos/squall/workflows/contract"
)

var stuckPods = clean.Result{Remaining: 1, Left: []chaospod.LeftPod{failedPod}}

// All that arrives in the very task that ends the old run counts in the new one. Here the
// order of arrival is exact; TestNothingIsLostWhenNewRunBegins has a real server.
func TestStatePassedToNewRun(t *testing.T) {
	tests := []struct {
		name string
		// last is called during the read after which the run ends.
		last func(w *world)
		want func(s State) bool
	}{
		{"nothing", func(*world) {}, func(s State) bool { return s.Ending == "" && len(s.Decided) == 0 && s.Observed == nil }},
		{"the end", (*world).end, func(s State) bool { return s.Ending == "deleted" }},
		{"an observation", func(w *world) { w.observe(contract.Observation{Hash: "9"}) },
			func(s State) bool { return s.Observed != nil && s.Observed.Hash == "9" }},
		{"an edit, and an observation after it", func(w *world) {
			w.observe(contract.Observation{Hash: "8", SpecChanged: true})
			w.observe(contract.Observation{Hash: "9"})
		}, func(s State) bool { return s.Observed != nil && s.Observed.Hash == "9" && s.Observed.SpecChanged }},
		{"a resume by signal", func(w *world) { w.env.SignalWorkflow(contract.SignalResume, contract.Resume{Action: "retry"}) },
			func(s State) bool { return len(s.Decided) == 1 && s.Decided[0].Action == "retry" }},
		{"a resume by update", func(w *world) {
			w.env.UpdateWorkflow(contract.UpdateResume, "", &answer{}, contract.Resume{Action: "retry"})
		}, func(s State) bool { return len(s.Decided) == 1 && s.Decided[0].Action == "retry" }},
		{"a resume, and the end", func(w *world) {
			w.env.UpdateWorkflow(contract.UpdateResume, "", &answer{}, contract.Resume{Action: "retry"})
			w.end()
		}, func(s State) bool { return len(s.Decided) == 1 && s.Ending == "deleted" }},
		{"a person's cancellation", func(w *world) { w.env.CancelWorkflow() }, func(s State) bool { return s.Ending == "cancelled" }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.plan.Static, w.cleaning = true, time.Minute
			w.endedCleans = []clean.Result{stuckPods}
			w.after(time.Minute, func() { w.observe(contract.Observation{Hash: "1", Ended: 1}) })
			w.after(6*time.Minute, func() {
				w.env.SetContinueAsNewSuggested(true)
				w.observe(contract.Observation{Hash: "2", Ended: 1})
			})
			w.after(6*time.Minute+30*time.Second, func() { test.last(w) })
			state := w.renews(t)
			if !test.want(state) || len(state.Left) != 1 || state.Shards != 1 || state.Plan == nil {
				t.Errorf("the new run was given %+v, want %s and all that was known", state, test.name)
			}
		})
	}
}

// If a new run interrupts a read of the injection, it repeats the read.
func TestNewRunReadsTheInjectionAgain(t *testing.T) {
	w := newWorld(t)
	w.plan.Static = true
	w.endedCleans = []clean.Result{{Lost: 1}}
	w.after(time.Minute, func() {
		w.env.SetContinueAsNewSuggested(true)
		w.injecting = time.Hour
		w.observe(contract.Observation{Hash: "1", TargetsLost: 1})
	})
	if state := w.renews(t); state.Injected || state.Targets != 1 {
		t.Errorf("the new run was given %+v, want one target, and the look to take again", state)
	}
}

// renews runs until a new run begins, and returns the state passed to it.
func (w *world) renews(t *testing.T) State {
	t.Helper()
	w.env.ExecuteWorkflow(contract.WorkflowType, Input{Input: contract.Input{Disruption: ref}})
	var again *workflow.ContinueAsNewError
	if err := w.env.GetWorkflowError(); !errors.As(err, &again) {
		t.Fatalf("the run ended with %v, want a new run", err)
	}
	var in Input
	if err := converter.GetDefaultDataConverter().FromPayloads(again.Input, &in); err != nil || in.Carried == nil {
		t.Fatalf("the new run was given %+v, %v", in, err)
	}
	return *in.Carried
}
