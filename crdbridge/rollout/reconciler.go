// Package rollout is the bridge's controller of DisruptionRollouts: it watches the
// workload of each, says in status which containers it has, as hashes, and starts a
// workflow for each release. It begins no run: the workflow does, once the release
// is rolled out.
package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/queue"
	"github.com/squall-chaos/squall/crdbridge/runs"
	"github.com/squall-chaos/squall/crdbridge/temporal"
	"github.com/squall-chaos/squall/workflows/connect"
	"github.com/squall-chaos/squall/workflows/contract"
)

const (
	// fieldManager owns the finalizer, and what the bridge writes into status.
	fieldManager = client.FieldOwner("squall-bridge-rollout")
	// staleAfter is when to try again after a write hit an old version.
	staleAfter = time.Second
)

type reconciler struct {
	client    client.Client
	runs      runs.Keeper
	workflows *temporal.Workflows
	workloads *watches
}

// Setup adds the controller of DisruptionRollouts to m.
func Setup(m manager.Manager, workflows *temporal.Workflows) error {
	workloads, err := newWatches(m.GetConfig())
	if err != nil {
		return err
	}
	r := &reconciler{client: m.GetClient(), workflows: workflows, workloads: workloads, runs: runs.Keeper{
		Client: m.GetClient(), Live: m.GetAPIReader(), Kind: v1beta1.KindDisruptionRollout, Owner: fieldManager,
	}}
	err = builder.ControllerManagedBy(m).
		Named("rollout").
		WithOptions(queue.Options[reconcile.Request]()).
		// A deletion is a new generation too; what is written into status is none.
		For(&v1beta1.DisruptionRollout{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1beta1.Disruption{}, handler.EnqueueRequestsFromMapFunc(r.runs.ThatWaits(func() client.Object { return &v1beta1.DisruptionRollout{} }))).
		WatchesRawSource(source.Channel(workloads.changed, &handler.EnqueueRequestForObject{})).
		Complete(r)
	if err = errors.Join(err, m.Add(workloads)); err != nil {
		return fmt.Errorf("build the controller of DisruptionRollouts: %w", err)
	}
	return nil
}

// Reconcile makes sure that a rollout has its finalizer, that its last release is
// in status, and that a workflow was started for it. Calling it again when nothing
// changed writes nothing.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	o := &v1beta1.DisruptionRollout{}
	if err := r.client.Get(ctx, req.NamespacedName, o); err != nil {
		if apierrors.IsNotFound(err) {
			r.workloads.forget(req.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if o.DeletionTimestamp != nil {
		r.workloads.forget(req.NamespacedName)
		return retry(r.end(ctx, o))
	}
	if err := r.runs.EnsureFinalizer(ctx, o); err != nil {
		return retry(err)
	}
	release, listed := r.workloads.follow(o)
	if !listed {
		return reconcile.Result{}, nil // it comes back once it is
	}
	return retry(r.keep(ctx, o, state{release, time.Now()}))
}

// keep writes what was seen before a workflow is started for it: whatever is in
// status is started for, also after a crash, and once.
func (r *reconciler) keep(ctx context.Context, o *v1beta1.DisruptionRollout, s state) error {
	if err := r.write(ctx, o, func() { s.note(o) }); err != nil {
		return err
	}
	var refused error
	if o.Status.Releases > o.Status.StartedRelease {
		refused = r.workflows.StartRun(ctx, o, contract.Release{
			Number: o.Status.Releases, SeenAt: o.Status.LastContainerChangeTime.UTC(),
			Containers: o.Status.LatestContainersHash, InitContainers: o.Status.LatestInitContainersHash,
		})
	}
	if ctx.Err() != nil {
		return nil // the bridge is stopping, which says nothing about Temporal
	}
	err := r.write(ctx, o, func() { s.show(o, refused) })
	if refused != nil {
		refused = connect.Advise(refused)
	}
	return errors.Join(err, refused)
}

// end has the run cleaned that goes on; then the rollout may go. While it waits, the
// run's going comes back here.
func (r *reconciler) end(ctx context.Context, o *v1beta1.DisruptionRollout) error {
	gone, err := r.runs.EndRun(ctx, o)
	if err != nil {
		return err
	}
	if gone {
		return r.runs.RemoveFinalizer(ctx, o)
	}
	return r.write(ctx, o, func() { deleted(o) })
}

// retry treats an outdated write as what it is: no error, a newer version is coming.
func retry(err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{RequeueAfter: staleAfter}, nil
	}
	return reconcile.Result{}, err
}
