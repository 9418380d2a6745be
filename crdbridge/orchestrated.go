package main

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/api/serviceerror"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/connect"
	"github.com/squall-chaos/squall/workflows/start"
)

// fieldManager owns the finalizer and the condition Orchestrated, nothing else.
const fieldManager = "squall-bridge"

// Reasons of the condition Orchestrated.
const (
	reasonReached     = "TemporalReached"
	reasonUnreachable = "TemporalUnreachable"
	reasonRefused     = "TemporalRefused"
	reasonEnded       = "WorkflowEnded"
)

// orchestrated is the condition that err calls for, and false when there is
// nothing to say: a condition that was never False need not become True.
func orchestrated(d *v1beta1.Disruption, err error) (metav1.Condition, bool) {
	want := metav1.Condition{
		Type:               v1beta1.ConditionOrchestrated,
		ObservedGeneration: d.Generation,
		LastTransitionTime: metav1.Now(),
	}
	want.Status, want.Reason, want.Message = verdict(err)
	have := meta.FindStatusCondition(d.Status.Conditions, v1beta1.ConditionOrchestrated)
	if have == nil {
		return want, err != nil
	}
	if have.Status == want.Status {
		want.LastTransitionTime = have.LastTransitionTime
	}
	return want, have.Status != want.Status || have.Reason != want.Reason || have.Message != want.Message
}

// verdict words an error so that repeating it yields the same words; the
// condition would otherwise be written at every attempt.
func verdict(err error) (metav1.ConditionStatus, string, string) {
	switch {
	case err == nil:
		return metav1.ConditionTrue, reasonReached, "Temporal is reached."
	case errors.Is(err, start.ErrCompleted):
		return metav1.ConditionFalse, reasonEnded, "The workflow has completed but left the finalizer. See what is left with " +
			"`injector audit` on the nodes, then remove " + v1beta1.DisruptionFinalizer + " by hand."
	case unreachable(err):
		return metav1.ConditionFalse, reasonUnreachable, "Temporal cannot be reached. Nothing is lost: this goes on by itself once " +
			"Temporal is back, and injectors end at their own deadline meanwhile."
	case connect.LacksAttributes(err): // it names one of them, each time another
		return metav1.ConditionFalse, reasonRefused, "Temporal refuses: the namespace lacks search attributes of Squall; " + connect.Advice(err)
	default:
		message := fmt.Sprintf("Temporal refuses: %.500s", serviceerror.ToStatus(err).Message())
		if advice := connect.Advice(err); advice != "" {
			message += "; " + advice
		}
		return metav1.ConditionFalse, reasonRefused, message
	}
}

func unreachable(err error) bool {
	code := serviceerror.ToStatus(err).Code()
	return code == codes.Unavailable || code == codes.DeadlineExceeded || errors.Is(err, context.DeadlineExceeded)
}

// apply writes the condition Orchestrated, see applyCondition.
func (r *reconciler) apply(ctx context.Context, d *v1beta1.Disruption, condition metav1.Condition) error {
	return applyCondition(ctx, r.client, d, fieldManager, condition)
}

// applyCondition writes one condition and fails when d is not the newest: what
// was decided on an old state may not be true of the new one. A manager owns
// one condition: what it applied before and does not apply now would go.
func applyCondition(ctx context.Context, kube client.Client, d *v1beta1.Disruption, manager string, condition metav1.Condition) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&condition)
	if err != nil {
		return fmt.Errorf("encode the condition: %w", err)
	}
	patch := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1beta1.GroupVersion.String(),
		"kind":       "Disruption",
		"metadata": map[string]any{
			"namespace": d.Namespace, "name": d.Name, "uid": string(d.UID), "resourceVersion": d.ResourceVersion,
		},
		"status": map[string]any{"conditions": []any{fields}},
	}}
	return kube.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(patch),
		client.FieldOwner(manager), client.ForceOwnership)
}
