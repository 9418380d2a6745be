package status

import (
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// ShowSelection writes the chosen targets into status (rule 20). active are all
// disrupted targets; run counts the injections before this one.
func ShowSelection(live, begun *v1beta1.Disruption, s targets.Selection, active []targets.Target, run int) {
	status := &live.Status
	status.DesiredTargetsCount, status.SelectedTargetsCount = s.Desired, s.Selected
	status.IgnoredTargetsCount = max(0, s.Matching-s.Selected)
	status.Targets = injectedOf(status.InjectedTargetsCount, s.Selected, status)
	status.RunCount = run
	if len(s.Added) > 0 {
		status.RunCount = run + 1
	}
	listTargets(status, active, begun.Spec.Requested())
	if len(s.Added) > 0 && status.Phase == v1beta1.PhasePending {
		status.Phase = v1beta1.PhaseInjecting
		if begun.Spec.SteadyState != nil {
			status.Phase = v1beta1.PhaseSelecting // the probes of phase Before run first
		}
	}
	switch {
	case s.Selected > 0:
		SetCondition(live, v1beta1.ConditionTargetsSelected, metav1.ConditionTrue, "Selected", s.String())
	case s.Invalid != "":
		SetCondition(live, v1beta1.ConditionTargetsSelected, metav1.ConditionFalse, "InvalidSpec", s.Invalid)
	case s.Denied != "":
		SetCondition(live, v1beta1.ConditionTargetsSelected, metav1.ConditionFalse, v1beta1.ReasonDenied, s.String())
	case s.Matching > 0:
		SetCondition(live, v1beta1.ConditionTargetsSelected, metav1.ConditionFalse, "NoMoreTargets", s.String())
	default:
		SetCondition(live, v1beta1.ConditionTargetsSelected, metav1.ConditionFalse, "NoTargetsFound", "no healthy "+string(begun.Spec.Level)+" matches the selector")
	}
}

// injectedOf is the text of status.targets. It counts the wanted targets, if fewer were
// chosen.
func injectedOf(injected, selected int, s *v1beta1.DisruptionStatus) string {
	return fmt.Sprintf("%d/%d", injected, max(selected, s.DesiredTargetsCount))
}

// listTargets adds every disrupted target to status.targetInjections and drops the
// released ones. For more than maxListed targets there is no list, only counts.
func listTargets(status *v1beta1.DisruptionStatus, active []targets.Target, faults []v1beta1.Fault) {
	listed := map[string]map[v1beta1.Kind]v1beta1.TargetInjection{}
	for _, t := range active {
		if old := status.TargetInjections[t.Name]; old != nil && sameTarget(old, t.UID) {
			listed[t.Name] = maps.Clone(old)
			continue
		}
		listed[t.Name] = map[v1beta1.Kind]v1beta1.TargetInjection{}
		for _, fault := range faults {
			listed[t.Name][fault.Kind] = v1beta1.TargetInjection{
				TargetUID: t.UID, InjectionStatus: v1beta1.NotInjected,
			}
		}
	}
	if len(listed) > maxListed {
		listed = nil
	}
	status.TargetInjections = listed
}

// maxListed bounds the targets that status lists one by one: a longer list would
// approach the API server's limit, and every write would carry it.
const maxListed = 500

func sameTarget(kinds map[v1beta1.Kind]v1beta1.TargetInjection, uid types.UID) bool {
	for _, injection := range kinds {
		return injection.TargetUID == uid
	}
	return false
}
