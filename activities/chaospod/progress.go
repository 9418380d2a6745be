package chaospod

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Progress is what the chaos pods report of an injection, as plain values.
type Progress struct {
	// Targets has each target's injections, by name and kind.
	Targets map[string]map[v1beta1.Kind]v1beta1.TargetInjection
	// Injected counts targets of which every kind is injected.
	Injected, Total int
	// ReadyPods counts chaos pods that are ready.
	ReadyPods int
	// Waiting has the names of targets whose injection has not failed but waits for its
	// turn; their reason describes for what.
	Waiting map[string]bool
}

// Status is the table of rules 28-31. before is the status so far: Injected stays until
// the disruption ends.
func (p Progress) Status(before v1beta1.InjectionStatus) v1beta1.InjectionStatus {
	switch {
	case before == v1beta1.Injected:
		return v1beta1.Injected
	case p.Total > 0 && p.Injected == p.Total:
		return v1beta1.Injected
	case p.ReadyPods > 0:
		return v1beta1.PartiallyInjected
	default:
		return v1beta1.NotInjected
	}
}

// Done is true when every target is injected.
func (p Progress) Done() bool { return p.Injected == p.Total }

// Equal reports whether p and b have the same content.
func (p Progress) Equal(b Progress) bool {
	return p.Injected == b.Injected && p.Total == b.Total && p.ReadyPods == b.ReadyPods &&
		maps.EqualFunc(p.Targets, b.Targets, func(x, y map[v1beta1.Kind]v1beta1.TargetInjection) bool {
			return maps.EqualFunc(x, y, func(i, j v1beta1.TargetInjection) bool {
				return i.InjectionStatus == j.InjectionStatus && i.Reason == j.Reason && i.InjectorPodName == j.InjectorPodName &&
					SameEffect(i.Effect, j.Effect)
			})
		})
}

// FirstReason is why the first target that could not be injected is not; empty if none
// has a reason.
func (p Progress) FirstReason() string { return p.firstReason(false) }

// FirstWait is for what the first target that waits for its turn waits; empty if none
// does.
func (p Progress) FirstWait() string { return p.firstReason(true) }

func (p Progress) firstReason(waiting bool) string {
	for _, name := range slices.Sorted(maps.Keys(p.Targets)) {
		if p.Waiting[name] != waiting {
			continue
		}
		for _, kind := range slices.Sorted(maps.Keys(p.Targets[name])) {
			if why := p.Targets[name][kind].Reason; why != "" {
				return name + ": " + why
			}
		}
	}
	return ""
}

// Of reports whether a target is injected with at least one kind, and if not, why, as
// far as that is known.
func (p Progress) Of(target v1beta1.InjectionTarget) (injected bool, why string) {
	kinds := p.Targets[target.Name]
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		injected = injected || kinds[kind].InjectionStatus == v1beta1.Injected
		why = cmp.Or(why, kinds[kind].Reason)
	}
	return injected, why
}

// injectionKey identifies the one chaos pod of a disruption for a target and a kind.
type injectionKey struct {
	target types.UID
	kind   v1beta1.Kind
}

// Measure compares the chosen targets with the existing chaos pods. reasons has the
// errors that injectors reported, by chaos pod name.
func Measure(ref v1beta1.DisruptionRef, targets []v1beta1.InjectionTarget, faults []v1beta1.Fault, pods []*corev1.Pod, reasons map[string]string) Progress {
	byTarget := make(map[injectionKey]*corev1.Pod, len(pods))
	for _, pod := range pods {
		if pod.Labels[v1beta1.LabelCleaner] == "" {
			byTarget[injectionKey{TargetUID(pod), v1beta1.Kind(pod.Labels[v1beta1.LabelDisruptionKind])}] = pod
		}
	}
	p := Progress{Targets: map[string]map[v1beta1.Kind]v1beta1.TargetInjection{}}
	for _, target := range targets {
		p.Total++
		kinds, ready := map[v1beta1.Kind]v1beta1.TargetInjection{}, 0
		for _, fault := range faults {
			pod, name := byTarget[injectionKey{target.UID, fault.Kind}], ""
			if pod != nil {
				name = pod.Name
			} else {
				name = Name(ref, target, fault.Kind) // more expensive than the label
			}
			injection := injectionOf(pod, target.UID, reasons[name])
			injection.InjectorPodName = name
			if injection.InjectionStatus == v1beta1.Injected {
				ready++
			}
			kinds[fault.Kind] = injection
		}
		p.ReadyPods += ready
		if ready == len(faults) {
			p.Injected++
		}
		p.Targets[target.Name] = kinds
	}
	return p
}

func injectionOf(pod *corev1.Pod, target types.UID, reason string) v1beta1.TargetInjection {
	injection := v1beta1.TargetInjection{TargetUID: target, InjectionStatus: v1beta1.NotInjected, Reason: reason}
	if pod == nil {
		return injection
	}
	ready, since := Ready(pod)
	if ready {
		injection.InjectionStatus, injection.Since, injection.Reason = v1beta1.Injected, &since, ""
		return injection
	}
	if injection.Reason == "" {
		injection.Reason = WaitingFor(pod)
	}
	return injection
}

// Ready reports whether a chaos pod has injected and still runs, and since when.
func Ready(pod *corev1.Pod) (bool, metav1.Time) {
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

// ordinary are waiting reasons of a pod that starts normally.
var ordinary = []string{"", "ContainerCreating", "PodInitializing"}

// WaitingFor returns why a chaos pod does not start; empty if it starts normally.
func WaitingFor(pod *corev1.Pod) string {
	if waiting := InjectorState(pod).Waiting; waiting != nil && !slices.Contains(ordinary, waiting.Reason) {
		return fmt.Sprintf("%s: %s", waiting.Reason, waiting.Message)
	}
	if pod.Status.Phase == corev1.PodFailed {
		return Failure(pod, InjectorState(pod))
	}
	return ""
}
