package world

import (
	"fmt"
	"path/filepath"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/histories"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/disruption"
)

// WorkflowOf is the ID of the workflow of d.
func WorkflowOf(d *v1beta1.Disruption) string {
	return contract.WorkflowID(v1beta1.DisruptionRef{Namespace: d.Namespace, Name: d.Name, UID: d.UID})
}

// Length is how many events the history of d's workflow has, and its bytes.
func (w *World) Length(d *v1beta1.Disruption) (events, bytes int64) {
	w.Helper()
	answer, err := w.Workflows.DescribeWorkflowExecution(w.Context(), WorkflowOf(d), "")
	w.Must(err)
	return answer.GetWorkflowExecutionInfo().GetHistoryLength(), answer.GetWorkflowExecutionInfo().GetHistorySizeBytes()
}

// History returns the events of d's workflow and wants today's code to take
// the same decisions again (T3).
func (w *World) History(d *v1beta1.Disruption) *historypb.History {
	w.Helper()
	events := w.Workflows.GetWorkflowHistory(w.Context(), WorkflowOf(d), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	history := &historypb.History{}
	for events.HasNext() {
		event, err := events.Next()
		w.Must(err)
		history.Events = append(history.Events, event)
	}
	replayer := worker.NewWorkflowReplayer()
	replayer.RegisterWorkflowWithOptions(disruption.Workflow, workflow.RegisterOptions{Name: contract.WorkflowType})
	if err := replayer.ReplayWorkflowHistory(nil, history); err != nil {
		w.Errorf("the history of %s does not replay: %v", d.Name, err)
	}
	return history
}

// Completed waits for the workflow's own end, which follows that of d.
func (w *World) Completed(d *v1beta1.Disruption) disruption.Result {
	w.Helper()
	var result disruption.Result
	w.Must(w.Workflows.GetWorkflow(w.Context(), WorkflowOf(d), "").Get(w.Context(), &result))
	return result
}

// OneRun wants exactly one execution for the UID of d.
func (w *World) OneRun(d *v1beta1.Disruption) {
	w.Helper()
	answer, err := w.Workflows.ListWorkflow(w.Context(), &workflowservice.ListWorkflowExecutionsRequest{
		Query: fmt.Sprintf("WorkflowId = %q", WorkflowOf(d)),
	})
	w.Must(err)
	if n := len(answer.GetExecutions()); n != 1 {
		w.Errorf("%s has %d workflow executions, want 1", d.Name, n)
	}
}

// Keep writes a history that a test made here where the replay tests look for it.
func (w *World) Keep(name string, history *historypb.History) {
	w.Helper()
	w.Must(histories.Keep(filepath.Join("..", "..", "workflows", "testdata", "histories", histories.Generation), histories.Played, name, history))
	w.Logf("%s: %d events", name, len(history.Events))
}
