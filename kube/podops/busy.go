package podops

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Busy returns the sign that another operation uses the pod, or that it is about to
// end; empty without one. A sign is a label of an operation with any value, the request
// to delete the pod, or the condition DisruptionTarget of an eviction.
//
// Labels of the phases before and after an operation alone do not count: some stay on a
// pod for good when an operation was ended wrongly.
func Busy(pod *corev1.Pod) string { return Operation{}.Busy(pod) }

// Busy is the package's Busy without the labels of this operation.
func (o Operation) Busy(pod *corev1.Pod) string {
	if pod.DeletionTimestamp != nil {
		return "it is being deleted"
	}
	first := ""
	for key := range pod.Labels {
		if operation(key) && !o.owns(key) && (first == "" || key < first) {
			first = key
		}
	}
	if first != "" {
		return "label " + first
	}
	if evicted := slices.IndexFunc(pod.Status.Conditions, endsPod); evicted >= 0 {
		return "condition " + string(corev1.DisruptionTarget) + ": " + pod.Status.Conditions[evicted].Reason
	}
	return ""
}

// operation is true for a label that a pod has as long as an operation uses it.
func operation(key string) bool {
	if key == LabelToDelete {
		return true
	}
	kind, id, found := strings.Cut(key, "/")
	return found && id != "" && (kind == LabelOperating || kind == LabelOperate || kind == LabelOperated)
}

func endsPod(c corev1.PodCondition) bool {
	return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue
}
