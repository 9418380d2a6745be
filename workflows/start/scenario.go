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

// Scenario makes sure that the workflow of a scenario runs, or has run to its end.
// One that somebody terminated is started again, and goes on where status says
// that it was.
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

// SignalScenario sends the workflow of a scenario a signal. One that does not run is
// no error: nobody is there who waits for it.
func SignalScenario(ctx context.Context, t Temporal, ref contract.ScenarioRef, name string, arg any) error {
	id := contract.ScenarioWorkflowID(ref)
	err := t.SignalWorkflow(ctx, id, "", name, arg)
	if _, gone := errors.AsType[*serviceerror.NotFound](err); err == nil || gone {
		return nil
	}
	return fmt.Errorf("send workflow %s the signal %s: %w", id, name, err)
}
