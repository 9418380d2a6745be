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

// AddGate is the JSON patch by which a pod that opted in by its label, and is being
// created, gets the readiness gate beside those it has. It is nil for any other pod,
// for one that has the gate, and for a static one: of that the kubelet asks no gate,
// so no driver could take it out of service.
func AddGate(pod *corev1.Pod) []byte {
	_, static := pod.Annotations[corev1.MirrorPodAnnotationKey]
	if pod.Labels[LabelManaged] != ManagedValue || gated(pod) || static {
		return nil
	}
	path, value := "/spec/readinessGates/-", any(corev1.PodReadinessGate{ConditionType: ReadinessGate})
	if len(pod.Spec.ReadinessGates) == 0 {
		path, value = "/spec/readinessGates", []any{value}
	}
	patch, _ := json.Marshal([]map[string]any{{"op": "add", "path": path, "value": value}}) // of strings alone: it cannot fail
	return patch
}
