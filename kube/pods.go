package kube

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// InjectorContainer is the name of the injector's container in every pod that Squall
// creates.
const InjectorContainer = "injector"

// PodsNotEnded is the field selector of pods that run, or will run.
const PodsNotEnded = "status.phase!=Succeeded,status.phase!=Failed"

// PodHealthy is true for a pod that may be a target: one of its containers runs, an
// injector can run on its node, and it is not being deleted. The phase does not
// suffice: it is Running also if all containers crash repeatedly.
func PodHealthy(pod *corev1.Pod) bool {
	return PodRunning(pod) && runsContainer(pod) && wantsLinux(pod) && pod.DeletionTimestamp == nil
}

// Unfit returns why a pod is not healthy, for people; empty for a healthy one.
func Unfit(pod *corev1.Pod) string {
	switch {
	case PodHealthy(pod):
		return ""
	case pod.DeletionTimestamp != nil:
		return "it is being deleted"
	case !PodRunning(pod):
		return "it is not running: phase " + string(pod.Status.Phase)
	case !wantsLinux(pod):
		return "it is made for another system than Linux"
	}
	return "none of its containers runs"
}

// PodWaits is true for a pod whose start may be disrupted: Squall's init container
// holds it back, an injector can run on its node, and it is not being deleted.
func PodWaits(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodPending && onInitState(pod).Running != nil && wantsLinux(pod) && pod.DeletionTimestamp == nil
}

// PodUp is true for a pod that can be disrupted already: it runs, or Squall's init
// container holds it back or has done so before the other containers start.
func PodUp(pod *corev1.Pod) bool {
	state := onInitState(pod)
	begun := state.Running != nil || state.Terminated != nil
	return PodRunning(pod) || pod.Status.Phase == corev1.PodPending && begun
}

func onInitState(pod *corev1.Pod) corev1.ContainerState {
	for _, status := range pod.Status.InitContainerStatuses {
		if status.Name == v1beta1.OnInitContainer {
			return status.State
		}
	}
	return corev1.ContainerState{}
}

func wantsLinux(pod *corev1.Pod) bool {
	return isLinux(pod.Spec.NodeSelector) && (pod.Spec.OS == nil || pod.Spec.OS.Name == corev1.Linux)
}

// runsContainer is true also without a report on containers.
func runsContainer(pod *corev1.Pod) bool {
	statuses := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	return len(statuses) == 0 || slices.ContainsFunc(statuses, func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
}

// PodRunning is true also for a pod that is being deleted and has not ended.
func PodRunning(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning }

// InjectorEnded is true as soon as the injector of a chaos pod has ended: the kubelet
// reports that a moment before the pod's phase. Other containers, which a cluster may
// add to every pod, do not count.
func InjectorEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed ||
		InjectorStatus(pod).State.Terminated != nil
}

// Unready is the condition of a running pod that its kubelet reports as not ready; nil
// for any other.
func Unready(pod *corev1.Pod) *corev1.PodCondition {
	if pod.Status.Phase != corev1.PodRunning {
		return nil
	}
	for i, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionFalse {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// readyAgainAfter is the least time between the measurement of an effect and the pod's
// readiness that proves an unready period in between. Such a period lasts at least one
// period of the readiness probe, which is twice as long; at first a chaos pod becomes
// ready sooner.
const readyAgainAfter = 5 * time.Second

// ReadyAgain is the condition of a chaos pod that is ready and was unready after its
// known effect was measured. The effect has changed meanwhile, even if no one saw the
// pod unready. It is nil for any other pod.
func ReadyAgain(pod *corev1.Pod, effect *v1beta1.Effect) *corev1.PodCondition {
	if effect == nil || pod.DeletionTimestamp != nil {
		return nil
	}
	for i, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue && condition.LastTransitionTime.Sub(effect.Since.Time) > readyAgainAfter {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// InjectorStatus is the kubelet's report on the injector's container; the zero value
// without a report.
func InjectorStatus(pod *corev1.Pod) corev1.ContainerStatus {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == InjectorContainer {
			return status
		}
	}
	return corev1.ContainerStatus{}
}

// Static is true of the pod that represents a kubelet's static pod in the API: the node
// does not know its containers by this pod's UID.
func Static(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	controller := metav1.GetControllerOf(pod)
	return mirror || controller != nil && controller.Kind == "Node"
}

// WithoutMemoryLimit returns the first container or sidecar of the pod whose memory
// neither it nor the pod limits; empty if there is none.
func WithoutMemoryLimit(pod *corev1.Pod) string {
	if pod.Spec.Resources != nil && !pod.Spec.Resources.Limits.Memory().IsZero() {
		return ""
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		ends := slices.ContainsFunc(pod.Spec.InitContainers, func(i corev1.Container) bool { return i.Name == c.Name }) &&
			(c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways)
		if !ends && c.Resources.Limits.Memory().IsZero() {
			return c.Name
		}
	}
	return ""
}

// Irreplaceable returns why a pod that is deleted would not start on another node;
// empty if it would.
func Irreplaceable(pod *corev1.Pod) string {
	controller := metav1.GetControllerOf(pod)
	switch {
	case Static(pod):
		return "it is a static pod, which its kubelet starts again on the same node"
	case controller == nil:
		return "it has no controller that would replace it"
	case controller.Kind == "DaemonSet":
		return "DaemonSet " + controller.Name + " would start it again on the same node: its pods tolerate a cordon"
	}
	return ""
}
