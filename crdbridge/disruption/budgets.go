package disruption

import (
	"fmt"
	"slices"

	policyv1 "k8s.io/api/policy/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// budgetNews is what budgets allow, for a disruption that respects them and would
// choose more targets if they allowed more; nil for any other.
func budgetNews(d *v1beta1.Disruption, budgets []policyv1.PodDisruptionBudget) []string {
	if !wantsBudgets(d) {
		return nil
	}
	var news []string
	for i := range budgets {
		b := &budgets[i]
		current := b.Status.ObservedGeneration >= b.Generation
		news = append(news, fmt.Sprintf("budget %s allows %d, current %t", b.UID, b.Status.DisruptionsAllowed, current))
	}
	return news
}

// limitNews is what lets the disruption have more targets, or fewer.
func limitNews(s snapshot) []string {
	return slices.Concat(budgetNews(s.disruption, s.budgets), policyNews(s), freedNews(s))
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
