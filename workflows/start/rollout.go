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

// Rollout ensures that the workflow for a release was started. A terminated workflow is
// started again; one that runs or has completed is not.
func Rollout(ctx context.Context, t Temporal, ref contract.CronRef, r contract.Release) error {
	if cluster, known := t.(inCluster); known {
		ref.Cluster = cluster.uid
	}
	o := client.StartWorkflowOptions{
		ID: contract.RolloutWorkflowID(ref, r), TaskQueue: contract.TaskQueue,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		StaticSummary:                            text.Shorten(fmt.Sprintf("the run of the DisruptionRollout %s for release %d", ref, r.Number), longestSummary),
	}
	_, err := t.ExecuteWorkflow(ctx, o, contract.RolloutWorkflowType, contract.CronInput{Cron: ref, Release: &r})
	if _, started := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); started {
		return nil
	}
	if err != nil {
		return fmt.Errorf("start workflow %s: %w", o.ID, err)
	}
	return nil
}
