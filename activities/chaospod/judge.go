package chaospod

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// Outcome is what became of a chaos pod.
type Outcome string

// The outcomes. Waiting needs more time; Clean may lose its finalizer;
// Failed is kept, with its finalizer, for a person to look at.
const (
	Waiting Outcome = "Waiting"
	Clean   Outcome = "Clean"
	Failed  Outcome = "Failed"
)

// Judge decides what may become of a chaos pod that is to go, by the table of
// rules 38-44 and 47. cleanable says whether the target still runs; it
// counts only when the injector failed.
func Judge(pod *corev1.Pod, cleanable bool) (outcome Outcome, why string) {
	state := InjectorState(pod)
	exited := state.Terminated
	switch {
	case exited != nil && (exited.ExitCode == 0 || neverStarted(pod) || readInjectionReport(exited).Cleaned):
		// 41, and 43a: the exit code counts before the phase. An injector that
		// refused its document changed nothing and says so.
		return Clean, ""
	case exited == nil && state.Running == nil && kube.InjectorEnded(pod), Unstarted(pod) && Dropped(pod):
		return Clean, "" // 42, 43a: nothing ever ran
	case Unstarted(pod):
		return Waiting, "its kubelet has not confirmed that the chaos pod will not run"
	case exited == nil && !kube.InjectorEnded(pod):
		return Waiting, "the chaos pod is still running" // 47
	case !cleanable:
		return Clean, "" // 38-40
	}
	return Failed, Failure(pod, state) // 44
}

// Audited is true when the end of a chaos pod proves that it left nothing on its
// node: its injector searched for it, or nothing ever ran. A pod that its kubelet
// rejected, as with the reason OutOfcpu, proves nothing: a kubelet that restarts may
// reject a pod that ran, and then drops what it had reported of the containers.
func Audited(pod *corev1.Pod) bool {
	state := InjectorState(pod)
	if state.Terminated == nil {
		return state.Running == nil && pod.Status.Reason == ""
	}
	return neverStarted(pod) || readInjectionReport(state.Terminated).Audited
}

// Unstarted is true of a pod of which no kubelet has said that it ran. It may be
// starting all the same, and told of later.
func Unstarted(pod *corev1.Pod) bool {
	state := InjectorState(pod)
	pending := pod.Status.Phase == corev1.PodPending || pod.Status.Phase == ""
	return pending && state.Terminated == nil && state.Running == nil
}

// Dropped is true of a pod that its kubelet is done with, so that nothing of it
// will run: it sets the grace period to 0 then.
func Dropped(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0
}

// InjectorState is the state of the injector's container; the zero value when
// the kubelet never reported one.
func InjectorState(pod *corev1.Pod) corev1.ContainerState { return kube.InjectorStatus(pod).State }

// neverStarted is true for a container whose process was never executed, so
// that nothing can have been injected: it could not be, or the kubelet was done
// with the pod before there was a container, as when its image is missing. Of
// one that ran and was lost it keeps the ID, or says so as its last state.
func neverStarted(pod *corev1.Pod) bool {
	status := kube.InjectorStatus(pod)
	exited := status.State.Terminated
	if exited == nil {
		return false
	}
	return exited.Reason == "StartError" || exited.Reason == "ContainerCannotRun" ||
		exited.Reason == "ContainerStatusUnknown" && status.ContainerID == "" && status.LastTerminationState.Terminated == nil
}

// readInjectionReport reads the injector's termination message; the zero value when it
// said nothing that can be read.
func readInjectionReport(t *corev1.ContainerStateTerminated) v1beta1.InjectionReport {
	words := v1beta1.InjectionReport{}
	if json.Unmarshal([]byte(t.Message), &words) != nil {
		return v1beta1.InjectionReport{}
	}
	return words
}

// Failure is what a person needs to know of an injector that did not clean.
func Failure(pod *corev1.Pod, state corev1.ContainerState) string {
	if why := Rejection(pod); why != "" {
		return why
	}
	if state.Terminated == nil {
		return fmt.Sprintf("chaos pod ended (%s %s) and the injector's exit code is unknown", pod.Status.Phase, pod.Status.Reason)
	}
	if words := readInjectionReport(state.Terminated); words.Error != "" {
		reason := words.Error
		if len(words.Left) > 0 {
			reason += "; left: " + strings.Join(words.Left, ", ")
		}
		return reason
	}
	why := fmt.Sprintf("injector exited with code %d (%s)", state.Terminated.ExitCode, state.Terminated.Reason)
	if state.Terminated.Message == "" {
		return why + " without a reason"
	}
	return why + ": " + strings.TrimSpace(state.Terminated.Message)
}

// Rejection is why the kubelet of a pod's node rejected the pod, such as OutOfcpu on a full
// node; empty of any other pod.
func Rejection(pod *corev1.Pod) string {
	state := InjectorState(pod)
	message, rejected := strings.CutPrefix(pod.Status.Message, "Pod was rejected: ")
	rejected = rejected || strings.HasPrefix(pod.Status.Reason, "OutOf")
	if pod.Status.Phase != corev1.PodFailed || state.Running != nil || state.Terminated != nil || !rejected {
		return ""
	}
	return strings.TrimSuffix(fmt.Sprintf("the kubelet of node %s rejected pod %s: %s: %s", pod.Spec.NodeName, pod.Name, pod.Status.Reason, message), ": ")
}

// NeverInjected tells whether a chaos pod that has ended is sure to have injected
// nothing, and why it did not: no process of it ran, or its injector says so and
// that it left nothing.
func NeverInjected(pod *corev1.Pod) (why string, never bool) {
	state := InjectorState(pod)
	switch {
	case state.Running != nil:
		return "", false
	case state.Terminated == nil:
		return cmp.Or(WaitingFor(pod), "its chaos pod never ran"), true
	case neverStarted(pod):
		return cmp.Or(state.Terminated.Message, "its injector could not be started"), true
	}
	report := readInjectionReport(state.Terminated)
	if report.Injected || !report.Cleaned {
		return "", false
	}
	return cmp.Or(report.Error, "its injector was asked to end before"), true
}

// Results are what the injector of a chaos pod that ended counted: whether it
// injected, and whether it cleaned, each "succeeded", "failed", or empty when it
// did not try. A cleaner has none, nor a pod in which nothing ran, nor what ended with the node that it was to end.
func Results(pod *corev1.Pod) (injected, cleaned string) {
	exited := InjectorState(pod).Terminated
	if exited == nil || neverStarted(pod) || pod.Labels[v1beta1.LabelCleaner] != "" {
		return "", ""
	}
	if exited.Message == "" && pod.Labels[v1beta1.LabelDisruptionKind] == string(v1beta1.KindNodeFailure) {
		return "", "" // it ended its own node
	}
	report := readInjectionReport(exited)
	switch {
	case report.Injected:
		injected = "succeeded"
	case report.Cleaned && report.Error != "":
		injected = "failed"
	}
	if report.Cleaned || exited.ExitCode == 0 {
		return injected, "succeeded"
	}
	return injected, "failed"
}

// EndedWithoutWords is true of a chaos pod whose injector has ended and could not
// say how: it was killed, or its node ended.
func EndedWithoutWords(pod *corev1.Pod) bool {
	exited := InjectorState(pod).Terminated
	return exited == nil || exited.Message == ""
}

// FailedAt is when a chaos pod failed, as far as its kubelet or the node's
// controller told.
func FailedAt(pod *corev1.Pod) time.Time {
	if exited := InjectorState(pod).Terminated; exited != nil && !exited.FinishedAt.IsZero() {
		return exited.FinishedAt.Time
	}
	failed := pod.CreationTimestamp.Time
	for _, condition := range pod.Status.Conditions {
		if condition.LastTransitionTime.After(failed) {
			failed = condition.LastTransitionTime.Time
		}
	}
	return failed
}
