package emergencystop

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/condition"
	"github.com/squall-chaos/squall/kube"
)

// statusGap is the shortest time between two writes of a stop's progress.
const statusGap = 250 * time.Millisecond

// Reasons of the condition Clean.
const (
	reasonClean    = "Clean"
	reasonCleaning = "Cleaning"
	reasonStuck    = "StuckOnRemoval"
)

// report writes the progress into every stop, and returns when to write what is too early
// now.
func (r *stopReconciler) report(ctx context.Context, s *stopSnapshot) (again time.Duration, err error) {
	written := false
	for i := range s.stops {
		stop := &s.stops[i]
		status := s.status(stop)
		if equality.Semantic.DeepEqual(status, stop.Status) {
			continue
		}
		if wait := statusGap - time.Since(r.wrote); wait > 0 {
			again = wait
			continue
		}
		if err := r.write(ctx, stop, status); err != nil {
			return 0, err
		}
		written = true
	}
	if written {
		r.wrote = time.Now()
	}
	return again, nil
}

// status computes the status of a stop.
func (s *stopSnapshot) status(stop *v1beta1.EmergencyStop) v1beta1.EmergencyStopStatus {
	status := *stop.Status.DeepCopy()
	status.Stopped, status.Cleaning, status.Injectors = 0, 0, 0
	var stuck, orphans []string
	idle := "" // why no workflow proceeds
	exists := map[types.UID]bool{}
	for i := range s.disruptions {
		d := &s.disruptions[i]
		exists[d.UID] = true
		if stop.Ended(cmp.Or(d.Status.Ending, d.Stopped())) {
			status.Stopped++
		}
		if d.Settled() {
			continue
		}
		status.Cleaning++
		c := meta.FindStatusCondition(d.Status.Conditions, v1beta1.ConditionOrchestrated)
		if c != nil && (c.Reason == condition.ReasonUnreachable || c.Reason == condition.ReasonNoWorker) {
			idle = c.Reason
		}
		if d.Status.IsStuckOnRemoval {
			stuck = append(stuck, d.Namespace+"/"+d.Name)
		}
	}
	for i := range s.chaosPods {
		pod := &s.chaosPods[i]
		if !kube.InjectorEnded(pod) {
			status.Injectors++
		}
		if !exists[types.UID(pod.Labels[v1beta1.LabelDisruptionUID])] {
			orphans = append(orphans, pod.Name)
		}
	}
	clean := metav1.Condition{Type: v1beta1.ConditionClean, Status: metav1.ConditionFalse, ObservedGeneration: stop.Generation}
	clean.Reason, clean.Message = progress(status, stuck, orphans, s.scenarios, idle)
	if clean.Reason == reasonClean {
		clean.Status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&status.Conditions, clean)
	return status
}

// progress is the reason and the message of the condition Clean. scenarios are the
// DisruptionScenarios that have not ended. idle is why no workflow proceeds, or empty.
func progress(s v1beta1.EmergencyStopStatus, stuck, orphans, scenarios []string, idle string) (reason, message string) {
	if s.Cleaning == 0 && s.Injectors == 0 && len(orphans)+len(scenarios) == 0 {
		return reasonClean, "every disruption has ended and no chaos pod is left"
	}
	reason = reasonCleaning
	message = fmt.Sprintf("injectors that still run: %d; disruptions that have not ended: %d", s.Injectors, s.Cleaning)
	if len(orphans) > 0 {
		message += "; chaos pods without a disruption: " + some(orphans)
	}
	if len(scenarios) > 0 {
		message += "; DisruptionScenarios that have not ended: " + some(scenarios)
	}
	switch idle {
	case condition.ReasonUnreachable:
		reason = idle
		message += "; Temporal cannot be reached: ended disruptions are reported as clean when it is back"
	case condition.ReasonNoWorker:
		reason = idle
		message += "; no worker runs: ended disruptions are reported as clean when one does"
	}
	if len(stuck) > 0 {
		reason = reasonStuck
		message += "; a person must decide about: " + some(stuck)
	}
	return reason, message
}

// some joins the names in order, at most ten and the number of the rest.
func some(names []string) string {
	const most = 10
	slices.Sort(names)
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// write applies status to exactly this stop. It ignores a stop that is gone.
func (r *stopReconciler) write(ctx context.Context, stop *v1beta1.EmergencyStop, status v1beta1.EmergencyStopStatus) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return fmt.Errorf("encode the status of emergency stop %s: %w", stop.Name, err)
	}
	patch := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1beta1.GroupVersion.String(),
		"kind":       "EmergencyStop",
		"metadata":   map[string]any{"name": stop.Name, "uid": string(stop.UID)},
		"status":     fields,
	}}
	err = r.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(patch), client.FieldOwner(stopManager), client.ForceOwnership)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("write the status of emergency stop %s: %w", stop.Name, err)
	}
	return nil
}
