package activities

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// progress is what the chaos pods say of an injection, as plain values.
type progress struct {
	targets map[string]map[v1beta1.Kind]v1beta1.TargetInjection
	// injected counts targets of which every kind is injected.
	injected, total int
	// readyPods counts chaos pods that are ready.
	readyPods int
}

// status is the table of rules 28-31. before is the status so far:
// Injected stays until the disruption ends.
func (p progress) status(before v1beta1.InjectionStatus) v1beta1.InjectionStatus {
	switch {
	case before == v1beta1.Injected:
		return v1beta1.Injected
	case p.total > 0 && p.injected == p.total:
		return v1beta1.Injected
	case p.readyPods > 0:
		return v1beta1.PartiallyInjected
	default:
		return v1beta1.NotInjected
	}
}

// done is true when nothing is left to wait for.
func (p progress) done() bool { return p.injected == p.total }

// measure compares the chosen targets with the chaos pods there are. reasons
// has, by chaos pod name, what an injector said went wrong.
func measure(ref Ref, targets []Target, faults []v1beta1.Fault, pods []*corev1.Pod, reasons map[string]string) progress {
	byName := make(map[string]*corev1.Pod, len(pods))
	for _, pod := range pods {
		byName[pod.Name] = pod
	}
	p := progress{targets: map[string]map[v1beta1.Kind]v1beta1.TargetInjection{}}
	for _, target := range targets {
		if target.Ended != "" {
			continue
		}
		p.total++
		kinds, ready := map[v1beta1.Kind]v1beta1.TargetInjection{}, 0
		for _, fault := range faults {
			name := ChaosPodName(ref, target.InjectionTarget, fault.Kind)
			injection := injectionOf(byName[name], target.UID, reasons[name])
			injection.InjectorPodName = name
			if injection.InjectionStatus == v1beta1.Injected {
				ready++
			}
			kinds[fault.Kind] = injection
		}
		p.readyPods += ready
		if ready == len(faults) {
			p.injected++
		}
		p.targets[target.Name] = kinds
	}
	return p
}

func injectionOf(pod *corev1.Pod, target types.UID, reason string) v1beta1.TargetInjection {
	injection := v1beta1.TargetInjection{TargetUID: target, InjectionStatus: v1beta1.NotInjected, Reason: reason}
	if pod == nil {
		return injection
	}
	ready, since := podReady(pod)
	if ready {
		injection.InjectionStatus, injection.Since, injection.Reason = v1beta1.Injected, &since, ""
		return injection
	}
	if injection.Reason == "" {
		injection.Reason = waitingFor(pod)
	}
	return injection
}

func podReady(pod *corev1.Pod) (bool, metav1.Time) {
	if pod.DeletionTimestamp != nil {
		return false, metav1.Time{}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			return true, condition.LastTransitionTime
		}
	}
	return false, metav1.Time{}
}

// ordinary are waiting reasons of a pod that starts as it should.
var ordinary = []string{"", "ContainerCreating", "PodInitializing"}

// waitingFor says why a chaos pod does not start, or is empty.
func waitingFor(pod *corev1.Pod) string {
	if waiting := injectorState(pod).Waiting; waiting != nil && !slices.Contains(ordinary, waiting.Reason) {
		return fmt.Sprintf("%s: %s", waiting.Reason, waiting.Message)
	}
	if pod.Status.Phase == corev1.PodFailed {
		return failure(pod, injectorState(pod))
	}
	return ""
}
