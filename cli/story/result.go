package story

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/squall-chaos/squall/cli/view"
	"github.com/squall-chaos/squall/workflows/connect"
)

const (
	// readAtOnce is how many histories are read at once: each costs Temporal two reads of
	// its database.
	readAtOnce = 8
	// firstEvents are enough to find the plan, which the first task of a workflow makes.
	firstEvents = 30
)

// complete adds to each run its result and its requester, which only its history has.
func complete(ctx context.Context, t client.Client, namespace string, runs []Run, executions []*commonpb.WorkflowExecution) error {
	slots, errs := make(chan struct{}, readAtOnce), make([]error, len(runs))
	var reads sync.WaitGroup
	for i := range runs {
		slots <- struct{}{}
		reads.Go(func() {
			errs[i] = read(ctx, t, namespace, executions[i], &runs[i])
			<-slots
		})
	}
	reads.Wait()
	return errors.Join(errs...)
}

// read leaves a run as it is if Temporal has deleted its history since the list was made.
func read(ctx context.Context, t client.Client, namespace string, of *commonpb.WorkflowExecution, run *Run) error {
	last := t.GetWorkflowHistory(ctx, of.GetWorkflowId(), of.GetRunId(), false, enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT)
	first, err := t.WorkflowService().GetWorkflowExecutionHistory(ctx, &workflowservice.GetWorkflowExecutionHistoryRequest{
		Namespace: namespace, Execution: of, MaximumPageSize: firstEvents,
	})
	if err == nil {
		run.Requester = requesterOf(first.GetHistory().GetEvents())
	}
	for err == nil && last.HasNext() {
		var event *historypb.HistoryEvent
		event, err = last.Next()
		if done := event.GetWorkflowExecutionCompletedEventAttributes(); done != nil {
			result := resultOf(done.GetResult())
			run.Result, run.Tone, run.Why, run.Ending = result.Outcome, result.Tone, result.Why, result.ending
		}
	}
	if _, gone := errors.AsType[*serviceerror.NotFound](err); err == nil || gone {
		return nil
	}
	return fmt.Errorf("read the history of workflow %s: %w", of.GetWorkflowId(), connect.Advise(err))
}

// result is the end of a disruption as its workflow returns it.
type result struct {
	view.Result
	ending, verdict string
}

func resultOf(payloads *commonpb.Payloads) result {
	var written struct {
		view.Ended
		Summary string `json:"summary"`
	}
	if json.Unmarshal(first(payloads).GetData(), &written) != nil {
		return result{}
	}
	judged := view.ResultOfEnded(written.Ended)
	judged.Why = written.Summary
	return result{judged, written.Ending, string(written.Verdict)}
}

// requesterOf finds the requester in the plan: the first activity returns it, and a
// workflow that continues as new gets it as its input.
func requesterOf(events []*historypb.HistoryEvent) string {
	for _, e := range events {
		var payload *commonpb.Payload
		if input := e.GetWorkflowExecutionStartedEventAttributes().GetInput().GetPayloads(); len(input) > 1 {
			payload = input[1]
		}
		if done := e.GetActivityTaskCompletedEventAttributes(); done != nil {
			payload = first(done.GetResult())
		}
		if done := e.GetMarkerRecordedEventAttributes(); done != nil {
			payload = first(done.GetDetails()["result"])
		}
		var written struct {
			Requester string `json:"requester"`
			Plan      struct {
				Requester string `json:"requester"`
			} `json:"plan"`
		}
		if payload == nil || json.Unmarshal(payload.GetData(), &written) != nil {
			continue
		}
		if written.Requester != "" {
			return written.Requester
		}
		if written.Plan.Requester != "" {
			return written.Plan.Requester
		}
	}
	return ""
}
