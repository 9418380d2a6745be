package crons

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// Note writes into the status of the DisruptionCron or DisruptionRollout whose run d is
// that it began, unless that is there. It is called before d's finalizer is removed: a
// run that neither exists nor is in the history never began.
func Note(ctx context.Context, client rest.Interface, d *v1beta1.Disruption) error {
	at, err := time.Parse(time.RFC3339, d.Annotations[v1beta1.AnnotationScheduledAt])
	if err != nil {
		return nil // it is no run that BeginRun created
	}
	owner := metav1.GetControllerOf(d)
	ref := contract.CronRef{Namespace: d.Namespace, Name: owner.Name, UID: owner.UID}
	if owner.Kind == v1beta1.KindDisruptionRollout {
		ref.Kind = owner.Kind
	}
	return (&Activities{Client: client}).updateStatus(ctx, ref, func(c *parent) {
		if !slices.ContainsFunc(*c.history, func(run v1beta1.DisruptionRun) bool { return run.UID == d.UID }) {
			show(c, at, d, began(d.UID))
		}
	})
}
