// Package runs handles the runs of DisruptionCrons, DisruptionRollouts and
// DisruptionScenarios. It has the finalizer, the end of the runs under way when their
// parent is deleted, and the condition while Temporal is away.
package runs

import (
	"context"
	"fmt"

	"go.temporal.io/api/serviceerror"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/condition"
	"github.com/squall-chaos/squall/crdbridge/live"
	"github.com/squall-chaos/squall/crdbridge/temporal"
	"github.com/squall-chaos/squall/kube"
	"github.com/squall-chaos/squall/workflows/connect"
)

// ReasonRefused is the reason of a condition that is False because Temporal refuses.
const ReasonRefused = "TemporalRefused"

// Parent is an object that has runs.
type Parent interface {
	client.Object
	// ChildName is the name of all of its runs, and Owns is true for those.
	ChildName() string
	Owns(d *v1beta1.Disruption) bool
}

// Keeper reads and writes parents of a kind, and their runs.
type Keeper struct {
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Kind is that of the parents, Owner the field manager of the writes.
	Kind  string
	Owner client.FieldOwner
}

// EnsureFinalizer adds the finalizer before the first run: the parent waits until its runs
// are clean.
func (k Keeper) EnsureFinalizer(ctx context.Context, p client.Object) error {
	before, ok := p.DeepCopyObject().(client.Object)
	if !ok || !controllerutil.AddFinalizer(p, v1beta1.CronFinalizer) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := k.Client.Patch(ctx, p, patch, k.Owner); err != nil {
		return fmt.Errorf("add the finalizer: %w", err)
	}
	return nil
}

// RemoveFinalizer removes the finalizer of a parent.
func (k Keeper) RemoveFinalizer(ctx context.Context, p client.Object) error {
	patch, found := kube.FinalizerPatch(p, v1beta1.CronFinalizer)
	if !found {
		return nil
	}
	err := k.Client.Patch(ctx, p, client.RawPatch(types.JSONPatchType, patch), k.Owner)
	if err = client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("remove the finalizer of %s %s/%s: %w", k.Kind, p.GetNamespace(), p.GetName(), err)
	}
	return nil
}

// EndRun deletes the run under way, whose own workflow cleans up. It reads live: a run that
// just began is not in the cache yet.
func (k Keeper) EndRun(ctx context.Context, p Parent) (gone bool, err error) {
	d := &v1beta1.Disruption{}
	err = k.Live.Get(ctx, client.ObjectKey{Namespace: p.GetNamespace(), Name: p.ChildName()}, d)
	if apierrors.IsNotFound(err) || err == nil && !p.Owns(d) {
		return true, nil
	}
	if err == nil {
		err = k.delete(ctx, d)
	}
	if err = client.IgnoreNotFound(err); err != nil {
		return false, fmt.Errorf("end the run of %s %s/%s: %w", k.Kind, p.GetNamespace(), p.GetName(), err)
	}
	return false, nil // the deletion of the run enqueues the parent again
}

// EndRuns deletes all runs of p that are not over; several may run side by side. gone is
// true when none of them is left; runs that are over stay to be read.
func (k Keeper) EndRuns(ctx context.Context, p client.Object, marked client.MatchingLabels, owns func(*v1beta1.Disruption) bool) (gone bool, err error) {
	var running []*v1beta1.Disruption
	err = live.Pages(ctx, k.Live, func(page *v1beta1.DisruptionList) {
		for i := range page.Items {
			if d := &page.Items[i]; owns(d) && !d.Settled() {
				running = append(running, d)
			}
		}
	}, client.InNamespace(p.GetNamespace()), marked)
	if err != nil {
		return false, fmt.Errorf("list the runs of %s %s/%s: %w", k.Kind, p.GetNamespace(), p.GetName(), err)
	}
	for _, d := range running {
		if err := client.IgnoreNotFound(k.delete(ctx, d)); err != nil {
			return false, fmt.Errorf("end the runs of %s %s/%s: %w", k.Kind, p.GetNamespace(), p.GetName(), err)
		}
	}
	return len(running) == 0, nil // the deletion of each run enqueues the parent again
}

// delete deletes exactly this disruption, once.
func (k Keeper) delete(ctx context.Context, d *v1beta1.Disruption) error {
	if d.DeletionTimestamp != nil {
		return nil
	}
	return k.Client.Delete(ctx, d, client.Preconditions{UID: &d.UID})
}

// ThatWaits maps a run to its parent if the parent is being deleted. empty makes an object
// of the parent's type.
func (k Keeper) ThatWaits(empty func() client.Object) handler.MapFunc {
	return func(ctx context.Context, object client.Object) []reconcile.Request {
		owner := metav1.GetControllerOf(object)
		if owner == nil || owner.Kind != k.Kind {
			return nil
		}
		key := types.NamespacedName{Namespace: object.GetNamespace(), Name: owner.Name}
		parent := empty()
		if err := k.Client.Get(ctx, key, parent); err != nil || parent.GetDeletionTimestamp() == nil {
			return nil
		}
		return []reconcile.Request{{NamespacedName: key}}
	}
}

// Failed returns the reason and message for an error of Temporal. The same error always has
// the same message, or each attempt would write the status.
func Failed(err error) (reason, message string) {
	if temporal.Unreachable(err) {
		return condition.ReasonUnreachable, "Temporal cannot be reached. Squall retries until it is back."
	}
	message = fmt.Sprintf("Temporal refuses: %.500s", serviceerror.ToStatus(err).Message())
	if advice := connect.Advice(err); advice != "" {
		message += "; " + advice
	}
	return ReasonRefused, message
}
