// Package cron is the bridge's controller of DisruptionCrons. It keeps one schedule in
// Temporal for each and deletes it with the cron. Its status shows when the next run is due
// or why none is. It begins no run: the schedule starts a workflow of the worker.
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
	// recheck is how long a pause in Temporal may stay unnoticed: no watch of the cluster
	// shows it.
	recheck = 10 * time.Minute
	// staleAfter is when to retry after a write hit an old version.
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

// Setup adds the controller of DisruptionCrons to m. least is the shortest time between the
// end of a run and the next one.
func Setup(m manager.Manager, workflows *temporal.Workflows, least time.Duration) error {
	r := &reconciler{client: m.GetClient(), workflows: workflows, least: least, runs: runs.Keeper{
		Client: m.GetClient(), Live: m.GetAPIReader(), Kind: v1beta1.KindDisruptionCron, Owner: fieldManager,
	}}
	err := builder.ControllerManagedBy(m).
		Named("cron").
		WithOptions(queue.Options[reconcile.Request]()).
		// A deletion is a new generation too; the status that we write is none.
		For(&v1beta1.DisruptionCron{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1beta1.Disruption{}, handler.EnqueueRequestsFromMapFunc(r.runs.ThatWaits(func() client.Object { return &v1beta1.DisruptionCron{} }))).
		Complete(r)
	if err != nil {
		return fmt.Errorf("build the controller of DisruptionCrons: %w", err)
	}
	return nil
}

// Reconcile makes sure that a cron has its finalizer, then its schedule, and writes the
// outcome into status. Calling it again when nothing changed writes nothing.
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
		return reconcile.Result{}, nil // the bridge is stopping: the error does not come from Temporal
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

// keep brings the schedule in line with the spec. It deletes an invalid or refused schedule
// from Temporal; a running disruption continues.
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

// end deletes the schedule and the run that is under way, then removes the finalizer. done
// is false while either is left.
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

// retry turns an outdated write into a later attempt: a newer version is coming.
func retry(err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{RequeueAfter: staleAfter}, nil
	}
	return reconcile.Result{}, err
}
