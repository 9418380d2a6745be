package podops

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Deletion is the operation by which a pod that somebody wants to delete is taken out
// of service first. It is the driver's own, with the id that Kuperator gives it.
var Deletion = Operation{ID: "pod-delete", Type: "delete"}

// ToBeDeleted is true for a pod that somebody wants to delete, and nobody has deleted yet.
func ToBeDeleted(pod *corev1.Pod) bool {
	_, wanted := pod.Labels[LabelToDelete]
	return wanted && pod.DeletionTimestamp == nil
}

// WantDeletion is the patch that says so.
func WantDeletion(pod types.UID, now time.Time) []byte {
	return labelsPatch(pod, map[string]any{LabelToDelete: fmt.Sprint(now.UnixNano())})
}

// DeletionAwaits says what has to be before the pod may be deleted; empty if that may
// be at once. It may for a pod that ends already, or has no traffic: one that was never
// placed, one that has ended, and one that is given to Deletion and is not ready.
func DeletionAwaits(pod *corev1.Pod) string {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	switch {
	case !Drivable(pod), pod.DeletionTimestamp != nil, pod.Spec.NodeName == "", ended:
		return ""
	case Deletion.given(pod) && !Ready(pod):
		return ""
	}
	return Deletion.Awaits(pod)
}

// NextOfDeletion is what the driver does about a wish to delete the pod: it begins
// Deletion, it takes that back when nobody wishes it any more, and at its end it
// deletes the pod. A patch of nil and false are nothing: others are to do something
// first.
func NextOfDeletion(pod *corev1.Pod, now time.Time) (patch []byte, remove bool) {
	wanted := ToBeDeleted(pod)
	switch {
	case !Drivable(pod), pod.DeletionTimestamp != nil:
		return nil, false
	case wanted && DeletionAwaits(pod) == "":
		return nil, true
	case wanted && !Deletion.On(pod):
		return Deletion.Begin(pod.UID, now), false
	case !wanted && Deletion.Begun(pod):
		return Deletion.End(pod), false
	}
	return nil, false
}
