package status

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// FinishInput describes a finished disruption.
type FinishInput struct {
	Disruption v1beta1.DisruptionRef `json:"disruption"`
	Rejected   bool                  `json:"rejected,omitempty"`
	// Ending is why the disruption ended.
	Ending  string                 `json:"ending,omitempty"`
	Resumes []v1beta1.ResumeRecord `json:"resumes,omitempty"`
	// ReleasedPods counts the chaos pods that a person released before they were clean.
	ReleasedPods int `json:"releasedPods,omitempty"`
	// NotVerified lists what is left on nodes, and the nodes that could not be searched.
	NotVerified []string `json:"notVerified,omitempty"`
	// Effects are the measurements of injectors before they cleaned, at most 50.
	Effects []chaospod.EffectAtEnd `json:"effects,omitempty"`
	// SteadyState is the final steady state; nil without probes.
	SteadyState *v1beta1.SteadyStateStatus `json:"steadyState,omitempty"`
	// Operated is true when the disruption was an operation on its targets. NotInService
	// lists the targets that it released and that are not in service.
	Operated     bool     `json:"operated,omitempty"`
	NotInService []string `json:"notInService,omitempty"`
	// NotEnded is true when the time to release targets is over and some could not be
	// written to. The disruption does not wait for them; the controller ends their
	// operations.
	NotEnded bool `json:"notEnded,omitempty"`
	// At is when the workflow decided it.
	At time.Time `json:"-"`
}

// ShowFinished writes the last status of a disruption that was carried out.
func ShowFinished(d *v1beta1.Disruption, e FinishInput) {
	ShowReport(d, Report{Phase: v1beta1.PhaseFinished, Ending: cmp.Or(e.Ending, "finished"), Resumes: e.Resumes, At: e.At})
	listClean(&d.Status)
	ShowEffects(d, effectsAtEnd(e.Effects))
	if e.SteadyState != nil {
		ShowSteadyState(d, SteadyStateReport{Disruption: e.Disruption, Status: *e.SteadyState, At: e.At})
	}
	if e.Operated {
		ShowOperation(d, e.operation())
	}
	if d.Status.CleanedAt == nil {
		now := metav1.Now()
		d.Status.CleanedAt = &now
	}
	reason, message := e.verdict()
	verified := len(e.NotVerified) == 0
	d.Status.CleanedVerified = &verified
	SetCondition(d, v1beta1.ConditionCleaned, metav1.ConditionTrue, reason, message)
}

// ReasonNotVerified is the reason of the condition Cleaned, and of an event, when not
// every node is known to be clean.
const ReasonNotVerified = "NotVerified"

// reasonReleased is the reason of the condition Cleaned when a person released chaos
// pods that did not clean.
const reasonReleased = "Released"

// LeftOnNodes lists what is left on nodes, and the nodes that could not be searched;
// empty if neither exists.
func (e FinishInput) LeftOnNodes() string {
	if len(e.NotVerified) == 0 {
		return ""
	}
	return "no chaos pod is left, but on the nodes: " + strings.Join(e.NotVerified, "; ")
}

// verdict is the reason and the message of the condition Cleaned.
func (e FinishInput) verdict() (reason, message string) {
	reason, message = "Cleaned", "no chaos pod is left, and the nodes were searched: nothing is left there"
	if left := e.LeftOnNodes(); left != "" {
		reason, message = ReasonNotVerified, left
	}
	if e.ReleasedPods > 0 {
		reason = reasonReleased
		message += fmt.Sprintf("; a person released %s that did not clean", chaospod.ForPeople(e.ReleasedPods))
	}
	return reason, message
}

// operation is the final state of the operations.
func (e FinishInput) operation() Operation {
	if len(e.NotInService) > 0 {
		return Operation{Reason: "NotAvailable", Message: "the operations are over, and not in service are: " + strings.Join(e.NotInService, "; ")}
	}
	return Operation{Reason: "Ended", Message: "the operations are over"}
}
