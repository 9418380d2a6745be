// Package condition writes the bridge's conditions into Disruptions. A condition
// that was decided on an old state of a Disruption is refused: it may not be
// true of the new one.
package condition

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Reasons of Orchestrated, and of an EmergencyStop's Clean, while nothing is
// orchestrated at all.
const (
	ReasonUnreachable = "TemporalUnreachable"
	ReasonNoWorker    = "NoWorker"
	// ReasonNoProber is of disruptions with probes only: Deployment squall-probes asks none.
	ReasonNoProber = "NoProber"
	// ReasonReached is of Orchestrated once a problem is over.
	ReasonReached = "TemporalReached"
)

// Apply writes one condition and fails when d is not the newest version. A field
// manager owns one condition: whatever it applied before and does not apply now
// would be removed.
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
