package podops

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Busy says what shows that somebody operates on the pod, or is about to end it;
// empty when nobody does. That is a label of an operation, with any value, the
// wish to delete it, or the condition DisruptionTarget of an eviction.
//
// Labels of the phases before and after an operation alone do not count: some stay
// on a pod for good when an operation was ended in a wrong way.
func Busy(pod *corev1.Pod) string { return Operation{}.Busy(pod) }

// Busy says what shows that somebody else than the operation operates on the pod,
// as Busy does.
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

// operation is true for a label that is on a pod as long as somebody operates on it.
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
