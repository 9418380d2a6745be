package podops

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// rule L22: a pod that opted in gets the gate, and nothing else is changed.
func TestAddGate(t *testing.T) {
	const (
		first   = `[{"op":"add","path":"/spec/readinessGates","value":[{"conditionType":"pod.kusionstack.io/service-ready"}]}]`
		further = `[{"op":"add","path":"/spec/readinessGates/-","value":{"conditionType":"pod.kusionstack.io/service-ready"}}]`
		nothing = ""
	)
	gates := func(types ...corev1.PodConditionType) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			for _, kind := range types {
				pod.Spec.ReadinessGates = append(pod.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: kind})
			}
		}
	}
	for _, test := range []struct {
		name   string
		change func(*corev1.Pod)
		want   string
	}{
		{"it opted in", gates(), first},
		{"it has gates of others", gates("load-balancer/attached", "mesh/joined"), further},
		{"it has the gate", gates(ReadinessGate), nothing},
		{"it has the gate among others", gates("load-balancer/attached", ReadinessGate), nothing},
		{"it says nothing", func(pod *corev1.Pod) { pod.Labels = nil }, nothing},
		{"it opted out", func(pod *corev1.Pod) { pod.Labels[LabelManaged] = "false" }, nothing},
		{"it opted out, with the gate of its template", func(pod *corev1.Pod) { gates(ReadinessGate)(pod); pod.Labels = nil }, nothing},
		{"it is static", func(pod *corev1.Pod) { pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"} }, nothing},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := &corev1.Pod{}
			pod.Labels = map[string]string{LabelManaged: ManagedValue, "app": "web"}
			test.change(pod)
			if got := string(AddGate(pod)); got != test.want {
				t.Errorf("AddGate = %s, want %s", got, test.want)
			}
		})
	}
}
