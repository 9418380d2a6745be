package kube

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// InjectorContainer is the name of the injector's container in every pod that
// Squall creates.
const InjectorContainer = "injector"

// PodHealthy is true for a pod that may be a target: a container of it runs, an
// injector can run on its node, and nobody is deleting it. One whose containers
// crash again and again is called Running by its phase.
func PodHealthy(pod *corev1.Pod) bool {
	linux := isLinux(pod.Spec.NodeSelector) && (pod.Spec.OS == nil || pod.Spec.OS.Name == corev1.Linux)
	return PodRunning(pod) && runsContainer(pod) && linux && pod.DeletionTimestamp == nil
}

// runsContainer is true also where nothing is said of containers.
func runsContainer(pod *corev1.Pod) bool {
	statuses := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	return len(statuses) == 0 || slices.ContainsFunc(statuses, func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
}

// PodRunning is true also for a pod that is being deleted and has not ended.
func PodRunning(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning }

// InjectorEnded is true as soon as the injector of a chaos pod has ended: the
// kubelet reports that a moment before the pod's phase. Other containers, which
// a cluster may add to every pod, do not count.
func InjectorEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed ||
		InjectorStatus(pod).State.Terminated != nil
}

// InjectorStatus is what the kubelet reported of the injector's container; the
// zero value when it never did.
func InjectorStatus(pod *corev1.Pod) corev1.ContainerStatus {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == InjectorContainer {
			return status
		}
	}
	return corev1.ContainerStatus{}
}
