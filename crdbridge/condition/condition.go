// Package condition writes the bridge's conditions into Disruptions. It refuses a condition
// that was decided on an old state of a Disruption: it may not be true of the new one.
package condition

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Reasons of Orchestrated, and of an EmergencyStop's Clean, while no disruption is
// orchestrated.
const (
	ReasonUnreachable = "TemporalUnreachable"
	ReasonNoWorker    = "NoWorker"
	// ReasonNoProber concerns disruptions with probes only: Deployment squall-probes does
	// not poll.
	ReasonNoProber = "NoProber"
	// ReasonReached is of Orchestrated once a problem is over.
	ReasonReached = "TemporalReached"
)

// Due returns want with the time of its last transition, and whether it must be written:
// have, the conditions of the object, lack it. A condition that was never False need not
// become True.
func Due(have []metav1.Condition, want metav1.Condition) (metav1.Condition, bool) {
	want.LastTransitionTime = metav1.Now()
	before := meta.FindStatusCondition(have, want.Type)
	if before == nil {
		return want, want.Status == metav1.ConditionFalse
	}
	if before.Status == want.Status {
		want.LastTransitionTime = before.LastTransitionTime
	}
	return want, before.Status != want.Status || before.Reason != want.Reason || before.Message != want.Message
}

// Apply writes one condition and fails when d is not the newest version. A field manager
// owns one condition: the API server removes what it applied before and omits now.
func Apply(ctx context.Context, c client.Client, d *v1beta1.Disruption, manager string, condition metav1.Condition) error {
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
	return c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(patch),
		client.FieldOwner(manager), client.ForceOwnership)
}
