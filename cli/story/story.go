// Package story describes ended disruptions from their workflows in Temporal. It needs no
// cluster, and works when the objects are long gone.
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
	"github.com/squall-chaos/squall/cli/view"
	"github.com/squall-chaos/squall/workflows/connect"
	"github.com/squall-chaos/squall/workflows/contract"
)

// Run is a disruption that has ended.
type Run struct {
	Disruption string `json:"disruption"`
	UID        string `json:"uid"`
	Kinds      string `json:"kinds,omitempty"`
	// Status is that of the workflow in Temporal.
	Status string `json:"status"`
	// Result is how the disruption ended: Passed, Failed, Aborted, Inconclusive or
	// Rejected; empty for a workflow without a result, such as a terminated one.
	Result view.Outcome `json:"result,omitempty"`
	Tone   view.Tone    `json:"-"`
	// Why explains the result, and Ending is the reason of the end, such as expired.
	Why    string `json:"why,omitempty"`
	Ending string `json:"ending,omitempty"`
	// Requester is the user who asked for it; empty if that is unknown.
	Requester string    `json:"requester,omitempty"`
	Began     time.Time `json:"began"`
	Ended     time.Time `json:"ended"`
	Lasted    string    `json:"lasted"`
}

// Query selects ended disruptions.
type Query struct {
	// Namespace of the disruptions; empty for all.
	Namespace string
	// Since is the earliest end; zero for any.
	Since time.Time
	// Limit is how many are listed at most, the newest; 0 for all.
	Limit int
	// TemporalNamespace is where their workflows are.
	TemporalNamespace string
}

func (q Query) String() string {
	text := fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus != 'Running'", contract.WorkflowType)
	if q.Namespace != "" {
		text += fmt.Sprintf(" AND %s = '%s'", contract.AttributeNamespace, q.Namespace)
	}
	if !q.Since.IsZero() {
		text += fmt.Sprintf(" AND CloseTime >= '%s'", q.Since.UTC().Format(time.RFC3339))
	}
	return text
}

// List returns the disruptions that a query selects, newest first.
func List(ctx context.Context, t client.Client, q Query) ([]Run, error) {
	runs, executions := []Run{}, []*commonpb.WorkflowExecution{}
	err := each(ctx, t, q.String(), func(w *workflowpb.WorkflowExecutionInfo) bool {
		ref, ours := contract.ParseWorkflowID(w.GetExecution().GetWorkflowId())
		if !ours || w.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW {
			return true
		}
		began, ended := w.GetStartTime().AsTime(), w.GetCloseTime().AsTime()
		runs = append(runs, Run{
			Disruption: ref.Namespace + "/" + ref.Name, UID: string(ref.UID), Kinds: kindsOf(w), Status: w.GetStatus().String(),
			Began: began, Ended: ended, Lasted: duration.HumanDuration(ended.Sub(began)),
		})
		executions = append(executions, w.GetExecution())
		return q.Limit <= 0 || len(runs) < q.Limit
	})
	if err != nil {
		return runs, err
	}
	return runs, complete(ctx, t, q.TemporalNamespace, runs, executions)
}

// each calls use for the workflows that a query finds, until use returns false.
func each(ctx context.Context, t client.Client, query string, use func(*workflowpb.WorkflowExecutionInfo) bool) error {
	request := &workflowservice.ListWorkflowExecutionsRequest{Query: query}
	for {
		page, err := t.ListWorkflow(ctx, request)
		if err != nil {
			return fmt.Errorf("list workflows: %w", connect.Advise(err))
		}
		for _, w := range page.GetExecutions() {
			if !use(w) {
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

// Story has the steps and the result of one disruption.
type Story struct {
	Disruption string `json:"disruption"`
	Workflow   string `json:"workflow"`
	// Requester is the user who asked for it; empty if that is unknown.
	Requester string   `json:"requester,omitempty"`
	Kinds     []string `json:"kinds,omitempty"`
	// InjectedAt is when every target was injected; unset if that never happened.
	InjectedAt *time.Time `json:"injectedAt,omitempty"`
	// Steps are for a person, Events are all that the workflow did.
	Steps  []Step `json:"steps"`
	Events []Step `json:"events,omitempty"`
	// Probes are their last states.
	Probes []ProbeState `json:"probes,omitempty"`
	// Answers are those to its probes over time.
	Answers []chart.Series `json:"answers,omitempty"`
	// Outcome is how it ended, and Result the workflow's own account of it. Both are empty
	// while it runs.
	Outcome view.Outcome `json:"outcome,omitempty"`
	Result  string       `json:"result,omitempty"`
	Ending  string       `json:"ending,omitempty"`
	Verdict string       `json:"verdict,omitempty"`
	Tone    view.Tone    `json:"-"`
}

// ProbeState is the last state of a probe.
type ProbeState struct {
	Name  string `json:"name"`
	State string `json:"state"`
}

// Step is one event of a story.
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
	found := Story{Disruption: namespace + "/" + name, Workflow: newest.GetExecution().GetWorkflowId(), Steps: []Step{}}
	var answered answers
	read := newChapters()
	events := t.GetWorkflowHistory(ctx, found.Workflow, newest.GetExecution().GetRunId(), false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			return found, fmt.Errorf("read the history of workflow %s: %w", found.Workflow, connect.Advise(err))
		}
		answered.add(event)
		read.add(event)
		if found.Requester == "" {
			found.Requester = requesterOf([]*historypb.HistoryEvent{event})
		}
		if text := stepOf(event); text != "" {
			found.Events = append(found.Events, Step{event.GetEventTime().AsTime(), text})
		}
		if done := event.GetWorkflowExecutionCompletedEventAttributes(); done != nil {
			result := resultOf(done.GetResult())
			found.Outcome, found.Tone, found.Result = result.Outcome, result.Tone, result.Why
			found.Ending, found.Verdict = result.ending, result.verdict
		}
	}
	found.Answers = answered.series()
	found.Steps, found.Kinds, found.Probes = read.steps, read.kinds, read.shownProbes()
	if !read.injected.IsZero() {
		found.InjectedAt = &read.injected
	}
	return found, nil
}

// stepOf describes an event; empty for events that mean nothing to a person.
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
		return "receives the signal " + e.GetWorkflowExecutionSignaledEventAttributes().GetSignalName()
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
