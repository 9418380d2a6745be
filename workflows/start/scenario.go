package start

import (
	"context"
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/squall-chaos/squall/api/text"
	"github.com/squall-chaos/squall/workflows/contract"
)

// Scenario ensures that the workflow of a scenario runs, or has run to its end. A
// terminated workflow is started again, and continues at the step in status.
func Scenario(ctx context.Context, t Temporal, ref contract.ScenarioRef) error {
	if cluster, known := t.(inCluster); known {
		ref.Cluster = cluster.uid
	}
	o := client.StartWorkflowOptions{
		ID: contract.ScenarioWorkflowID(ref), TaskQueue: contract.TaskQueue,
		WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		StaticSummary:                            text.Shorten(fmt.Sprintf("the DisruptionScenario %s", ref), longestSummary),
	}
	_, err := t.ExecuteWorkflow(ctx, o, contract.ScenarioWorkflowType, contract.ScenarioInput{Scenario: ref})
	if _, started := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); started {
		return nil
	}
	if err != nil {
		return fmt.Errorf("start workflow %s: %w", o.ID, err)
	}
	return nil
}

// SignalScenario sends the workflow of a scenario a signal. If the workflow does not run,
// that is no error: no step waits for the signal.
func SignalScenario(ctx context.Context, t Temporal, ref contract.ScenarioRef, name string, arg any) error {
	id := contract.ScenarioWorkflowID(ref)
	err := t.SignalWorkflow(ctx, id, "", name, arg)
	if _, gone := errors.AsType[*serviceerror.NotFound](err); err == nil || gone {
		return nil
	}
	return fmt.Errorf("send workflow %s the signal %s: %w", id, name, err)
}
