package matrix

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/test/sample"
	"github.com/squall-chaos/squall/test/world"
)

// large is more targets than chaos pods are made for within a workflow task.
const large = 25

// ofEach is how many points of a large disruption are tried of those that differ in
// nothing but the target. The report has the number of all points.
const ofEach = 2

var oneOfMany = regexp.MustCompile(`web-\d+`)

// class is a fault without which target of many it is about.
func (f fault) class() string { return oneOfMany.ReplaceAllString(f.String(), "web-N") }

// sampled are the faults of which at most some of each class are left, chosen by the seed.
func sampled(faults []fault, each int, seed sample.Seed) (some []fault) {
	byClass := map[string][]fault{}
	for _, f := range faults {
		byClass[f.class()] = append(byClass[f.class()], f)
	}
	for _, f := range faults {
		all := byClass[f.class()]
		slices.SortFunc(all, func(a, b fault) int { return cmp.Compare(seed.Rank(a.String()), seed.Rank(b.String())) })
		if slices.Contains(all[:min(each, len(all))], f) {
			some = append(some, f)
		}
	}
	return some
}

// oneDiesOfMany is a target that goes, whereupon the workflow, whose history is always
// long, goes on in a new run, and is ended there.
func (r *run) oneDiesOfMany() error {
	first, err := r.runID()
	if err != nil {
		return err
	}
	if err := r.world.Kube.CoreV1().Pods(r.shop).Delete(r.ctx, "web-1", metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := r.injected(r.targets - 1); err != nil {
		return err
	}
	err = r.until("it goes on in a new run", func() bool {
		now, err := r.runID()
		return err == nil && now != first && r.see() && r.d.Status.DesiredTargetsCount == r.targets-1
	})
	if err != nil {
		return err
	}
	return r.deleted()
}

// runID is that of the workflow's last run.
func (r *run) runID() (string, error) {
	described, err := r.temporal.DescribeWorkflowExecution(r.ctx, world.WorkflowOf(r.d), "")
	return described.GetWorkflowExecutionInfo().GetExecution().GetRunId(), err
}

// lengthen changes Temporal's replies to the worker: every workflow task suggests a new
// run, as after a long history. Past tasks suggest it, too, so that a replay decides like
// the first execution.
func lengthen(method string, reply []byte) []byte {
	switch method {
	case "PollWorkflowTaskQueue":
		return lengthened(&workflowservice.PollWorkflowTaskQueueResponse{}, reply)
	case "RespondWorkflowTaskCompleted":
		return lengthened(&workflowservice.RespondWorkflowTaskCompletedResponse{}, reply)
	case "GetWorkflowExecutionHistory":
		return lengthened(&workflowservice.GetWorkflowExecutionHistoryResponse{}, reply)
	}
	return reply
}

func lengthened(message proto.Message, reply []byte) []byte {
	var history *historypb.History
	switch m := read(message, reply).(type) {
	case *workflowservice.PollWorkflowTaskQueueResponse:
		history = m.GetHistory()
	case *workflowservice.RespondWorkflowTaskCompletedResponse:
		history = m.GetWorkflowTask().GetHistory()
	case *workflowservice.GetWorkflowExecutionHistoryResponse:
		history = m.GetHistory()
	}
	for _, event := range history.GetEvents() {
		if event.GetEventType() == enums.EVENT_TYPE_WORKFLOW_TASK_STARTED {
			event.GetWorkflowTaskStartedEventAttributes().SuggestContinueAsNew = true
		}
	}
	changed, err := proto.Marshal(message)
	if err != nil {
		return reply
	}
	return changed
}

func TestSampled(t *testing.T) {
	var faults []fault
	for target := range large {
		for _, kind := range []how{before, after} {
			faults = append(faults, fault{kind, worker, fmt.Sprintf("worker create pods web-%d/cpu-pressure #1", target)})
		}
	}
	faults = append(faults, fault{before, worker, "worker completes Finish #1"})
	some := sampled(faults, ofEach, 1)
	if want := 2*ofEach + 1; len(some) != want {
		t.Fatalf("%d of %d faults are left, want %d: %v", len(some), len(faults), want, some)
	}
	for _, f := range some {
		if !slices.Contains(faults, f) || strings.Contains(f.String(), "web-N") {
			t.Errorf("%s is none of the faults", f)
		}
	}
	if again := sampled(slices.Clone(faults), ofEach, 1); !slices.Equal(again, some) {
		t.Errorf("once %v is left, then %v", some, again)
	}
}

func TestLengthen(t *testing.T) {
	started := &historypb.HistoryEvent{
		EventId: 3, EventType: enums.EVENT_TYPE_WORKFLOW_TASK_STARTED,
		Attributes: &historypb.HistoryEvent_WorkflowTaskStartedEventAttributes{WorkflowTaskStartedEventAttributes: &historypb.WorkflowTaskStartedEventAttributes{}},
	}
	history := &historypb.History{Events: []*historypb.HistoryEvent{{EventId: 2, EventType: enums.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED}, started}}
	task := &workflowservice.PollWorkflowTaskQueueResponse{History: history}
	for method, message := range map[string]proto.Message{
		"PollWorkflowTaskQueue":        task,
		"RespondWorkflowTaskCompleted": &workflowservice.RespondWorkflowTaskCompletedResponse{WorkflowTask: task},
		"GetWorkflowExecutionHistory":  &workflowservice.GetWorkflowExecutionHistoryResponse{History: history},
	} {
		reply, err := proto.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		want := proto.Clone(message)
		switch m := want.(type) {
		case *workflowservice.PollWorkflowTaskQueueResponse:
			m.History.Events[1].GetWorkflowTaskStartedEventAttributes().SuggestContinueAsNew = true
		case *workflowservice.RespondWorkflowTaskCompletedResponse:
			m.WorkflowTask.History.Events[1].GetWorkflowTaskStartedEventAttributes().SuggestContinueAsNew = true
		case *workflowservice.GetWorkflowExecutionHistoryResponse:
			m.History.Events[1].GetWorkflowTaskStartedEventAttributes().SuggestContinueAsNew = true
		}
		got := read(proto.Clone(message), lengthen(method, reply))
		if !proto.Equal(got, want) {
			t.Errorf("%s: %v, want %v", method, got, want)
		}
	}
	if got := lengthen("RecordActivityTaskHeartbeat", []byte("x")); string(got) != "x" {
		t.Errorf("what is no history became %q", got)
	}
}
