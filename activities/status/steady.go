package status

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// SteadyStateChange is a change of the steady state.
type SteadyStateChange string

// The changes, which are the reasons of the condition SteadyState and of events.
const (
	// SteadyStateAsked: a phase began, or nothing happened that a user must know.
	SteadyStateAsked SteadyStateChange = "Asked"
	// SteadyStateReached: the probes of Before succeed.
	SteadyStateReached SteadyStateChange = "SteadyStateReached"
	// SteadyStateNotReached: they did not in time, and nothing is injected.
	SteadyStateNotReached SteadyStateChange = "SteadyStateNotReached"
	// SteadyStateLost: a probe of During failed, whose policy is Record.
	SteadyStateLost SteadyStateChange = "SteadyStateLost"
	// SteadyStateAborted: a probe of During failed, whose policy is Abort, and the
	// disruption ends.
	SteadyStateAborted SteadyStateChange = "Aborted"
	// SteadyStateBlind: a probe could not be asked for too long, and the policy is Record.
	SteadyStateBlind SteadyStateChange = "ProberLost"
	// SteadyStateBlindAborted: a probe could not be asked for too long, and the disruption
	// ends.
	SteadyStateBlindAborted SteadyStateChange = "ProberLostAborted"
	// SteadyStateRecovered: the probes of After succeed.
	SteadyStateRecovered SteadyStateChange = "SteadyStateRecovered"
	// SteadyStateNotRecovered: they did not in time.
	SteadyStateNotRecovered SteadyStateChange = "SteadyStateNotRecovered"
)

// SteadyStateReport is a decision of the workflow about the steady state.
type SteadyStateReport struct {
	Disruption v1beta1.DisruptionRef     `json:"disruption"`
	Status     v1beta1.SteadyStateStatus `json:"status"`
	Change     SteadyStateChange         `json:"change"`
	// Message describes what happened: which probe, on which targets, and its text.
	Message string `json:"message,omitempty"`
	// At is when the workflow decided it.
	At time.Time `json:"-"`
}

// steadyCondition is the effect of a change on the condition SteadyState.
type steadyCondition struct {
	status metav1.ConditionStatus
	reason string
	// aborts the disruption: its condition Aborted is True for this reason.
	aborts string
}

var steadyConditions = map[SteadyStateChange]steadyCondition{
	SteadyStateReached:      {metav1.ConditionTrue, "Reached", ""},
	SteadyStateNotReached:   {metav1.ConditionFalse, "NotReached", ""},
	SteadyStateLost:         {metav1.ConditionFalse, "Lost", ""},
	SteadyStateAborted:      {metav1.ConditionFalse, "Lost", "SteadyStateLost"},
	SteadyStateBlind:        {metav1.ConditionUnknown, "ProberLost", ""},
	SteadyStateBlindAborted: {metav1.ConditionUnknown, "ProberLost", "ProberLost"},
	SteadyStateRecovered:    {metav1.ConditionTrue, "Recovered", ""},
	SteadyStateNotRecovered: {metav1.ConditionFalse, "NotRecovered", ""},
}

// ShowSteadyState writes a decision of the workflow into status. A decision before the
// shown one changes only the condition Aborted, which never changes back.
func ShowSteadyState(d *v1beta1.Disruption, r SteadyStateReport) {
	condition, shows := steadyConditions[r.Change]
	if shows && condition.aborts != "" {
		SetCondition(d, v1beta1.ConditionAborted, metav1.ConditionTrue, condition.aborts, r.Message)
	}
	var shown *metav1.MicroTime
	if d.Status.SteadyState != nil {
		shown = d.Status.SteadyState.ReportedAt
	}
	at, late := decidedAt(r.At, shown)
	if late {
		return
	}
	now := r.Status.DeepCopy()
	now.ReportedAt = at
	d.Status.SteadyState = now
	if shows {
		SetCondition(d, v1beta1.ConditionSteadyState, condition.status, condition.reason, r.Message)
	}
}

// SteadyStateEvent returns the reasons of the events for a change, and whether they are
// warnings; no reasons for a change without events.
func SteadyStateEvent(change SteadyStateChange) (reasons []string, warning bool) {
	switch change {
	case SteadyStateReached, SteadyStateRecovered:
		return []string{string(change)}, false
	case SteadyStateNotReached, SteadyStateLost, SteadyStateNotRecovered, SteadyStateBlind:
		return []string{string(change)}, true
	case SteadyStateAborted:
		return []string{string(SteadyStateLost), "DisruptionAborted"}, true
	case SteadyStateBlindAborted:
		return []string{string(SteadyStateBlind), "DisruptionAborted"}, true
	}
	return nil, false
}

// ProbeStatusOf is the status of a report, with the verdict of its probe as far as it
// is known.
func ProbeStatusOf(report contract.ProbeReport, verdict v1beta1.Verdict) v1beta1.ProbeStatus {
	shown := v1beta1.ProbeStatus{
		Name: report.Name, State: report.State, Text: report.Text, Verdict: verdict,
		Targets: report.Targets, Failing: report.Failing, FailingTargets: report.FailingTargets,
	}
	if !report.Since.IsZero() {
		since := metav1.NewTime(report.Since.UTC())
		shown.Since = &since
	}
	return shown
}
