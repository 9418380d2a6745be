package start

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// Updater is what resuming a workflow needs of a client.
type Updater interface {
	UpdateWorkflow(ctx context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error)
}

// Resume sends the workflow of ref a person's decision and returns how the workflow acts
// on it, or why it refuses. It waits for the workflow's answer until ctx ends; it may be
// repeated. ErrNotRunning means that no workflow runs.
func Resume(ctx context.Context, t Updater, ref v1beta1.DisruptionRef, r contract.Resume) (string, error) {
	id := contract.WorkflowID(ref)
	handle, err := t.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: id, UpdateName: contract.UpdateResume, Args: []any{r}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	var answer string
	if err == nil {
		err = handle.Get(ctx, &answer)
	}
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return "", fmt.Errorf("send workflow %s the update %s: %w", id, contract.UpdateResume, ErrNotRunning)
	}
	if err != nil {
		return "", fmt.Errorf("send workflow %s the update %s: %w", id, contract.UpdateResume, err)
	}
	return answer, nil
}
