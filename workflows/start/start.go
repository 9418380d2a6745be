// Package start is the client side of a disruption's workflow. It starts and signals the
// workflow, the same way from every program. All calls may be repeated: a workflow is
// never started twice, and a repeated signal has no other effect than one signal.
package start

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// Temporal is what starting and signalling workflows needs of a client.
type Temporal interface {
	ExecuteWorkflow(ctx context.Context, o client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error)
	SignalWorkflow(ctx context.Context, id, runID, signal string, arg any) error
}

var (
	// ErrCompleted means that the workflow has completed and is not started again.
	ErrCompleted = errors.New("its workflow has completed")
	// ErrNotRunning means that no workflow runs that could receive a signal.
	ErrNotRunning = errors.New("its workflow does not run")
)

// In adds the cluster to each workflow that t starts, by the UID of its namespace
// kube-system, so that the workers of another cluster leave it alone. Without it, workers
// of every cluster take the workflow.
func In(cluster types.UID, t Temporal) Temporal { return inCluster{t, cluster} }

type inCluster struct {
	Temporal
	uid types.UID
}

// Start ensures that the workflow of d runs. ErrCompleted means that it has run to its
// end.
func Start(ctx context.Context, t Temporal, d *v1beta1.Disruption) error {
	return execute(ctx, t, disruptionOptions(d), d.Ref())
}

// IfCompleted decides about a workflow that has run to its end.
type IfCompleted bool

// Values of IfCompleted.
const (
	StayCompleted IfCompleted = false
	RunAgain      IfCompleted = true
)

// StartCleaning ensures that a workflow runs for a disruption without an object, which
// will only clean what is left. ErrCompleted means that a workflow has run to its end and
// completed is StayCompleted.
func StartCleaning(ctx context.Context, t Temporal, ref v1beta1.DisruptionRef, completed IfCompleted) error {
	return execute(ctx, t, cleaningOptions(ref, completed), ref)
}

func execute(ctx context.Context, t Temporal, o client.StartWorkflowOptions, ref v1beta1.DisruptionRef) error {
	if cluster, known := t.(inCluster); known {
		ref.Cluster = cluster.uid
	}
	_, err := t.ExecuteWorkflow(ctx, o, contract.WorkflowType, contract.Input{Disruption: ref})
	if _, completed := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); completed {
		return fmt.Errorf("start workflow %s: %w", o.ID, ErrCompleted)
	}
	if err != nil {
		return fmt.Errorf("start workflow %s: %w", o.ID, err)
	}
	return nil
}

// End asks the workflow of ref to end, for the reason why; an empty why means that its
// object is being deleted. ErrNotRunning means that no workflow runs.
func End(ctx context.Context, t Temporal, ref v1beta1.DisruptionRef, why string) error {
	if why == "" {
		return signal(ctx, t, ref, contract.SignalEnd, nil)
	}
	return signal(ctx, t, ref, contract.SignalEnd, contract.End{Reason: why})
}

// Observe sends the workflow of ref an observation of the cluster. ErrNotRunning means
// that no workflow runs.
func Observe(ctx context.Context, t Temporal, ref v1beta1.DisruptionRef, o contract.Observation) error {
	return signal(ctx, t, ref, contract.SignalObserved, o)
}

func signal(ctx context.Context, t Temporal, ref v1beta1.DisruptionRef, name string, arg any) error {
	id := contract.WorkflowID(ref)
	err := t.SignalWorkflow(ctx, id, "", name, arg)
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return fmt.Errorf("send workflow %s the signal %s: %w", id, name, ErrNotRunning)
	}
	if err != nil {
		return fmt.Errorf("send workflow %s the signal %s: %w", id, name, err)
	}
	return nil
}
