package workflows

import (
	"path/filepath"
	"strings"
	"testing"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/workflows/contract"
)

// TestReplay replays what real disruptions went through on a real cluster: a
// change of the workflow that running disruptions would not survive fails here
// (acceptance T3). test/e2e and test/scale record the histories.
func TestReplay(t *testing.T) {
	files, err := filepath.Glob("testdata/histories/*.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 5 {
		t.Fatalf("found %d histories, want at least 5: healthy, expired, deleted while injecting, many targets, stuck", len(files))
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			replayer := worker.NewWorkflowReplayer()
			replayer.RegisterWorkflowWithOptions(Disruption, workflow.RegisterOptions{Name: contract.WorkflowType})
			replayer.RegisterWorkflowWithOptions(Sweep, workflow.RegisterOptions{Name: contract.SweepWorkflowType})
			if err := replayer.ReplayWorkflowHistoryFromJSONFile(nil, file); err != nil {
				t.Error(err)
			}
		})
	}
}
