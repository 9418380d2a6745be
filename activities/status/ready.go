package status

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// showReady writes the conditions Ready and Stalled, which programs read: kubectl wait,
// Flux and Argo CD. They follow from the rest of the status alone. A Stalled disruption
// does not become Ready without a person.
func showReady(d *v1beta1.Disruption) {
	if d.Status.Phase == "" {
		return
	}
	reason, message := stalled(d)
	if reason != "" {
		SetCondition(d, v1beta1.ConditionStalled, metav1.ConditionTrue, reason, message)
		SetCondition(d, v1beta1.ConditionReady, metav1.ConditionFalse, reason, "see the condition Stalled")
		return
	}
	meta.RemoveStatusCondition(&d.Status.Conditions, v1beta1.ConditionStalled)
	switch d.Status.Phase {
	case v1beta1.PhaseHolding:
		SetCondition(d, v1beta1.ConditionReady, metav1.ConditionTrue, "Injected", "all targets are injected")
	case v1beta1.PhaseFinished:
		SetCondition(d, v1beta1.ConditionReady, metav1.ConditionTrue, "Finished", "it was injected and cleaned up")
	default:
		SetCondition(d, v1beta1.ConditionReady, metav1.ConditionFalse, string(d.Status.Phase), "the disruption is in phase "+string(d.Status.Phase))
	}
}

// stalled returns why the disruption failed or waits for a person; empty if neither
// holds.
func stalled(d *v1beta1.Disruption) (reason, message string) {
	s := &d.Status
	of := func(conditionType string) (string, string) {
		if c := meta.FindStatusCondition(s.Conditions, conditionType); c != nil {
			return c.Reason, c.Message
		}
		return string(s.Phase), s.Ending
	}
	switch {
	case s.IsStuckOnRemoval, s.Phase == v1beta1.PhaseStuck:
		return of(v1beta1.ConditionStuckOnRemoval)
	case s.Phase == v1beta1.PhaseRejected:
		return of(v1beta1.ConditionAccepted)
	case s.Phase != v1beta1.PhaseFinished:
		return "", ""
	}
	switch reason, message := of(v1beta1.ConditionCleaned); {
	case reason == ReasonNotVerified, reason == reasonReleased:
		return reason, message
	case strings.HasPrefix(s.Ending, v1beta1.EndingFailed):
		return "Failed", s.Ending
	case s.SteadyState != nil && (s.SteadyState.Verdict == v1beta1.VerdictFailed || s.SteadyState.Verdict == v1beta1.VerdictAborted):
		return string(s.SteadyState.Verdict), s.SteadyState.Summary
	case s.InjectedTime == nil && !d.Spec.DryRun:
		return "NotInjected", "it has ended, and not every target was injected"
	}
	return "", ""
}
