package disruption

import (
	"fmt"
	"slices"

	policyv1 "k8s.io/api/policy/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// budgetChanges is what budgets allow, for a disruption that respects them and would choose
// more targets if they allowed more; nil for any other.
func budgetChanges(d *v1beta1.Disruption, budgets []policyv1.PodDisruptionBudget) []string {
	if !wantsBudgets(d) {
		return nil
	}
	var changes []string
	for i := range budgets {
		b := &budgets[i]
		current := b.Status.ObservedGeneration >= b.Generation
		changes = append(changes, fmt.Sprintf("budget %s allows %d, current %t", b.UID, b.Status.DisruptionsAllowed, current))
	}
	return changes
}

// limitChanges lists the facts that let the disruption have more targets, or fewer.
func limitChanges(s snapshot) []string {
	return slices.Concat(budgetChanges(s.disruption, s.budgets), policyChanges(s), freedChanges(s))
}

// wantsBudgets is true while what budgets allow matters to the disruption.
func wantsBudgets(d *v1beta1.Disruption) bool {
	return d.Spec.RespectsBudgets() && wantsTargets(d)
}

// wantsTargets is true while the disruption would choose more targets if it could.
func wantsTargets(d *v1beta1.Disruption) bool {
	s := d.Status
	if d.Ending() || s.SelectedTargetsCount >= s.DesiredTargetsCount {
		return false
	}
	return !d.Spec.StaticTargeting || s.SelectedTargetsCount == 0
}
