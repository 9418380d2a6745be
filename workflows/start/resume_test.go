package start

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/squall-chaos/squall/workflows/contract"
)

// updates plays Temporal: it records its calls, and answers err or a text.
type updates struct {
	client.WorkflowUpdateHandle
	asked client.UpdateWorkflowOptions
	err   error
}

func (u *updates) UpdateWorkflow(_ context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	u.asked = o
	return u, u.err
}

func (u *updates) Get(_ context.Context, answer any) error {
	*answer.(*string) = "cleaning again"
	return nil
}

func TestResume(t *testing.T) {
	u, decision := &updates{}, contract.Resume{Action: contract.ActionRetry, Targets: []string{"web-0"}}
	answer, err := Resume(t.Context(), u, ref, decision)
	if err != nil || answer != "cleaning again" {
		t.Errorf("Resume() = %q, %v", answer, err)
	}
	want := []any{"disruption/shop/half/u1", "", "resume", []any{decision}, client.WorkflowUpdateStageCompleted}
	if diff := cmp.Diff(want, []any{u.asked.WorkflowID, u.asked.RunID, u.asked.UpdateName, u.asked.Args, u.asked.WaitForStage}); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	u.err = serviceerror.NewNotFound("workflow execution already completed")
	if _, err := Resume(t.Context(), u, ref, decision); !errors.Is(err, ErrNotRunning) {
		t.Errorf("error = %v, want %v", err, ErrNotRunning)
	}
	u.err = serviceerror.NewUnavailable("refused")
	if _, err := Resume(t.Context(), u, ref, decision); !errors.Is(err, u.err) || errors.Is(err, ErrNotRunning) {
		t.Errorf("error = %v, want %v", err, u.err)
	}
}
