package cron

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/schedule"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/runs"
)

// Reasons of the condition Scheduled.
const (
	reasonScheduled   = "Scheduled"
	reasonPaused      = "Paused"
	reasonPausedThere = "PausedInTemporal"
	reasonInvalid     = "InvalidSchedule"
	reasonTooFrequent = "TooFrequent"
	reasonDeleted     = "Deleted"
)

// state is what the bridge writes into a cron's status.
type state struct {
	status          metav1.ConditionStatus
	reason, message string
	// next is when a run is due; zero if none is, or if it is unknown.
	next time.Time
}

func scheduled(c *v1beta1.DisruptionCron, pausedThere bool, note string, next time.Time) state {
	switch {
	case c.Spec.Paused:
		return state{metav1.ConditionFalse, reasonPaused, "spec.paused is true.", time.Time{}}
	case pausedThere:
		return state{metav1.ConditionFalse, reasonPausedThere, fmt.Sprintf("The schedule is paused in Temporal, with the note %.500q; unpause it there.", note), time.Time{}}
	}
	return state{metav1.ConditionTrue, reasonScheduled, "Runs begin by the schedule.", next}
}

// refused is the state of a cron with an invalid schedule.
func refused(wrong error) state {
	reason := reasonInvalid
	if errors.Is(wrong, schedule.ErrTooFrequent) {
		reason = reasonTooFrequent
	}
	return state{metav1.ConditionFalse, reason, wrong.Error(), time.Time{}}
}

// failed is the state of a cron whose schedule Temporal does not accept.
func failed(err error) state {
	reason, message := runs.Failed(err)
	return state{metav1.ConditionFalse, reason, message, time.Time{}}
}

// ending is the state of a cron that is being deleted.
func ending(err error) state {
	if err != nil {
		return failed(err)
	}
	return state{metav1.ConditionFalse, reasonDeleted, "It is being deleted, and its last run cleans.", time.Time{}}
}

// again is when to reconcile again: when the next run is due, next changes.
func (s state) again() time.Duration {
	if s.next.IsZero() {
		return recheck
	}
	return min(recheck, max(time.Until(s.next), 0)+time.Second)
}

// show writes the state if it differs from status.
func (r *reconciler) show(ctx context.Context, c *v1beta1.DisruptionCron, s state) error {
	conditions := slices.Clone(c.Status.Conditions)
	changed := meta.SetStatusCondition(&conditions, metav1.Condition{
		Type: v1beta1.ConditionScheduled, Status: s.status, Reason: s.reason, Message: s.message, ObservedGeneration: c.Generation,
	})
	var next *metav1.Time
	if !s.next.IsZero() {
		at := metav1.NewTime(s.next).Rfc3339Copy()
		next = &at
	}
	if !changed && next.Equal(c.Status.NextScheduleTime) {
		return nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(meta.FindStatusCondition(conditions, v1beta1.ConditionScheduled))
	if err != nil {
		return fmt.Errorf("encode the condition: %w", err)
	}
	status := map[string]any{"conditions": []any{fields}}
	if next != nil {
		status["nextScheduleTime"] = next.UTC().Format(time.RFC3339)
	}
	patch := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1beta1.GroupVersion.String(), "kind": "DisruptionCron",
		// The UID keeps the write from another object of the same name.
		"metadata": map[string]any{"namespace": c.Namespace, "name": c.Name, "uid": string(c.UID)},
		"status":   status,
	}}
	err = r.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(patch), client.FieldOwner(fieldManager), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("write status of DisruptionCron %s/%s: %w", c.Namespace, c.Name, err)
	}
	return nil
}
