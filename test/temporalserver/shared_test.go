package temporalserver

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/squall-chaos/squall/test/patience"
)

func TestMain(m *testing.M) { os.Exit(Tests{M: m}.Run()) }

// A workflow that a test leaves open is terminated when the last test that uses the
// server has ended, and not before.
func TestWhatATestLeavesOpenIsTerminated(t *testing.T) {
	var first string
	id := fmt.Sprint("left-open-", time.Now().UnixNano())
	t.Run("two use it", func(t *testing.T) {
		temporal := Shared(t).Dial(client.DefaultNamespace)
		t.Run("and one leaves a workflow", func(t *testing.T) {
			first = Shared(t).Address
			_, err := temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: "nobody"}, "Idle")
			if err != nil {
				t.Fatal(err)
			}
			patience.Within(t, 20*time.Second, "Temporal lists the workflow", func() error {
				found, err := temporal.CountWorkflow(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{Query: fmt.Sprintf("WorkflowId = %q", id)})
				if err == nil && found.GetCount() != 1 {
					err = fmt.Errorf("there are %d", found.GetCount())
				}
				return err
			})
		})
		wantStatus(t, temporal, id, enums.WORKFLOW_EXECUTION_STATUS_RUNNING)
	})
	server := Shared(t)
	if server.Address != first {
		t.Errorf("one test uses the server at %s, the next the one at %s", first, server.Address)
	}
	wantStatus(t, server.Dial(client.DefaultNamespace), id, enums.WORKFLOW_EXECUTION_STATUS_TERMINATED)
}

func wantStatus(t *testing.T, temporal client.Client, id string, want enums.WorkflowExecutionStatus) {
	t.Helper()
	found, err := temporal.DescribeWorkflowExecution(t.Context(), id, "")
	if err != nil {
		t.Fatal(err)
	}
	if got := found.GetWorkflowExecutionInfo().GetStatus(); got != want {
		t.Errorf("the workflow is %s, want %s", got, want)
	}
}
