package activities

import (
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/squall-chaos/squall/activities/choose"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// budget makes a PodDisruptionBudget for the usual pods, with this number of allowed
// disruptions in its status.
func (c *testCluster) budget(name string, allowed int32) {
	c.Helper()
	least := intstr.FromInt32(1)
	api := c.Client.PolicyV1().PodDisruptionBudgets(c.Shop)
	made, err := api.Create(c.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &least, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}, metav1.CreateOptions{})
	c.Must(err)
	c.budgetAllows(made, allowed)
}

func (c *testCluster) budgetAllows(budget *policyv1.PodDisruptionBudget, allowed int32) {
	c.Helper()
	budget.Status.ObservedGeneration, budget.Status.DisruptionsAllowed = budget.Generation, allowed
	_, err := c.Client.PolicyV1().PodDisruptionBudgets(c.Shop).UpdateStatus(c.Context(), budget, metav1.UpdateOptions{})
	c.Must(err)
}

// rule L13
func TestBudgetsAreRespected(t *testing.T) {
	respects := func(kind v1beta1.Faults) func(*v1beta1.DisruptionSpec) {
		return func(spec *v1beta1.DisruptionSpec) {
			all(spec)
			spec.Faults, spec.PodDisruptionBudget = kind, v1beta1.BudgetsRespected
		}
	}
	cpu, packets := v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}}, v1beta1.Faults{Network: &v1beta1.NetworkDisruption{Drop: 1}}
	t.Run("without room nothing is chosen, and it is said why", func(t *testing.T) {
		c := newCluster(t)
		c.MakeTargets(2, nil)
		c.budget("web", 0)
		ref, selection := c.selectFor("calm", respects(cpu))
		if selection.Selected != 0 || selection.Desired != 2 {
			t.Errorf("selection = %+v, want none of two", selection)
		}
		c.WantCondition(ref, v1beta1.ConditionTargetsSelected, metav1.ConditionFalse, "2 are left out, as a PodDisruptionBudget has no room: web (allows 0, 0 held by disruptions)")
	})
	t.Run("what another disruption holds counts, also when it is shared or respects nothing", func(t *testing.T) {
		c := newCluster(t)
		c.MakeTargets(4, nil)
		c.budget("web", 3)
		_, other := c.selectFor("other", nil) // two targets
		if other.Selected != 2 {
			t.Fatalf("the other one chose %+v", other)
		}
		shares := respects(packets)
		ref, selection := c.selectFor("calm", func(spec *v1beta1.DisruptionSpec) { shares(spec); spec.AllowDisruptedTargets = true })
		if selection.Selected != 3 { // the two that are shared, and one more
			t.Errorf("selection = %+v, want three", selection)
		}
		c.WantCondition(ref, v1beta1.ConditionTargetsSelected, metav1.ConditionTrue, "1 are left out, as a PodDisruptionBudget has no room: web (allows 3, 3 held by disruptions)")
	})
	t.Run("when it allows more, more are chosen", func(t *testing.T) {
		c := newCluster(t)
		c.MakeTargets(3, nil)
		c.budget("web", 1)
		ref, selection := c.selectFor("calm", respects(cpu))
		if selection.Selected != 1 {
			t.Errorf("selection = %+v, want one", selection)
		}
		live, err := c.Client.PolicyV1().PodDisruptionBudgets(c.Shop).Get(t.Context(), "web", metav1.GetOptions{})
		c.Must(err)
		c.budgetAllows(live, 2)
		if selection = do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref, Known: 1}); selection.Selected != 2 {
			t.Errorf("selection = %+v, want two", selection)
		}
	})
	t.Run("the default asks nobody", func(t *testing.T) {
		c := newCluster(t)
		c.MakeTargets(2, nil)
		c.budget("web", 0)
		if _, selection := c.selectFor("calm", all); selection.Selected != 2 || selection.Budget != "" {
			t.Errorf("selection = %+v, want both", selection)
		}
	})
}
