package scenario

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/condition"
	"github.com/squall-chaos/squall/crdbridge/temporal"
)

// showProblem writes the condition Orchestrated when a problem of the workflow of s has
// come, changed or gone. A scenario that never had one has no such condition.
func (r *reconciler) showProblem(ctx context.Context, s *v1beta1.DisruptionScenario) error {
	want, due := orchestrated(s, r.workflows.Problems.OfScenario(s))
	if !due {
		return nil
	}
	before := s.DeepCopy()
	meta.SetStatusCondition(&s.Status.Conditions, want)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.client.Status().Patch(ctx, s, patch, fieldManager); err != nil {
		return fmt.Errorf("write the condition %s: %w", want.Type, err)
	}
	return nil
}

// orchestrated is the condition for a problem, or for none, and whether it must be written.
func orchestrated(s *v1beta1.DisruptionScenario, problem error) (metav1.Condition, bool) {
	want := metav1.Condition{Type: v1beta1.ConditionOrchestrated, ObservedGeneration: s.Generation}
	switch {
	case errors.Is(problem, temporal.ErrNoWorker):
		want.Status, want.Reason = metav1.ConditionFalse, condition.ReasonNoWorker
		want.Message = "No worker polls Temporal: no step begins or ends. See why none runs: kubectl -n squall-system describe deployment squall-worker"
	case errors.Is(problem, temporal.ErrNoProber):
		want.Status, want.Reason = metav1.ConditionFalse, condition.ReasonNoProber
		want.Message = "No program runs the probes of spec.steadyState: no step begins before they are asked, and later onProberLost decides. " +
			"Deployment squall-probes is missing or does not run: kubectl -n squall-system describe deployment squall-probes"
	default:
		want.Status, want.Reason, want.Message = metav1.ConditionTrue, condition.ReasonReached, "Temporal is reached."
	}
	return condition.Due(s.Status.Conditions, want)
}

// unfinished enqueues every scenario that is not over.
func (r *reconciler) unfinished(ctx context.Context, _ client.Object) (requests []reconcile.Request) {
	var all v1beta1.DisruptionScenarioList
	if err := r.client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache ended: so does the controller
	}
	for i := range all.Items {
		if s := &all.Items[i]; !s.Status.Phase.Over() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(s)})
		}
	}
	return requests
}
