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

// The outcomes. Waiting needs more time. Clean may lose its finalizer. Failed keeps its
// finalizer, for a person to inspect.
const (
	Waiting Outcome = "Waiting"
	Clean   Outcome = "Clean"
	Failed  Outcome = "Failed"
)

// Judge decides the outcome of a chaos pod that is to be deleted, by the table of rules
// 38-44 and 47. cleanable means that the target still runs; it counts only when the
// injector failed.
func Judge(pod *corev1.Pod, cleanable bool) (outcome Outcome, why string) {
	state := InjectorState(pod)
	exited := state.Terminated
	switch {
	case exited != nil && (exited.ExitCode == 0 || neverStarted(pod) || readInjectionReport(exited).Cleaned):
		// 41, and 43a: the exit code counts before the phase. An injector that refused its
		// document changed nothing and reports so.
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

// Audited is true when the end of a chaos pod proves that it left nothing on its node:
// its injector searched for it, or nothing ever ran. A pod that its kubelet rejected,
// as with the reason OutOfcpu, proves nothing: a kubelet that restarts may reject a pod
// that ran, and drops what it had reported of the containers.
func Audited(pod *corev1.Pod) bool {
	state := InjectorState(pod)
	if state.Terminated == nil {
		return state.Running == nil && pod.Status.Reason == ""
	}
	return neverStarted(pod) || readInjectionReport(state.Terminated).Audited
}

// Unstarted is true of a pod that no kubelet has reported as run. It may still be
// starting, and be reported later.
func Unstarted(pod *corev1.Pod) bool {
	state := InjectorState(pod)
	pending := pod.Status.Phase == corev1.PodPending || pod.Status.Phase == ""
	return pending && state.Terminated == nil && state.Running == nil
}

// Dropped is true of a pod that its kubelet has finished with, so that nothing of it
// will run: the kubelet then sets the grace period to 0.
func Dropped(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0
}

// InjectorState is the state of the injector's container; the zero value if the kubelet
// never reported one.
func InjectorState(pod *corev1.Pod) corev1.ContainerState { return kube.InjectorStatus(pod).State }

// neverStarted is true for a container whose process was never executed, so that
// nothing can have been injected. Either the container could not start, or the kubelet
// had finished with the pod before there was a container, as when its image is missing.
// For a container that ran and was lost, the kubelet keeps the ID or a last state.
func neverStarted(pod *corev1.Pod) bool {
	status := kube.InjectorStatus(pod)
	exited := status.State.Terminated
	if exited == nil {
		return false
	}
	return exited.Reason == "StartError" || exited.Reason == "ContainerCannotRun" ||
		exited.Reason == "ContainerStatusUnknown" && status.ContainerID == "" && status.LastTerminationState.Terminated == nil
}

// readInjectionReport reads the injector's termination message; the zero value if it
// has no readable report.
func readInjectionReport(t *corev1.ContainerStateTerminated) v1beta1.InjectionReport {
	report := v1beta1.InjectionReport{}
	if json.Unmarshal([]byte(t.Message), &report) != nil {
		return v1beta1.InjectionReport{}
	}
	return report
}

// Failure describes an injector that did not clean, for a person.
func Failure(pod *corev1.Pod, state corev1.ContainerState) string {
	if why := Rejection(pod); why != "" {
		return why
	}
	if state.Terminated == nil {
		return fmt.Sprintf("chaos pod ended (%s %s) and the injector's exit code is unknown", pod.Status.Phase, pod.Status.Reason)
	}
	if report := readInjectionReport(state.Terminated); report.Error != "" {
		reason := report.Error
		if len(report.Left) > 0 {
			reason += "; left: " + strings.Join(report.Left, ", ")
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

// NoRoom is for what a rejected cleaner waits; empty for any other pod. A full node is
// temporary, so a rejection proves nothing about the clean-up.
func NoRoom(cleaner *corev1.Pod) string {
	why := Rejection(cleaner)
	switch {
	case why == "":
		return ""
	case strings.HasPrefix(cleaner.Status.Reason, "OutOf"):
		return fmt.Sprintf("the cleaner waits for room on node %s: %s", cleaner.Spec.NodeName, why)
	}
	return fmt.Sprintf("the cleaner waits until node %s admits it: %s", cleaner.Spec.NodeName, why)
}

// NeverInjected reports whether an ended chaos pod certainly injected nothing, and why:
// no process of it ran, or its injector reports that it injected and left nothing.
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

// Results are the results that the injector of an ended chaos pod counted: whether it
// injected, and whether it cleaned. Each is "succeeded", "failed", or empty when it did
// not try. A cleaner has none, nor has a pod in which nothing ran, nor a nodeFailure
// that ended its own node.
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

// EndedWithoutReport is true of a chaos pod whose injector ended without a report: it
// was killed, or its node ended.
func EndedWithoutReport(pod *corev1.Pod) bool {
	exited := InjectorState(pod).Terminated
	return exited == nil || exited.Message == ""
}

// FailedAt is when a chaos pod failed, as far as its kubelet or the node controller
// reported it.
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
