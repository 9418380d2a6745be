package disruption

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// settled handles a disruption that needs no workflow any more, or could not be read.
func (r *reconciler) settled(ctx context.Context, name types.NamespacedName, d *v1beta1.Disruption, err error) (reconcile.Result, error) {
	r.sent.forget(name)
	if err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	return r.collect(ctx, d)
}

// collect deletes a settled disruption after its ttl, and requeues it until then.
func (r *reconciler) collect(ctx context.Context, d *v1beta1.Disruption) (reconcile.Result, error) {
	if r.ttl == 0 || !collectable(d) {
		return reconcile.Result{}, nil
	}
	if left := time.Until(endedAt(d).Add(r.ttl)); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	// A disruption that changed meanwhile is not deleted: it may be another one of that
	// name.
	err := r.client.Delete(ctx, d, client.Preconditions{UID: &d.UID, ResourceVersion: &d.ResourceVersion})
	if err != nil {
		return retry(fmt.Errorf("delete the disruption that has ended: %w", err))
	}
	log.FromContext(ctx).Info("deleted a disruption that ended", "after", r.ttl)
	return reconcile.Result{}, nil
}

// collectable is true when the disruption may be deleted. A disruption that may have left
// something on a node stays until a person deletes it. The last run of a cron stays until
// the next run takes its name, or the cron is deleted.
func collectable(d *v1beta1.Disruption) bool {
	unsure := d.Status.CleanedVerified != nil && !*d.Status.CleanedVerified
	return d.Status.Phase.Over() && d.DeletionTimestamp == nil && !unsure && metav1.GetControllerOf(d) == nil
}

// endedAt is when the disruption ended. A disruption that never began has no such time: the
// last transition of a condition counts.
func endedAt(d *v1beta1.Disruption) time.Time {
	if d.Status.CleanedAt != nil {
		return d.Status.CleanedAt.Time
	}
	last := d.CreationTimestamp.Time
	for _, c := range d.Status.Conditions {
		if c.LastTransitionTime.After(last) {
			last = c.LastTransitionTime.Time
		}
	}
	return last
}
