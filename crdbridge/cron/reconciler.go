// Package cron is the bridge's controller of DisruptionCrons: it keeps one schedule
// in Temporal for each, deletes it with the cron, and says in status when the
// next run is due or why none is. It begins no run: the schedule does, by a
// workflow of the worker.
package cron

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/squall-chaos/squall/api/schedule"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/queue"
	"github.com/squall-chaos/squall/crdbridge/runs"
	"github.com/squall-chaos/squall/crdbridge/temporal"
	"github.com/squall-chaos/squall/workflows/connect"
)

const (
	// fieldManager owns the finalizer, nextScheduleTime and the condition Scheduled.
	fieldManager = "squall-bridge-cron"
	// recheck is how long a pause in Temporal, which nothing in the cluster tells,
	// may stay unnoticed.
	recheck = 10 * time.Minute
	// staleAfter is when to try again after a write hit an old version.
	staleAfter = time.Second
)

// reconciler brings Temporal's schedule of a cron in line with its spec.
type reconciler struct {
	client    client.Client
	runs      runs.Keeper
	workflows *temporal.Workflows
	// least is the shortest time between the end of a run and the next one.
	least time.Duration
}

// Setup adds the controller of DisruptionCrons to m. Between the end of a run and
// the next one there is to be least.
func Setup(m manager.Manager, workflows *temporal.Workflows, least time.Duration) error {
	r := &reconciler{client: m.GetClient(), workflows: workflows, least: least, runs: runs.Keeper{
		Client: m.GetClient(), Live: m.GetAPIReader(), Kind: v1beta1.KindDisruptionCron, Owner: fieldManager,
	}}
	err := builder.ControllerManagedBy(m).
		Named("cron").
		WithOptions(queue.Options[reconcile.Request]()).
		// A deletion is a new generation too; what we write into status is none.
		For(&v1beta1.DisruptionCron{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1beta1.Disruption{}, handler.EnqueueRequestsFromMapFunc(r.runs.ThatWaits(func() client.Object { return &v1beta1.DisruptionCron{} }))).
		Complete(r)
	if err != nil {
		return fmt.Errorf("build the controller of DisruptionCrons: %w", err)
	}
	return nil
}

// Reconcile makes sure that a cron has its finalizer, then its schedule, and says
// in status what came of it. Calling it again when nothing changed writes nothing.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	c := &v1beta1.DisruptionCron{}
	if err := r.client.Get(ctx, req.NamespacedName, c); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	var now state
	var err error
	if c.DeletionTimestamp != nil {
		var done bool
		if done, err = r.end(ctx, c); done {
			return reconcile.Result{}, nil
		}
		now = ending(err)
	} else {
		if err := r.runs.EnsureFinalizer(ctx, c); err != nil {
			return retry(err)
		}
		now, err = r.keep(ctx, c)
	}
	if ctx.Err() != nil {
		return reconcile.Result{}, nil // we are stopping, which says nothing about Temporal
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return retry(err)
	}
	if failed := r.show(ctx, c, now); failed != nil {
		return retry(errors.Join(failed, err))
	}
	if err != nil {
		return reconcile.Result{}, connect.Advise(err)
	}
	return reconcile.Result{RequeueAfter: now.again()}, nil
}

// keep brings the schedule in line with the spec. One that cannot be, or must not
// be, is taken out of Temporal: what runs goes on.
func (r *reconciler) keep(ctx context.Context, c *v1beta1.DisruptionCron) (state, error) {
	if wrong := schedule.Judge(c.Spec, time.Now(), r.least); wrong != nil {
		if err := r.workflows.DeleteSchedule(ctx, c); err != nil {
			return failed(err), err
		}
		return refused(wrong), nil
	}
	times, err := schedule.Parse(c.Spec)
	if err != nil {
		return refused(err), nil
	}
	paused, note, err := r.workflows.KeepSchedule(ctx, c, times)
	if err != nil {
		return failed(err), err
	}
	return scheduled(c, paused, note, times.Next(time.Now())), nil
}

// end takes the schedule away and has the run cleaned that goes on; then the cron
// may go. done is false while anything is left of either.
func (r *reconciler) end(ctx context.Context, c *v1beta1.DisruptionCron) (done bool, err error) {
	if !controllerutil.ContainsFinalizer(c, v1beta1.CronFinalizer) {
		return true, nil
	}
	noSchedule := r.workflows.DeleteSchedule(ctx, c)
	gone, err := r.runs.EndRun(ctx, c)
	if err = errors.Join(err, noSchedule); err != nil || !gone {
		return false, err
	}
	if err := r.runs.RemoveFinalizer(ctx, c); err != nil {
		return false, err
	}
	return true, nil
}

// retry treats an outdated write as what it is: no error, a newer version is coming.
func retry(err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{RequeueAfter: staleAfter}, nil
	}
	return reconcile.Result{}, err
}
