package scale

import (
	"strings"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"google.golang.org/protobuf/proto"
)

// The limits of a history, whatever the number of targets. Temporal refuses a
// payload of 2 MiB and a workflow with 2,000 pending activities. The limits are
// far below, so that a thousand targets show whatever grows with their number.
const (
	// mostPending are six shards at once, the injection that is awaited, and one that
	// reports a phase.
	mostPending  = 8
	largestEvent = 8 << 10
	// mostBytes is for a whole history of a thousand targets.
	mostBytes = 64 << 10
)

// extent is what Temporal bounds in a history beside its length.
type extent struct {
	// pending is how many activities were scheduled and not closed at once.
	pending int
	// event is the size of the largest event in bytes, all its payloads included.
	event int
	// largest is that event's type.
	largest enums.EventType
}

func extentOf(history *historypb.History) (e extent) {
	pending := 0
	for _, event := range history.GetEvents() {
		switch event.EventType {
		case enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
			pending++
		case enums.EVENT_TYPE_ACTIVITY_TASK_COMPLETED, enums.EVENT_TYPE_ACTIVITY_TASK_FAILED,
			enums.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT, enums.EVENT_TYPE_ACTIVITY_TASK_CANCELED:
			pending--
		}
		e.pending = max(e.pending, pending)
		if size := proto.Size(event); size > e.event {
			e.event, e.largest = size, event.EventType
		}
	}
	return e
}

// withinLimits wants the history far below Temporal's limits (rule T7).
func (w scale) withinLimits(history *historypb.History) {
	w.Helper()
	e := extentOf(history)
	w.Logf("at most %d activities pending, largest event %d bytes (%s)", e.pending, e.event, e.largest)
	if e.pending > mostPending {
		w.Errorf("%d activities were pending at once, want at most %d", e.pending, mostPending)
	}
	if e.event > largestEvent {
		w.Errorf("event %s has %d bytes, want at most %d", e.largest, e.event, largestEvent)
	}
}

func TestExtentOf(t *testing.T) {
	history := &historypb.History{}
	for _, kind := range []enums.EventType{
		enums.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED,
		enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, enums.EVENT_TYPE_ACTIVITY_TASK_STARTED,
		enums.EVENT_TYPE_ACTIVITY_TASK_COMPLETED, enums.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT,
		enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED,
		enums.EVENT_TYPE_ACTIVITY_TASK_FAILED, enums.EVENT_TYPE_ACTIVITY_TASK_CANCELED, enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED,
	} {
		history.Events = append(history.Events, &historypb.HistoryEvent{EventType: kind})
	}
	large := &commonpb.Payloads{Payloads: []*commonpb.Payload{{Data: []byte(strings.Repeat("x", 5000))}}}
	history.Events[4].Attributes = &historypb.HistoryEvent_ActivityTaskCompletedEventAttributes{
		ActivityTaskCompletedEventAttributes: &historypb.ActivityTaskCompletedEventAttributes{Result: large},
	}
	e := extentOf(history)
	if e.pending != 3 || e.event < 5000 || e.event > 5100 || e.largest != enums.EVENT_TYPE_ACTIVITY_TASK_COMPLETED {
		t.Errorf("extent = %+v, want 3 pending and some 5000 bytes of a completed activity", e)
	}
}
