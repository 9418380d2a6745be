package disruption

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/condition"
	"github.com/squall-chaos/squall/crdbridge/temporal"
	"github.com/squall-chaos/squall/kube"
	"github.com/squall-chaos/squall/workflows/start"
)

// abandoned is true for a deleted Disruption whose finalizer no workflow removes. Then err
// is that its workflow has completed, that Temporal refuses to start one, or that the
// Temporal namespace is another cluster's.
func abandoned(d *v1beta1.Disruption, err error) bool {
	return d.DeletionTimestamp != nil && (errors.Is(err, start.ErrCompleted) || errors.Is(err, start.ErrOtherCluster) || temporal.Refused(err))
}

// finalizeUntouched removes the finalizer of an abandoned Disruption if nothing was ever
// done for it, or nothing is left: live reads find neither a chaos pod nor a record. A
// workflow that begins meanwhile injects nothing, because it first reads the object live.
// done is false while anything is left. The last status keeps why for users: a condition,
// as the bridge may not create events in their namespaces.
func (r *reconciler) finalizeUntouched(ctx context.Context, d *v1beta1.Disruption, why error) (done bool, err error) {
	for _, kind := range []string{"Pod", "ConfigMap"} {
		left := &metav1.PartialObjectMetadataList{}
		left.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind + "List"))
		err := r.live.List(ctx, left, client.InNamespace(r.chaosNamespace), client.MatchingLabels{v1beta1.LabelDisruptionUID: string(d.UID)}, client.Limit(1))
		if err != nil {
			return false, fmt.Errorf("find out whether anything is left of disruption %s/%s: %w", d.Namespace, d.Name, err)
		}
		if len(left.Items) > 0 {
			return false, nil
		}
	}
	patch, found := kube.FinalizerPatch(d, v1beta1.DisruptionFinalizer)
	if !found {
		return true, nil
	}
	if err := r.explainRemoval(ctx, d, why); err != nil {
		return false, err
	}
	err = r.client.Patch(ctx, d, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(fieldManager))
	if err != nil {
		return false, fmt.Errorf("remove the finalizer of disruption %s/%s: %w", d.Namespace, d.Name, err)
	}
	log.FromContext(ctx).Info("finalizer removed: the disruption was deleted, no workflow would remove it, and neither a chaos pod nor a record is left", "because", why.Error(),
		"requester", v1beta1.RequesterOf(d).User, "faults", d.Spec.Kinds().Names())
	return true, nil
}

// explainRemoval writes into the status of an abandoned Disruption why its finalizer is
// removed without a workflow, unless it is there.
func (r *reconciler) explainRemoval(ctx context.Context, d *v1beta1.Disruption, why error) error {
	if have := meta.FindStatusCondition(d.Status.Conditions, v1beta1.ConditionOrchestrated); have != nil && have.Reason == v1beta1.ReasonNothingLeft {
		return nil
	}
	want, _ := condition.Due(d.Status.Conditions, metav1.Condition{
		Type: v1beta1.ConditionOrchestrated, Status: metav1.ConditionFalse, Reason: v1beta1.ReasonNothingLeft,
		ObservedGeneration: d.Generation, Message: removalMessage(why),
	})
	return condition.Apply(ctx, r.client, d, fieldManager, want)
}

// removalMessage is why no workflow removes the finalizer of an abandoned Disruption.
func removalMessage(why error) string {
	const clean = "; it was deleted, and no chaos pod and no record of it is left, so the controller removed the finalizer"
	if errors.Is(why, start.ErrCompleted) {
		return "the workflow had completed" + clean
	}
	_, _, message := verdict(why)
	return "no workflow began" + clean + ". " + message
}
