package status

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// Report is what the workflow decided and a user must see.
type Report struct {
	Disruption v1beta1.DisruptionRef `json:"disruption"`
	Phase      v1beta1.Phase         `json:"phase"`
	// Ending says why the disruption ends, when it does.
	Ending string `json:"ending,omitempty"`
	// Left are the chaos pods that failed to clean: in phase Stuck they keep it
	// from ending, before that it goes on beside them.
	Left      []chaospod.LeftPod `json:"left,omitempty"`
	Remaining int                `json:"remaining,omitempty"`
	// Advice says what a person can do about it.
	Advice string `json:"advice,omitempty"`
	// Resumes are the decisions people took so far.
	Resumes []v1beta1.ResumeRecord `json:"resumes,omitempty"`
	// Round counts how often the disruption was stuck.
	Round int `json:"round,omitempty"`
	// At is when the workflow decided it.
	At time.Time `json:"-"`
}

// ShowReport writes a phase and what belongs to it into status. A report that the
// workflow decided before the one that was shown last changes nothing: an attempt
// of which nobody hears any more may still write.
func ShowReport(d *v1beta1.Disruption, r Report) {
	s := &d.Status
	at, late := decidedAt(r.At, s.ReportedAt)
	if late {
		return
	}
	s.ReportedAt = at
	if s.Phase != v1beta1.PhaseFinished || len(r.Left) > 0 {
		s.Phase = r.Phase // one that has finished may be cleaned once more, and never begun
	}
	if len(r.Resumes) > 0 {
		s.Resumes = r.Resumes
	}
	if r.Ending != "" {
		s.Ending = r.Ending
		s.InjectionStatus = previously(s.InjectionStatus)
		s.InjectedTargetsCount = 0 // and status.targets goes on saying how many were
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
		listClean(s) // all others are
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

// decidedAt is when the workflow decided on what is to be shown, as exact as the API
// keeps it, and whether what is shown, nil for nothing, was decided later.
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
