package podops

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// gated is true for a pod that has the readiness gate.
func gated(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool { return g.ConditionType == ReadinessGate })
}

// AddGate returns the JSON patch that adds the readiness gate to a pod that opted in by
// its label and is being created. It is nil for any other pod, and for a pod that has
// the gate. It is nil for a static pod, too: its kubelet evaluates no gate, so no
// driver could take it out of service.
func AddGate(pod *corev1.Pod) []byte {
	_, static := pod.Annotations[corev1.MirrorPodAnnotationKey]
	if pod.Labels[LabelManaged] != ManagedValue || gated(pod) || static {
		return nil
	}
	path, value := "/spec/readinessGates/-", any(corev1.PodReadinessGate{ConditionType: ReadinessGate})
	if len(pod.Spec.ReadinessGates) == 0 {
		path, value = "/spec/readinessGates", []any{value}
	}
	patch, _ := json.Marshal([]map[string]any{{"op": "add", "path": path, "value": value}}) // of strings alone: cannot fail
	return patch
}
