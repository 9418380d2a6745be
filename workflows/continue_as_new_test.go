package workflows

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/clean"
	"github.com/squall-chaos/squall/test/temporalserver"
	"github.com/squall-chaos/squall/workflows/contract"
)

var stuckPods = clean.Result{Remaining: 1, Left: []chaospod.LeftPod{failedPod}}

// A new run continues a disruption whose history is long. All that arrives in the very
// task that ends the old run, in any order, counts in the new one. Real server, real
// worker.
func TestNothingIsLostWhenNewRunBegins(t *testing.T) {
	server := temporalserver.Shared(t)
	t.Run("while it holds: end, observation, resume by update", func(t *testing.T) {
		s := newStage(t, server)
		s.cleans = []clean.Result{stuckPods, {}}
		first := s.lastTaskOfARun()
		answers := make(chan string, 1)
		go func() {
			answer, err := s.resume(contract.Resume{Action: "retry", By: "ann"})
			if err != nil {
				answer = err.Error()
			}
			answers <- answer
		}()
		s.eventually("the update waits for a worker", s.updateWaits)
		s.signal(contract.SignalObserved, contract.Observation{Hash: "last", SpecChanged: true})
		s.signal(contract.SignalEnd, nil)
		s.decide()
		if got := <-answers; got != "cleaning again: web-1" {
			t.Errorf("the update was answered %q", got)
		}
		carried := s.carried(first)
		if carried.Ending != "deleted" || len(carried.Decided) != 1 || carried.Observed == nil || !carried.Observed.SpecChanged {
			t.Errorf("the new run was given %+v, want the end, the resume and the observation", carried)
		}
		if result := s.result(); result.Ending != "deleted" || !cmp.Equal(result.Decisions, []string{"retry by ann"}) {
			t.Errorf("result = %+v, want deleted, and ann's retry", result)
		}
		s.keep("new-run-while-held", first)
		s.keep("carried-while-held", "")
	})
	t.Run("while it holds: resume by signal, then more", func(t *testing.T) {
		s := newStage(t, server)
		first := s.lastTaskOfARun()
		s.signal(contract.SignalResume, contract.Resume{Action: "release", By: "ann", Reason: "scrap"})
		s.signal(contract.SignalObserved, contract.Observation{Hash: "last"})
		s.decide()
		if carried := s.carried(first); len(carried.Decided) != 1 || carried.Ending != "" || carried.Observed == nil {
			t.Errorf("the new run was given %+v, want the resume, the observation and no end", carried)
		}
		s.eventually("the new run releases", func() bool { return len(s.state().Resumes) == 1 })
		s.signal(contract.SignalEnd, nil)
		if result := s.result(); result.ReleasedPods != 2 || !cmp.Equal(result.Decisions, []string{"release web-1 by ann: scrap"}) {
			t.Errorf("result = %+v, want both chaos pods of web-1 released by ann", result)
		}
	})
	t.Run("while it holds: cancelled by a person", func(t *testing.T) {
		s := newStage(t, server)
		first := s.lastTaskOfARun()
		s.must(s.temporal.CancelWorkflow(t.Context(), s.id, ""))
		s.decide()
		if carried := s.carried(first); carried.Ending != "cancelled" {
			t.Errorf("the new run was given %+v, want cancelled", carried)
		}
		if result := s.result(); result.Ending != "cancelled" {
			t.Errorf("result = %+v, want cancelled", result)
		}
	})
	t.Run("while it is stuck: a resume of each sort", func(t *testing.T) {
		s := newStage(t, server)
		first := s.lastTaskOfAStuckRun()
		s.signal(contract.SignalResume, contract.Resume{Action: "release", By: "ann", Reason: "scrap"})
		s.decide()
		if carried := s.carried(first); len(carried.Decided) != 1 || carried.Decided[0].Action != contract.ActionRelease {
			t.Errorf("the new run was given %+v, want the release", carried)
		}
		if result := s.result(); result.ReleasedPods != 1 {
			t.Errorf("result = %+v, want one released", result)
		}
		s.keep("new-run-while-stuck", first)
		s.keep("carried-while-stuck", "")
	})
}

// The same in the test environment, where the order of arrival is exact.
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
