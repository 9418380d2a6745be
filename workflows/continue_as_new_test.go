package workflows

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/squall-chaos/squall/activities/clean"
	"github.com/squall-chaos/squall/test/temporalserver"
	"github.com/squall-chaos/squall/workflows/contract"
)

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
