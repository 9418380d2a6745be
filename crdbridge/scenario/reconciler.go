// Package scenario is the bridge's controller of DisruptionScenarios. It starts the
// workflow of each. It signals when one of its disruptions is over, a person has approved a
// step, or the scenario is deleted. The workflow decides what follows.
package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
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
	fieldManager = client.FieldOwner("squall-bridge-scenario")
	// staleAfter is when to retry after a write hit an old version.
	staleAfter = time.Second
)

type reconciler struct {
	client    client.Client
	runs      runs.Keeper
	workflows *temporal.Workflows
}

// Setup adds the controller of DisruptionScenarios to m.
func Setup(m manager.Manager, workflows *temporal.Workflows) error {
	r := &reconciler{client: m.GetClient(), workflows: workflows, runs: runs.Keeper{
		Client: m.GetClient(), Live: m.GetAPIReader(), Kind: v1beta1.KindDisruptionScenario, Owner: fieldManager,
	}}
	terminations := workflows.NewTerminationPoller(contract.ScenarioWorkflowType, lost)
	err := builder.ControllerManagedBy(m).
		Named("scenario").
		WithOptions(queue.Options[reconcile.Request]()).
		For(&v1beta1.DisruptionScenario{}).
		Watches(&v1beta1.Disruption{}, handler.EnqueueRequestsFromMapFunc(scenarioOf)).
		WatchesRawSource(source.Channel(terminations.Found, &handler.EnqueueRequestForObject{})).
		WatchesRawSource(source.Channel(workflows.Problems.PollersChanged, handler.EnqueueRequestsFromMapFunc(r.unfinished))).
		Complete(r)
	if err = errors.Join(err, m.Add(terminations)); err != nil {
		return fmt.Errorf("build the controller of DisruptionScenarios: %w", err)
	}
	return nil
}

// lost is the scenario of a workflow that was terminated; the controller starts the
// workflow again.
func lost(workflowID string) client.Object {
	ref, ours := contract.ParseScenarioWorkflowID(workflowID)
	if !ours {
		return nil
	}
	s := &v1beta1.DisruptionScenario{}
	s.Namespace, s.Name = ref.Namespace, ref.Name
	return s
}

// scenarioOf finds the scenario of a disruption that is over or being deleted.
func scenarioOf(_ context.Context, object client.Object) []reconcile.Request {
	owner := metav1.GetControllerOf(object)
	d, ok := object.(*v1beta1.Disruption)
	if !ok || owner == nil || owner.Kind != v1beta1.KindDisruptionScenario || !d.Settled() && d.DeletionTimestamp == nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: owner.Name}}}
}

// Reconcile makes sure that a scenario has its finalizer and its workflow, and that the
// workflow has the signals it waits for. All of that may be repeated: Reconcile sends the
// current facts and keeps no state.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	s := &v1beta1.DisruptionScenario{}
	if err := r.client.Get(ctx, req.NamespacedName, s); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if s.DeletionTimestamp != nil {
		return r.retry(ctx, s, r.end(ctx, s))
	}
	if s.Status.Phase.Over() {
		return reconcile.Result{}, nil
	}
	if err := r.runs.EnsureFinalizer(ctx, s); err != nil {
		return r.retry(ctx, s, err)
	}
	err := r.keep(ctx, s)
	if err == nil {
		err = r.showProblem(ctx, s)
	}
	return r.retry(ctx, s, err)
}

// keep starts the workflow and signals an emergency stop, an approval or the end of a
// disruption.
func (r *reconciler) keep(ctx context.Context, s *v1beta1.DisruptionScenario) error {
	if err := r.workflows.StartScenario(ctx, s); err != nil {
		return err
	}
	if _, why := v1beta1.MetStop(s); why != "" {
		if err := r.workflows.SignalScenario(ctx, s, contract.SignalEnd, contract.End{Reason: why}); err != nil {
			return err
		}
	}
	if by := s.Annotations[v1beta1.AnnotationApprovedBy+s.Status.Step]; by != "" && s.Status.Phase == v1beta1.ScenarioSuspended {
		if err := r.workflows.SignalScenario(ctx, s, contract.SignalApprove, contract.Approval{Step: s.Status.Step, By: by}); err != nil {
			return err
		}
	}
	settled, err := r.settled(ctx, s)
	if err != nil || !settled {
		return err
	}
	return r.workflows.SignalScenario(ctx, s, contract.SignalSettled, nil)
}

// settled is true when a disruption that runs in status is over, or gone. The cache may be
// late, so the workflow reads the disruption itself.
func (r *reconciler) settled(ctx context.Context, s *v1beta1.DisruptionScenario) (bool, error) {
	for _, step := range s.Status.Steps {
		for _, run := range step.Disruptions {
			if step.EndedAt != nil || run.Ending != "" {
				continue
			}
			d := &v1beta1.Disruption{}
			err := r.client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: run.Name}, d)
			if apierrors.IsNotFound(err) || err == nil && (d.UID != run.UID || d.Settled()) {
				return true, nil
			}
			if err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

// end stops the workflow and deletes the running disruptions, then removes the scenario's
// finalizer. While it waits, their deletion enqueues the scenario again.
func (r *reconciler) end(ctx context.Context, s *v1beta1.DisruptionScenario) error {
	if !controllerutil.ContainsFinalizer(s, v1beta1.CronFinalizer) {
		return nil
	}
	var signalled error
	if !s.Status.Phase.Over() {
		signalled = r.workflows.SignalScenario(ctx, s, contract.SignalEnd, contract.End{})
	}
	gone, err := r.runs.EndRuns(ctx, s, client.MatchingLabels{v1beta1.LabelScenario: s.Name}, s.Owns)
	if err = errors.Join(err, signalled); err != nil || !gone {
		return err
	}
	if !s.Status.Phase.Over() {
		if err := r.workflows.SignalScenario(ctx, s, contract.SignalSettled, nil); err != nil {
			return err
		}
	}
	return r.runs.RemoveFinalizer(ctx, s)
}

// recheck is how long the bridge assumes that a workflow runs without asking. A Temporal
// that was restored from a backup may have lost it.
const recheck = 10 * time.Minute

// retry turns an outdated write into a later attempt: a newer version is coming. It reports
// a Temporal that is away in status until the workflow writes there.
func (r *reconciler) retry(ctx context.Context, s *v1beta1.DisruptionScenario, err error) (reconcile.Result, error) {
	switch {
	case ctx.Err() != nil:
		return reconcile.Result{}, nil
	case err == nil:
		return reconcile.Result{RequeueAfter: recheck}, nil
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		return reconcile.Result{RequeueAfter: staleAfter}, nil
	case !temporal.Unreachable(err) && !temporal.Refused(err):
		return reconcile.Result{}, err
	}
	before := s.DeepCopy()
	if _, message := runs.Failed(err); s.Status.Phase == "" && s.Status.Message != message {
		s.Status.Message = message
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		err = errors.Join(err, client.IgnoreNotFound(r.client.Status().Patch(ctx, s, patch, fieldManager)))
	}
	return reconcile.Result{}, connect.Advise(err)
}
