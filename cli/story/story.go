// Package story tells what became of disruptions, from what Temporal keeps of
// their workflows. It needs no cluster, and works when the objects are long gone.
package story

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/squall-chaos/squall/cli/chart"
	"github.com/squall-chaos/squall/workflows/connect"
	"github.com/squall-chaos/squall/workflows/contract"
)

// Run is a disruption that has ended.
type Run struct {
	Disruption string    `json:"disruption"`
	UID        string    `json:"uid"`
	Kinds      string    `json:"kinds,omitempty"`
	Status     string    `json:"status"`
	Began      time.Time `json:"began"`
	Ended      time.Time `json:"ended"`
	Lasted     string    `json:"lasted"`
}

// List are those of a namespace that have ended, of all with an empty one, newest
// first and at most limit.
func List(ctx context.Context, t client.Client, namespace string, limit int) ([]Run, error) {
	query := fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus != 'Running'", contract.WorkflowType)
	if namespace != "" {
		query += fmt.Sprintf(" AND %s = '%s'", contract.AttributeNamespace, namespace)
	}
	runs := []Run{}
	err := each(ctx, t, query, func(w *workflowpb.WorkflowExecutionInfo) bool {
		ref, ours := contract.ParseWorkflowID(w.GetExecution().GetWorkflowId())
		if !ours || w.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW {
			return true
		}
		began, ended := w.GetStartTime().AsTime(), w.GetCloseTime().AsTime()
		runs = append(runs, Run{
			Disruption: ref.Namespace + "/" + ref.Name, UID: string(ref.UID), Kinds: kindsOf(w), Status: w.GetStatus().String(),
			Began: began, Ended: ended, Lasted: duration.HumanDuration(ended.Sub(began)),
		})
		return len(runs) < limit
	})
	return runs, err
}

// each tells of the workflows that a query finds, until tell returns false.
func each(ctx context.Context, t client.Client, query string, tell func(*workflowpb.WorkflowExecutionInfo) bool) error {
	request := &workflowservice.ListWorkflowExecutionsRequest{Query: query}
	for {
		page, err := t.ListWorkflow(ctx, request)
		if err != nil {
			return fmt.Errorf("list workflows: %w", connect.Advise(err))
		}
		for _, w := range page.GetExecutions() {
			if !tell(w) {
				return nil
			}
		}
		if request.NextPageToken = page.GetNextPageToken(); len(request.NextPageToken) == 0 {
			return nil
		}
	}
}

func kindsOf(w *workflowpb.WorkflowExecutionInfo) string {
	var kinds []string
	payload := w.GetSearchAttributes().GetIndexedFields()[contract.AttributeKinds]
	if payload == nil || converter.GetDefaultDataConverter().FromPayload(payload, &kinds) != nil {
		return ""
	}
	return strings.Join(kinds, ",")
}

// Story is what was done for one disruption.
type Story struct {
	Disruption string `json:"disruption"`
	Workflow   string `json:"workflow"`
	Steps      []Step `json:"steps"`
	// Answers are those to its probes over time.
	Answers []chart.Series `json:"answers,omitempty"`
	// Result is the workflow's own account of the end; empty while it runs.
	Result string `json:"result,omitempty"`
}

// Step is something that was done or happened.
type Step struct {
	Time time.Time `json:"time"`
	Text string    `json:"text"`
}

// Of is the story of the newest disruption of a name.
func Of(ctx context.Context, t client.Client, namespace, name string) (Story, error) {
	var newest *workflowpb.WorkflowExecutionInfo
	query := fmt.Sprintf("WorkflowType = '%s' AND WorkflowId STARTS_WITH 'disruption/%s/%s/'", contract.WorkflowType, namespace, name)
	err := each(ctx, t, query, func(w *workflowpb.WorkflowExecutionInfo) bool {
		if newest == nil || w.GetStartTime().AsTime().After(newest.GetStartTime().AsTime()) {
			newest = w
		}
		return true
	})
	if err != nil {
		return Story{}, err
	}
	if newest == nil {
		return Story{}, fmt.Errorf("temporal knows of no disruption %s/%s: squall history -A lists those it knows; what is older than its retention is gone", namespace, name)
	}
	told := Story{Disruption: namespace + "/" + name, Workflow: newest.GetExecution().GetWorkflowId(), Steps: []Step{}}
	var answered answers
	events := t.GetWorkflowHistory(ctx, told.Workflow, newest.GetExecution().GetRunId(), false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			return told, fmt.Errorf("read the history of workflow %s: %w", told.Workflow, connect.Advise(err))
		}
		answered.add(event)
		if text := stepOf(event); text != "" {
			told.Steps = append(told.Steps, Step{event.GetEventTime().AsTime(), text})
		}
		if done := event.GetWorkflowExecutionCompletedEventAttributes(); done != nil {
			told.Result = summaryOf(done.GetResult())
		}
	}
	told.Answers = answered.series()
	return told, nil
}

// stepOf says an event in words; empty for those that say nothing to a person.
func stepOf(e *historypb.HistoryEvent) string {
	summary := textOf(e.GetUserMetadata().GetSummary())
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
		return "the workflow begins: " + summary
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		return join(e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName(), summary)
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED:
		return "failed: " + e.GetActivityTaskFailedEventAttributes().GetFailure().GetMessage()
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
		return "timed out: " + e.GetActivityTaskTimedOutEventAttributes().GetFailure().GetMessage()
	case enumspb.EVENT_TYPE_TIMER_STARTED:
		return join("waits "+e.GetTimerStartedEventAttributes().GetStartToFireTimeout().AsDuration().Round(100*time.Millisecond).String(), summary)
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
		return "is told: " + e.GetWorkflowExecutionSignaledEventAttributes().GetSignalName()
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED:
		return "a person decides: " + textOf(first(e.GetWorkflowExecutionUpdateAcceptedEventAttributes().GetAcceptedRequest().GetInput().GetArgs()))
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
		enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED:
		return "the workflow ends: " + e.GetEventType().String()
	}
	return ""
}

func join(what, summary string) string {
	if summary == "" {
		return what
	}
	return what + ": " + summary
}

func first(payloads *commonpb.Payloads) *commonpb.Payload {
	if len(payloads.GetPayloads()) == 0 {
		return nil
	}
	return payloads.GetPayloads()[0]
}

// textOf is a payload as text; a text without its quotes.
func textOf(payload *commonpb.Payload) string {
	var text string
	if json.Unmarshal(payload.GetData(), &text) == nil {
		return text
	}
	return string(payload.GetData())
}

func summaryOf(result *commonpb.Payloads) string {
	var said struct {
		Summary string `json:"summary"`
	}
	if json.Unmarshal(first(result).GetData(), &said) != nil {
		return ""
	}
	return said.Summary
}
