package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/connect"
)

// staleAfter is when to look again after a write hit an old version. The newer
// one is on its way into the cache and comes by itself.
const staleAfter = time.Second

// reconciler brings Temporal's knowledge of a Disruption up to date. It works
// from the caches alone and reads nothing from the API server.
type reconciler struct {
	client         client.Client
	workflows      *workflows
	chaosNamespace string
	memory         *memory
	pulse          *pulse
	terminated     *terminated
}

// Reconcile makes sure that a Disruption has its finalizer, then its workflow,
// and that the workflow knows what it must act on. Calling it again when
// nothing changed writes nothing and sends nothing.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	d := &v1beta1.Disruption{}
	err := r.client.Get(ctx, req.NamespacedName, d)
	if err != nil || settled(d) {
		r.memory.forget(req.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !ending(d) && stopExists(ctx, r.client) {
		return reconcile.Result{}, nil // nothing begins; the stopper marks it, which wakes us
	}
	if err := r.ensureFinalizer(ctx, d); err != nil {
		return retry(err)
	}
	again, err := r.tell(ctx, d)
	if ctx.Err() != nil {
		// We are stopping, which says nothing about Temporal.
		return reconcile.Result{}, nil
	}
	if errors.Is(err, errLook) {
		return reconcile.Result{}, err
	}
	if condition, news := orchestrated(d, cmp.Or(err, r.pulse.err())); news {
		if failed := r.apply(ctx, d, condition); failed != nil {
			return retry(errors.Join(failed, err))
		}
	}
	return reconcile.Result{RequeueAfter: again}, connect.Advise(err)
}

// settled is true for a Disruption whose workflow has let go of it, or that
// never had one and is on its way out.
func settled(d *v1beta1.Disruption) bool {
	if controllerutil.ContainsFinalizer(d, v1beta1.DisruptionFinalizer) {
		return false
	}
	finished := d.Status.Phase == v1beta1.PhaseFinished || d.Status.Phase == v1beta1.PhaseRejected
	return finished || d.DeletionTimestamp != nil
}

// ensureFinalizer comes before the workflow: whatever is injected must be
// cleaned before the object may go (rule 4).
func (r *reconciler) ensureFinalizer(ctx context.Context, d *v1beta1.Disruption) error {
	before := d.DeepCopy()
	if !controllerutil.AddFinalizer(d, v1beta1.DisruptionFinalizer) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.client.Patch(ctx, d, patch, client.FieldOwner(fieldManager)); err != nil {
		return fmt.Errorf("add the finalizer: %w", err)
	}
	return nil
}

// look reads from the caches what d's workflow may have to act on. The lists
// are the caches' own objects: whoever gets them must not change them.
func (r *reconciler) look(ctx context.Context, d *v1beta1.Disruption) (look, error) {
	var chaosPods, pods corev1.PodList
	shared := client.UnsafeDisableDeepCopy
	err := r.client.List(ctx, &chaosPods, shared, client.InNamespace(r.chaosNamespace),
		client.MatchingFields{indexDisruptionUID: string(d.UID)})
	if err != nil {
		return look{}, fmt.Errorf("list chaos pods: %w", err)
	}
	seen := look{disruption: d, chaosPods: chaosPods.Items}
	if d.Spec.Level == v1beta1.LevelNode {
		var nodes corev1.NodeList
		if err := r.client.List(ctx, &nodes, shared); err != nil {
			return look{}, fmt.Errorf("list nodes: %w", err)
		}
		seen.targets = nodeTargets(d.Spec, nodes.Items)
		return seen, nil
	}
	if err := r.client.List(ctx, &pods, shared, client.InNamespace(d.Namespace)); err != nil {
		return look{}, fmt.Errorf("list pods: %w", err)
	}
	seen.targets = podTargets(d.Spec, pods.Items)
	return seen, nil
}

// retry treats an outdated write as what it is: no error, a newer version is coming.
func retry(err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{RequeueAfter: staleAfter}, nil
	}
	return reconcile.Result{}, err
}
