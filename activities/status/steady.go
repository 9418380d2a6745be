package status

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// SteadyStateChange is what happened to the steady state.
type SteadyStateChange string

// The changes, which are the reasons of the condition SteadyState and of events.
const (
	// SteadyStateAsked: a phase began, or nothing happened that anybody must know.
	SteadyStateAsked SteadyStateChange = "Asked"
	// SteadyStateReached: the probes of Before succeed.
	SteadyStateReached SteadyStateChange = "SteadyStateReached"
	// SteadyStateNotReached: they did not in time, and nothing is injected.
	SteadyStateNotReached SteadyStateChange = "SteadyStateNotReached"
	// SteadyStateLost: a probe of During failed, whose policy is Record.
	SteadyStateLost SteadyStateChange = "SteadyStateLost"
	// SteadyStateAborted: one failed whose policy is Abort, and the disruption ends.
	SteadyStateAborted SteadyStateChange = "Aborted"
	// SteadyStateBlind: nobody could ask for too long, and the policy is Record.
	SteadyStateBlind SteadyStateChange = "ProberLost"
	// SteadyStateBlindAborted: the same, and the disruption ends for that.
	SteadyStateBlindAborted SteadyStateChange = "ProberLostAborted"
	// SteadyStateRecovered: the probes of After succeed.
	SteadyStateRecovered SteadyStateChange = "SteadyStateRecovered"
	// SteadyStateNotRecovered: they did not in time.
	SteadyStateNotRecovered SteadyStateChange = "SteadyStateNotRecovered"
)

// SteadyStateReport is what the workflow decided about the steady state.
type SteadyStateReport struct {
	Disruption v1beta1.DisruptionRef     `json:"disruption"`
	Status     v1beta1.SteadyStateStatus `json:"status"`
	Change     SteadyStateChange         `json:"change"`
	// Message says what happened: which probe, on which targets, and its text.
	Message string `json:"message,omitempty"`
	// At is when the workflow decided it.
	At time.Time `json:"-"`
}

// steadyCondition is what a change makes of the condition SteadyState.
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

// ShowSteadyState writes what the workflow decided into status. What it decided
// before what was shown last changes nothing but the condition Aborted, which
// holds for good.
func ShowSteadyState(d *v1beta1.Disruption, r SteadyStateReport) {
	condition, says := steadyConditions[r.Change]
	if says && condition.aborts != "" {
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
	if says {
		SetCondition(d, v1beta1.ConditionSteadyState, condition.status, condition.reason, r.Message)
	}
}

// SteadyStateEvent is the reason of the events that tell of a change, and
// whether they are warnings; none for one of which nobody must hear.
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

// ProbeStatusOf is what status says of a report, with the verdict of its probe as
// far as it is known.
func ProbeStatusOf(report contract.ProbeReport, verdict v1beta1.Verdict) v1beta1.ProbeStatus {
	said := v1beta1.ProbeStatus{
		Name: report.Name, State: report.State, Text: report.Text, Verdict: verdict,
		Targets: report.Targets, Failing: report.Failing, FailingTargets: report.FailingTargets,
	}
	if !report.Since.IsZero() {
		since := metav1.NewTime(report.Since.UTC())
		said.Since = &since
	}
	return said
}
