package workflows

import (
	"testing"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/temporalserver"
	"github.com/squall-chaos/squall/workflows/contract"
)

// Rule P13: a prober that does not end when it is cancelled has the only slot of its task
// queue. Even then, the task that ends a disruption starts the cleaning, which runs
// beside the prober.
func TestAFullProbeQueueDelaysNoCleaning(t *testing.T) {
	s := newStageOf(t, temporalserver.Shared(t), 1)
	s.guard()
	s.prober.deaf = true
	s.plan.SteadyState.GateTimeoutSeconds = 3600
	s.selections = s.selections[:1] // for both
	s.plan.SteadyState.Probes[0].Phases = []v1beta1.ProbePhase{v1beta1.ProbeBefore, v1beta1.ProbeDuring}
	s.begin()
	s.eventually("it holds", func() bool { return s.state().Injected })
	waits := &stage{T: t, temporal: s.temporal, id: s.id + "/waits"}
	s.beginAs(waits.id)
	s.eventually("another one waits for its probes to be asked", func() bool {
		asked, started := waits.asked()
		return asked && !started
	})

	close(s.prober.lost)
	if result := s.result(); result.Verdict != v1beta1.VerdictAborted {
		t.Errorf("result = %+v, want it aborted", result)
	}
	wantCleanedAtOnce(t, s.history(""), contract.SignalProbe)
	if _, started := waits.asked(); started {
		t.Error("there was a slot for another prober: the queue was not full")
	}
	waits.signal(contract.SignalEnd, contract.End{Reason: "enough"})
	waits.result()
	wantCleanedAtOnce(t, waits.history(""), contract.SignalEnd)
}

// asked returns whether a prober was started, and whether it runs.
func (s *stage) asked() (asked, started bool) {
	s.Helper()
	described, err := s.temporal.DescribeWorkflowExecution(s.Context(), s.id, "")
	s.must(err)
	for _, pending := range described.PendingActivities {
		if pending.ActivityType.GetName() == "AskProbes" {
			return true, pending.State != enums.PENDING_ACTIVITY_STATE_SCHEDULED
		}
	}
	return false, false
}

// wantCleanedAtOnce checks that the first task after the last signal of a name started a
// cleaning.
func wantCleanedAtOnce(t *testing.T, events []*history.HistoryEvent, signal string) {
	t.Helper()
	signalled, task, by := int64(0), int64(0), int64(0)
	for _, event := range events {
		switch {
		case event.GetWorkflowExecutionSignaledEventAttributes().GetSignalName() == signal:
			signalled, task = event.EventId, 0
		case event.EventType == enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED && signalled > 0 && task == 0:
			task = event.EventId
		case event.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName() == "CleanChaosPods" && by == 0:
			by = event.GetActivityTaskScheduledEventAttributes().GetWorkflowTaskCompletedEventId()
		}
	}
	if signalled == 0 || task == 0 || by != task {
		t.Errorf("signal %s is event %d, the task that took it in %d, the one that asked for the cleaning %d", signal, signalled, task, by)
	}
}
