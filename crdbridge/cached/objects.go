package cached

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
	"github.com/squall-chaos/squall/kube/podops"
)

// stripPod keeps the fields of a pod that the bridge reads; a cluster has many pods.
func stripPod(o any) (any, error) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	kept := &corev1.Pod{TypeMeta: pod.TypeMeta, ObjectMeta: stripMeta(pod.ObjectMeta)}
	kept.Spec.NodeName = pod.Spec.NodeName
	kept.Spec.OS = pod.Spec.OS
	if system, found := pod.Spec.NodeSelector[corev1.LabelOSStable]; found {
		kept.Spec.NodeSelector = map[string]string{corev1.LabelOSStable: system}
	}
	kept.Status.Phase = pod.Status.Phase
	for _, c := range pod.Status.ContainerStatuses {
		kept.Status.ContainerStatuses = append(kept.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, State: stripState(c.State)})
	}
	for _, c := range pod.Status.InitContainerStatuses {
		if c.Name == v1beta1.OnInitContainer {
			kept.Status.InitContainerStatuses = append(kept.Status.InitContainerStatuses, corev1.ContainerStatus{Name: c.Name, State: stripState(c.State)})
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && (kube.Unready(pod) != nil || pod.Labels[v1beta1.LabelDisruptionUID] != "") {
			kept.Status.Conditions = append(kept.Status.Conditions, corev1.PodCondition{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime})
		}
		if c.Type == corev1.DisruptionTarget {
			kept.Status.Conditions = append(kept.Status.Conditions, corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason})
		}
	}
	if pod.Labels[podops.LabelManaged] == podops.ManagedValue {
		keepOperations(kept, pod)
	}
	if len(podops.Protections(pod)) > 0 {
		kept.Finalizers = pod.Finalizers // also if no driver moves it
	}
	return kept, nil
}

// keepOperations keeps the fields that show an operation on a pod that a driver moves: its
// readiness and its finalizers.
func keepOperations(kept, pod *corev1.Pod) {
	kept.Finalizers = pod.Finalizers
	for _, gate := range pod.Spec.ReadinessGates {
		if gate.ConditionType == podops.ReadinessGate {
			kept.Spec.ReadinessGates = append(kept.Spec.ReadinessGates, gate)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == podops.ReadinessGate || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			kept.Status.Conditions = append(kept.Status.Conditions, corev1.PodCondition{Type: c.Type, Status: c.Status})
		}
	}
}

// stripBudget keeps what a budget allows, and whether its status is current.
func stripBudget(o any) (any, error) {
	budget, ok := o.(*policyv1.PodDisruptionBudget)
	if !ok {
		return o, nil
	}
	kept := &policyv1.PodDisruptionBudget{TypeMeta: budget.TypeMeta, ObjectMeta: stripMeta(budget.ObjectMeta)}
	kept.Generation = budget.Generation
	kept.Status.ObservedGeneration, kept.Status.DisruptionsAllowed = budget.Status.ObservedGeneration, budget.Status.DisruptionsAllowed
	return kept, nil
}

// stripState keeps whether a container runs or has ended, and its exit code.
func stripState(s corev1.ContainerState) corev1.ContainerState {
	switch {
	case s.Running != nil:
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	case s.Terminated != nil:
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: s.Terminated.ExitCode}}
	}
	return corev1.ContainerState{}
}

func stripNode(o any) (any, error) {
	node, ok := o.(*corev1.Node)
	if !ok {
		return o, nil
	}
	kept := &corev1.Node{TypeMeta: node.TypeMeta, ObjectMeta: stripMeta(node.ObjectMeta)}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			kept.Status.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	return kept, nil
}

func stripMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:              m.Name,
		Namespace:         m.Namespace,
		UID:               m.UID,
		ResourceVersion:   m.ResourceVersion,
		DeletionTimestamp: m.DeletionTimestamp,
		Labels:            m.Labels,
		Annotations:       m.Annotations,
	}
}
