package disruption

import (
	"testing"

	policyv1 "k8s.io/api/policy/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// rule L13: the bridge informs a disruption that waits for room in a budget, and no other.
func TestObserveReportsWhatBudgetsAllow(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*v1beta1.Disruption)
		want   bool
	}{
		{"it wants more targets", func(*v1beta1.Disruption) {}, true},
		{"static, and it has none", func(d *v1beta1.Disruption) { d.Spec.StaticTargeting, d.Status.SelectedTargetsCount = true, 0 }, true},
		{"static, and it has some", func(d *v1beta1.Disruption) { d.Spec.StaticTargeting = true }, false},
		{"it has all that it wants", func(d *v1beta1.Disruption) { d.Status.SelectedTargetsCount = 2 }, false},
		{"it ends", func(d *v1beta1.Disruption) { d.Status.Phase = v1beta1.PhaseCleaning }, false},
		{"it respects none", func(d *v1beta1.Disruption) { d.Spec.PodDisruptionBudget = "" }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := holding()
			s.d.Spec.PodDisruptionBudget = v1beta1.BudgetsRespected
			s.d.Status.DesiredTargetsCount, s.d.Status.SelectedTargetsCount = 2, 1
			test.change(s.d)
			s.d.Status.SpecHash = s.d.Spec.Hash()
			seen := s.snapshot()
			hashOf := func(allowed int32) string {
				seen.budgets = []policyv1.PodDisruptionBudget{{Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed}}}
				return observe(seen).Hash
			}
			if changed := hashOf(0) != hashOf(1); changed != test.want {
				t.Errorf("it is informed %t, want %t", changed, test.want)
			}
		})
	}
}
