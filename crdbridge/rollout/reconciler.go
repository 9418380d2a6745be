// Package rollout is the bridge's controller of DisruptionRollouts. It watches the workload
// of each, writes hashes of its containers into status, and starts a workflow for each
// release. It begins no run: the workflow does, once the release is rolled out.
package rollout

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
	// staleAfter is when to retry after a write hit an old version.
	staleAfter = time.Second
	// recheck is how often the bridge checks that a run without an end still has its
	// workflow: Temporal may have been restored from a backup.
	recheck = 10 * time.Minute
)

type reconciler struct {
	client    client.Client
	runs      runs.Keeper
	workflows *temporal.Workflows
	workloads *watches
	// terminated has the IDs of workflows that a person terminated, until they run again.
	terminated sync.Map
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
	terminations := workflows.NewTerminationPoller(contract.RolloutWorkflowType, r.lost)
	err = builder.ControllerManagedBy(m).
		Named("rollout").
		WithOptions(queue.Options[reconcile.Request]()).
		// A deletion is a new generation too; the status that we write is none.
		For(&v1beta1.DisruptionRollout{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1beta1.Disruption{}, handler.EnqueueRequestsFromMapFunc(r.runs.ThatWaits(func() client.Object { return &v1beta1.DisruptionRollout{} }))).
		WatchesRawSource(source.Channel(workloads.changed, &handler.EnqueueRequestForObject{})).
		WatchesRawSource(source.Channel(terminations.Found, &handler.EnqueueRequestForObject{})).
		Complete(r)
	if err = errors.Join(err, m.Add(workloads), m.Add(terminations)); err != nil {
		return fmt.Errorf("build the controller of DisruptionRollouts: %w", err)
	}
	return nil
}

// lost remembers a workflow that was terminated, and returns its rollout.
func (r *reconciler) lost(workflowID string) client.Object {
	ref, ours := contract.ParseRolloutWorkflowID(workflowID)
	if !ours {
		return nil
	}
	r.terminated.Store(workflowID, true)
	o := &v1beta1.DisruptionRollout{}
	o.Namespace, o.Name = ref.Namespace, ref.Name
	return o
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
		return reconcile.Result{}, nil // the watch enqueues it once it is listed
	}
	result, err := retry(r.keep(ctx, o, state{release, time.Now()}))
	if result.IsZero() && o.Status.Releases > 0 {
		result.RequeueAfter = recheck
	}
	return result, err
}

// keep writes a release into status before it starts the workflow. So each release in
// status is started once, also after a crash.
func (r *reconciler) keep(ctx context.Context, o *v1beta1.DisruptionRollout, s state) error {
	if err := r.write(ctx, o, func() { s.note(o) }); err != nil {
		return err
	}
	var refused error
	if o.Status.Releases > 0 {
		refused = r.startRun(ctx, o)
	}
	if ctx.Err() != nil {
		return nil // the bridge is stopping: the error does not come from Temporal
	}
	err := r.write(ctx, o, func() { s.show(o, refused) })
	if refused != nil {
		refused = connect.Advise(refused)
	}
	return errors.Join(err, refused)
}

// startRun starts the workflow of the last release unless it was started. It starts it
// again if it was terminated, or if the run began and status has no end of it.
func (r *reconciler) startRun(ctx context.Context, o *v1beta1.DisruptionRollout) error {
	release := contract.Release{
		Number: o.Status.Releases, SeenAt: o.Status.LastContainerChangeTime.UTC(),
		Containers: o.Status.LatestContainersHash, InitContainers: o.Status.LatestInitContainersHash,
	}
	id := contract.RolloutWorkflowID(contract.CronRef{Namespace: o.Namespace, Name: o.Name, UID: o.UID}, release)
	_, terminated := r.terminated.Load(id)
	if o.Status.Releases == o.Status.StartedRelease && !terminated && !unfinished(o) {
		return nil
	}
	err := r.workflows.StartRun(ctx, o, release)
	if err == nil {
		r.terminated.Delete(id)
	}
	return err
}

// unfinished is true while the run of the last release is in status without its end.
func unfinished(o *v1beta1.DisruptionRollout) bool {
	history := o.Status.History
	if len(history) == 0 || o.Status.LastContainerChangeTime == nil {
		return false
	}
	last := history[len(history)-1]
	return last.EndedAt == nil && last.ScheduledAt.Equal(o.Status.LastContainerChangeTime)
}

// end deletes the run under way, then removes the rollout's finalizer. While it waits, the
// deletion of the run enqueues the rollout again.
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

// retry turns an outdated write into a later attempt: a newer version is coming.
func retry(err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{RequeueAfter: staleAfter}, nil
	}
	return reconcile.Result{}, err
}
