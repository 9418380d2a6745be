// Package disruption is the bridge's controller of Disruptions. It adds the finalizer,
// starts the workflow, and sends the workflow the changes in the cluster that it must act
// on. It works from the caches and decides nothing: the workflow selects, creates and
// judges.
package disruption

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/cached"
	"github.com/squall-chaos/squall/crdbridge/condition"
	"github.com/squall-chaos/squall/crdbridge/service"
	"github.com/squall-chaos/squall/crdbridge/temporal"
	"github.com/squall-chaos/squall/workflows/connect"
)

// staleAfter is when to retry after a write hit an old version. The newer version reaches
// the cache meanwhile.
const staleAfter = time.Second

// reconciler sends Temporal what changes about a Disruption. It works from the caches; only
// for a Disruption whose finalizer no workflow removes does it read live.
type reconciler struct {
	client client.Client
	// live reads from the API server.
	live           client.Reader
	workflows      *temporal.Workflows
	chaosNamespace string
	sent           *sentStates
	// services watches the services that disruptions name.
	services *service.Watches
	// freed counts how often Disruptions freed targets.
	freed freed
	// ttl is how long a disruption that has ended is kept; 0 means for ever.
	ttl time.Duration
	// now is the clock that decides when windows of policies end.
	now func() time.Time
}

// Reconcile makes sure that a Disruption has its finalizer, then its workflow,
// and that the workflow knows what it must act on. Calling it again when
// nothing changed writes nothing and sends nothing.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	d := &v1beta1.Disruption{}
	err := r.client.Get(ctx, req.NamespacedName, d)
	if err != nil || d.Settled() || d.Ending() {
		r.services.Forget(req.NamespacedName)
	}
	if err != nil || d.Settled() {
		return r.settled(ctx, req.NamespacedName, d, err)
	}
	if !d.Ending() && cached.StopExists(ctx, r.client) {
		return reconcile.Result{}, nil // the emergency stop marks d, and that update enqueues it again
	}
	if err := r.ensureFinalizer(ctx, d); err != nil {
		return retry(err)
	}
	again, err := r.inform(ctx, d)
	if ctx.Err() != nil {
		// The bridge is stopping: the error does not come from Temporal.
		return reconcile.Result{}, nil
	}
	if errors.Is(err, errCaches) {
		return reconcile.Result{}, err
	}
	if abandoned(d, err) {
		done, failed := r.finalizeUntouched(ctx, d, err)
		if done {
			return reconcile.Result{}, nil
		}
		if failed != nil {
			return retry(errors.Join(failed, err))
		}
	}
	if want, changed := orchestrated(d, cmp.Or(err, r.workflows.Health.Err(), r.checkChaosNamespace(ctx), r.workflows.Problems.Err(d))); changed {
		if failed := condition.Apply(ctx, r.client, d, fieldManager, want); failed != nil {
			return retry(errors.Join(failed, err))
		}
	}
	return reconcile.Result{RequeueAfter: again}, connect.Advise(err)
}

// ensureFinalizer runs before the workflow starts: injected faults must be cleaned up
// before the object may be deleted (rule 4).
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

// snapshot reads from the caches what d's workflow may have to act on. The lists are the
// caches' own objects: callers must not change them.
func (r *reconciler) snapshot(ctx context.Context, d *v1beta1.Disruption) (snapshot, error) {
	var chaosPods, pods corev1.PodList
	shared := client.UnsafeDisableDeepCopy
	err := r.client.List(ctx, &chaosPods, shared, client.InNamespace(r.chaosNamespace),
		client.MatchingFields{cached.IndexDisruptionUID: string(d.UID)})
	if err != nil {
		return snapshot{}, fmt.Errorf("list chaos pods: %w", err)
	}
	seen := snapshot{at: r.now(), disruption: d, chaosPods: chaosPods.Items, services: r.services.Seen(d)}
	if wantsTargets(d) {
		var policies v1beta1.DisruptionPolicyList
		if err := r.client.List(ctx, &policies, shared); err != nil {
			return snapshot{}, fmt.Errorf("list DisruptionPolicies: %w", err)
		}
		seen.policies = policies.Items
		seen.freed = r.freed.count(d, len(policies.Items) > 0)
	}
	if d.Spec.Level == v1beta1.LevelNode {
		var nodes corev1.NodeList
		if err := r.client.List(ctx, &nodes, shared); err != nil {
			return snapshot{}, fmt.Errorf("list nodes: %w", err)
		}
		seen.targets = nodeTargets(d.Spec, nodes.Items)
		return seen, nil
	}
	if err := r.client.List(ctx, &pods, shared, client.InNamespace(d.Namespace)); err != nil {
		return snapshot{}, fmt.Errorf("list pods: %w", err)
	}
	unready, err := cached.UnreadyNodes(ctx, r.client)
	if err != nil {
		return snapshot{}, err
	}
	seen.targets = podTargets(d, pods.Items, unready)
	if wantsBudgets(d) {
		var budgets policyv1.PodDisruptionBudgetList
		if err := r.client.List(ctx, &budgets, shared, client.InNamespace(d.Namespace)); err != nil {
			return snapshot{}, fmt.Errorf("list PodDisruptionBudgets: %w", err)
		}
		seen.budgets = budgets.Items
	}
	return seen, nil
}

// retry turns an outdated write into a later attempt: a newer version is coming.
func retry(err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{RequeueAfter: staleAfter}, nil
	}
	return reconcile.Result{}, err
}
