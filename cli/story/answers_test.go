package story

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/squall-chaos/squall/activities/steadystate"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/chart"
)

// The picture has the results of AskProbes. For an AskProbes that ended without a result it
// has the state left to the next.
func TestAnswersOfAHistory(t *testing.T) {
	payloads := func(value any) *commonpb.Payloads {
		data, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return &commonpb.Payloads{Payloads: []*commonpb.Payload{{Data: data}}}
	}
	scheduled := func(id int64, in steadystate.Input) *historypb.HistoryEvent {
		return &historypb.HistoryEvent{EventId: id, Attributes: &historypb.HistoryEvent_ActivityTaskScheduledEventAttributes{
			ActivityTaskScheduledEventAttributes: &historypb.ActivityTaskScheduledEventAttributes{ActivityType: &commonpb.ActivityType{Name: "AskProbes"}, Input: payloads(in)}}}
	}
	completed := func(id int64, out steadystate.Result) *historypb.HistoryEvent {
		return &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_ActivityTaskCompletedEventAttributes{
			ActivityTaskCompletedEventAttributes: &historypb.ActivityTaskCompletedEventAttributes{ScheduledEventId: id, Result: payloads(out)}}}
	}
	began := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	one, two := [][3]int32{{1, 0, 0}}, [][3]int32{{1, 0, 0}, {0, 2, 0}}
	left := steadystate.Snapshot{Courses: []steadystate.Course{{Probe: "web", Seconds: 1, Points: two}}}
	during := steadystate.Input{Phase: v1beta1.ProbeDuring, Began: began.Add(time.Minute), Session: 2}
	resumed := during
	resumed.Session, resumed.Resume = 3, &left
	var found answers
	for _, event := range []*historypb.HistoryEvent{
		scheduled(5, steadystate.Input{Phase: v1beta1.ProbeBefore, Began: began, Session: 1}),
		completed(5, steadystate.Result{Courses: []steadystate.Course{{Probe: "web", Seconds: 1, Points: one}, {Probe: "web", Group: steadystate.GroupControl, Seconds: 2, Points: two}}}),
		completed(4, steadystate.Result{Courses: []steadystate.Course{{Probe: "another activity", Points: one}}}),
		scheduled(9, during), scheduled(12, resumed),
	} {
		found.add(event)
	}
	want := []chart.Series{
		{Probe: "web", Group: "targets", Phase: "Before", Began: began, Seconds: 1, Points: one},
		{Probe: "web", Group: chart.Control, Phase: "Before", Began: began, Seconds: 2, Points: two},
		{Probe: "web", Group: "targets", Phase: "During", Began: began.Add(time.Minute), Seconds: 1, Points: two},
	}
	if diff := cmp.Diff(want, found.series()); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}
