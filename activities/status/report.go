package status

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// Report is a decision of the workflow that users must see.
type Report struct {
	Disruption v1beta1.DisruptionRef `json:"disruption"`
	Phase      v1beta1.Phase         `json:"phase"`
	// Ending is why the disruption ends; empty before that.
	Ending string `json:"ending,omitempty"`
	// Left are the chaos pods that failed to clean. In phase Stuck the disruption cannot
	// end because of them; before that it continues beside them.
	Left      []chaospod.LeftPod `json:"left,omitempty"`
	Remaining int                `json:"remaining,omitempty"`
	// Advice is what a person can do about Left.
	Advice string `json:"advice,omitempty"`
	// Resumes are the decisions of people so far.
	Resumes []v1beta1.ResumeRecord `json:"resumes,omitempty"`
	// Round counts how often the disruption was stuck.
	Round int `json:"round,omitempty"`
	// At is when the workflow decided it.
	At time.Time `json:"-"`
}

// ShowReport writes a phase and its details into status. A report that the workflow
// decided before the shown one changes nothing: an abandoned attempt may still write.
func ShowReport(d *v1beta1.Disruption, r Report) {
	s := &d.Status
	at, late := decidedAt(r.At, s.ReportedAt)
	if late {
		return
	}
	s.ReportedAt = at
	if s.Phase != v1beta1.PhaseFinished || len(r.Left) > 0 {
		s.Phase = r.Phase // a finished disruption may be cleaned once more, but never starts again
	}
	if len(r.Resumes) > 0 {
		s.Resumes = r.Resumes
	}
	if r.Ending != "" {
		s.Ending = r.Ending
		s.InjectionStatus = previously(s.InjectionStatus)
		s.InjectedTargetsCount = 0 // status.targets keeps the former number
		SetCondition(d, v1beta1.ConditionInjected, metav1.ConditionFalse, "Ended", "the disruption ends: "+r.Ending)
	}
	if len(r.Left) == 0 {
		if s.IsStuckOnRemoval {
			s.IsStuckOnRemoval = false
			SetCondition(d, v1beta1.ConditionStuckOnRemoval, metav1.ConditionFalse, "Resumed", "the clean-up continues")
		}
		return
	}
	if s.Phase == v1beta1.PhaseStuck && r.Remaining <= len(r.Left) {
		listClean(s) // all others are clean
	}
	s.IsStuckOnRemoval = true
	message := chaospod.ForPeople(r.Remaining) + " not clean"
	for n, left := range r.Left {
		markStuck(s, left)
		if n < 5 {
			message += fmt.Sprintf("; %s on node %s, target %s: %s", left.Pod, left.Node, left.Target, left.Why)
		}
	}
	SetCondition(d, v1beta1.ConditionStuckOnRemoval, metav1.ConditionTrue, "CleaningFailed", message+". "+r.Advice)
	SetCondition(d, v1beta1.ConditionCleaned, metav1.ConditionFalse, "StuckOnRemoval", message)
}

// decidedAt returns the time of the workflow's decision in the API's precision, and
// whether the shown decision is later. shown is nil if none is shown.
func decidedAt(decided time.Time, shown *metav1.MicroTime) (at *metav1.MicroTime, late bool) {
	exact := metav1.NewMicroTime(decided.Truncate(time.Microsecond))
	return &exact, shown != nil && exact.Before(shown)
}

// listClean lists every target as clean.
func listClean(s *v1beta1.DisruptionStatus) {
	for _, kinds := range s.TargetInjections {
		for kind, injection := range kinds {
			injection.InjectionStatus = v1beta1.NotInjected
			kinds[kind] = injection
		}
	}
}

func markStuck(s *v1beta1.DisruptionStatus, left chaospod.LeftPod) {
	if kinds := s.TargetInjections[left.Target]; kinds != nil {
		injection := kinds[left.Kind]
		injection.InjectorPodName, injection.InjectionStatus, injection.Reason = left.Pod, v1beta1.IsStuckOnRemoval, left.Why
		kinds[left.Kind] = injection
	}
}

// previously is the injection status of a disruption that has ended.
func previously(s v1beta1.InjectionStatus) v1beta1.InjectionStatus {
	switch s {
	case v1beta1.Injected, v1beta1.PausedInjected:
		return v1beta1.PreviouslyInjected
	case v1beta1.PartiallyInjected, v1beta1.PausedPartiallyInjected:
		return v1beta1.PreviouslyPartiallyInjected
	case v1beta1.NotInjected, "":
		return v1beta1.PreviouslyNotInjected
	}
	return s
}
