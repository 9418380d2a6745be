package status

import (
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// ShowProgress writes into the status of a disruption the progress that a watch has
// seen. began is when the workflow began that watch. A watch that began before the one
// in status changes nothing: its worker was given up and its targets may be lost since.
// Once the disruption is to end, a progress with fewer injected targets changes nothing
// either: the missing ones were cleaned.
func ShowProgress(d *v1beta1.Disruption, p chaospod.Progress, began time.Time) {
	s := &d.Status
	at, late := decidedAt(began, s.WatchedAt)
	if late || s.Phase.Ending() || d.Ending() && p.Injected < s.InjectedTargetsCount {
		return // this watch does not know yet that the disruption ends
	}
	s.WatchedAt = at
	s.InjectionStatus = p.Status(s.InjectionStatus)
	s.InjectedTargetsCount, s.Targets = p.Injected, injectedOf(p.Injected, p.Total, s)
	s.Phase = v1beta1.PhaseInjecting
	s.TargetInjections = keepEffects(s.TargetInjections, listed(p))
	defer showEffectVerified(d)
	if s.InjectionStatus == v1beta1.Injected {
		s.Phase = v1beta1.PhaseHolding
		if s.InjectedTime == nil {
			now := metav1.Now()
			s.InjectedTime = &now
		}
		SetCondition(d, v1beta1.ConditionInjected, metav1.ConditionTrue, "Injected", fmt.Sprintf("all %d targets are injected%s", p.Total, beats(d.Spec)))
		return
	}
	reason, message := string(s.InjectionStatus), fmt.Sprintf("%d of %d targets are injected", p.Injected, p.Total)
	if why := p.FirstReason(); why != "" {
		reason, message = v1beta1.ReasonInjectionFailed, message+": "+why
	} else if why := p.FirstWait(); why != "" {
		reason, message = v1beta1.ReasonWaitingForCordon, message+": "+why
	}
	SetCondition(d, v1beta1.ConditionInjected, metav1.ConditionFalse, reason, message)
}

// beats describes a pulse. Status does not show its turns, so that it is the same in
// each of them.
func beats(spec v1beta1.DisruptionSpec) string {
	pulse := spec.Beats()
	if pulse == nil {
		return ""
	}
	return fmt.Sprintf(", each by turns for %s and not for %s", pulse.ActiveDuration.Duration, pulse.DormantDuration.Duration)
}

// listed returns the targets that status lists: all of them or, of more than maxListed,
// at most 100 that are not injected.
func listed(p chaospod.Progress) map[string]map[v1beta1.Kind]v1beta1.TargetInjection {
	if len(p.Targets) <= maxListed {
		return p.Targets
	}
	some := map[string]map[v1beta1.Kind]v1beta1.TargetInjection{}
	for _, name := range slices.Sorted(maps.Keys(p.Targets)) {
		for _, injection := range p.Targets[name] {
			if injection.InjectionStatus != v1beta1.Injected && injection.Reason != "" && len(some) < 100 {
				some[name] = p.Targets[name]
			}
		}
	}
	return some
}
