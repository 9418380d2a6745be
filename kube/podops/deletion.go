package podops

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Deletion is the operation that takes a pod out of service before it is deleted. It is
// the driver's own, with the id that Kuperator uses.
var Deletion = Operation{ID: "pod-delete", Type: "delete"}

// ToBeDeleted is true for a pod with a request to delete it that is not being deleted
// yet.
func ToBeDeleted(pod *corev1.Pod) bool {
	_, wanted := pod.Labels[LabelToDelete]
	return wanted && pod.DeletionTimestamp == nil
}

// WantDeletion returns the patch that requests the deletion.
func WantDeletion(pod types.UID, now time.Time) []byte {
	return labelsPatch(pod, map[string]any{LabelToDelete: fmt.Sprint(now.UnixNano())})
}

// DeletionAwaits returns what must happen before the pod may be deleted; empty if it
// may be deleted at once. That holds for a pod that ends already, or has no traffic:
// one that was never placed, one that has ended, and one that is given to Deletion and
// not ready.
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

// NextOfDeletion returns the driver's next action for a request to delete the pod. The
// driver begins Deletion, ends it when the request is withdrawn, and deletes the pod
// when Deletion permits it. A nil patch and false mean that another program has to act
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
