package scale

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows"
	"github.com/squall-chaos/squall/workflows/contract"
)

var record = flag.Bool("record", false, "write the history of a disruption of many targets, for the replay tests of package workflows")

func workflowOf(d *v1beta1.Disruption) string {
	return contract.WorkflowID(v1beta1.DisruptionRef{Namespace: d.Namespace, Name: d.Name, UID: d.UID})
}

// length is how many events the history of d's workflow has, and its bytes.
func (w *world) length(d *v1beta1.Disruption) (events, bytes int64) {
	w.Helper()
	answer, err := w.temporal.DescribeWorkflowExecution(w.Context(), workflowOf(d), "")
	w.must(err)
	return answer.GetWorkflowExecutionInfo().GetHistoryLength(), answer.GetWorkflowExecutionInfo().GetHistorySizeBytes()
}

// history returns the events of d's workflow and wants today's code to take
// the same decisions again (T3).
func (w *world) history(d *v1beta1.Disruption) *historypb.History {
	w.Helper()
	events := w.temporal.GetWorkflowHistory(w.Context(), workflowOf(d), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	history := &historypb.History{}
	for events.HasNext() {
		event, err := events.Next()
		w.must(err)
		history.Events = append(history.Events, event)
	}
	replayer := worker.NewWorkflowReplayer()
	replayer.RegisterWorkflowWithOptions(workflows.Disruption, workflow.RegisterOptions{Name: contract.WorkflowType})
	if err := replayer.ReplayWorkflowHistory(nil, history); err != nil {
		w.Errorf("the history of %s does not replay: %v", d.Name, err)
	}
	return history
}

// completed waits for the workflow's own end, which follows that of d.
func (w *world) completed(d *v1beta1.Disruption) workflows.Result {
	w.Helper()
	var result workflows.Result
	w.must(w.temporal.GetWorkflow(w.Context(), workflowOf(d), "").Get(w.Context(), &result))
	return result
}

// oneRun wants exactly one execution for the UID of d.
func (w *world) oneRun(d *v1beta1.Disruption) {
	w.Helper()
	answer, err := w.temporal.ListWorkflow(w.Context(), &workflowservice.ListWorkflowExecutionsRequest{
		Query: fmt.Sprintf("WorkflowId = %q", workflowOf(d)),
	})
	w.must(err)
	if n := len(answer.GetExecutions()); n != 1 {
		w.Errorf("%s has %d workflow executions, want 1", d.Name, n)
	}
}

// keep writes a history where the replay tests look for it.
func (w *world) keep(name string, history *historypb.History) {
	w.Helper()
	document, err := temporalproto.CustomJSONMarshalOptions{Indent: " "}.Marshal(history)
	w.must(err)
	directory := filepath.Join("..", "..", "workflows", "testdata", "histories")
	w.must(os.MkdirAll(directory, 0o755))
	w.must(os.WriteFile(filepath.Join(directory, name+".json"), append(document, '\n'), 0o644))
	w.Logf("%s: %d events, %d bytes", name, len(history.Events), len(document))
}
