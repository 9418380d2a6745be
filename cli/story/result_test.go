package story

import (
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/squall-chaos/squall/cli/view"
)

func written(texts ...string) *commonpb.Payloads {
	all := &commonpb.Payloads{}
	for _, text := range texts {
		all.Payloads = append(all.Payloads, &commonpb.Payload{Data: []byte(text)})
	}
	return all
}

func TestRequesterOf(t *testing.T) {
	started := func(input ...string) *historypb.HistoryEvent {
		return &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowExecutionStartedEventAttributes{
			WorkflowExecutionStartedEventAttributes: &historypb.WorkflowExecutionStartedEventAttributes{Input: written(input...)}}}
	}
	completed := func(result string) *historypb.HistoryEvent {
		return &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_ActivityTaskCompletedEventAttributes{
			ActivityTaskCompletedEventAttributes: &historypb.ActivityTaskCompletedEventAttributes{Result: written(result)}}}
	}
	marked := func(result string) *historypb.HistoryEvent {
		return &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_MarkerRecordedEventAttributes{
			MarkerRecordedEventAttributes: &historypb.MarkerRecordedEventAttributes{Details: map[string]*commonpb.Payloads{"result": written(result)}}}}
	}
	for _, test := range []struct {
		name   string
		events []*historypb.HistoryEvent
		want   string
	}{
		{"a local activity made the plan", []*historypb.HistoryEvent{started(`{"disruption":{}}`), marked(`1`), marked(`{"specHash":"1","requester":"ann"}`)}, "ann"},
		{"an activity made the plan", []*historypb.HistoryEvent{started(`{}`), completed(`[]`), completed(`{"requester":"ann"}`)}, "ann"},
		{"a workflow that continued as new", []*historypb.HistoryEvent{started(`{}`, `{"plan":{"requester":"ann"},"phase":"Holding"}`)}, "ann"},
		{"unknown", []*historypb.HistoryEvent{started(`{}`, `{"phase":"Holding"}`), marked(`{"specHash":"1"}`)}, ""},
		{"no events", nil, ""},
	} {
		if got := requesterOf(test.events); got != test.want {
			t.Errorf("%s: requesterOf() = %q, want %q", test.name, got, test.want)
		}
	}
}

func TestResultOf(t *testing.T) {
	for _, test := range []struct {
		result string
		want   view.Outcome
		tone   view.Tone
	}{
		{`{"ending":"expired","targets":2,"summary":"s"}`, view.Passed, view.Good},
		{`{"ending":"expired","targets":2,"summary":"s","notVerified":["node-1"]}`, view.Passed, view.Careful},
		{`{"ending":"expired","targets":2,"summary":"s","verdict":"Failed"}`, view.Failed, view.Bad},
		{`{"ending":"rejected","summary":"s"}`, view.Rejected, view.Bad},
		{`{"ending":"deleted","targets":2,"summary":"s"}`, view.Aborted, view.Bad},
		{`{"ending":"emergency stop all","targets":2,"summary":"s"}`, view.Aborted, view.Bad},
		{`{"ending":"expired","targets":0,"summary":"s"}`, view.Inconclusive, view.Careful},
	} {
		if got := resultOf(written(test.result)); got.Outcome != test.want || got.Tone != test.tone || got.Why != "s" {
			t.Errorf("resultOf(%s) = %+v, want %s", test.result, got, test.want)
		}
	}
	if got := resultOf(nil); got.Outcome != "" {
		t.Errorf("resultOf(nil) = %+v, want none", got)
	}
}
