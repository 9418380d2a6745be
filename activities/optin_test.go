package activities

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/choose"
	"github.com/squall-chaos/squall/activities/prepare"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// optIn sets the opt-in label of the test's namespace to a JSON value; null removes it.
func (c *testCluster) optIn(value string) {
	c.Helper()
	patch := `{"metadata":{"labels":{"chaos.squall.dev/disruptions":` + value + `}}}`
	_, err := c.Client.CoreV1().Namespaces().Patch(c.Context(), c.Shop, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	c.Must(err)
}

// rule S12: where the opt-in is enforced a disruption of a namespace without the label
// is rejected, and where it is not the namespace is not read.
func TestANamespaceThatHasNotAgreedIsNotDisrupted(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(1, nil)
	if plan := do[prepare.Plan](c, c.Prepare, c.Disruption("default", nil)); plan.Rejected != "" {
		t.Errorf("by default it is rejected: %s", plan.Rejected)
	}
	c.Rules.OptIn = true
	for name, value := range map[string]string{"never": "null", "otherwise": `"no"`} {
		c.optIn(value)
		ref := c.Disruption(name, nil)
		plan := do[prepare.Plan](c, c.Prepare, ref)
		if !strings.Contains(plan.Rejected, "namespace "+c.Shop+" has no label chaos.squall.dev/disruptions=allowed") {
			t.Errorf("labelled %s it is rejected with %q", value, plan.Rejected)
		}
		c.WantCondition(ref, v1beta1.ConditionAccepted, metav1.ConditionFalse, "kubectl label namespace "+c.Shop)
	}
	c.optIn(`"allowed"`)
	if plan := do[prepare.Plan](c, c.Prepare, c.Disruption("agreed", nil)); plan.Rejected != "" {
		t.Errorf("with the label it is rejected: %s", plan.Rejected)
	}
}

// When a namespace loses its label, running disruptions keep their targets and get no new
// ones. A disruption that was prepared before gets none.
func TestANamespaceThatAgreesNoMore(t *testing.T) {
	c := newCluster(t)
	c.Rules.OptIn = true
	c.optIn(`"allowed"`)
	c.MakeTargets(1, nil)
	running, selection := c.selectFor("running", all)
	if selection.Selected != 1 {
		t.Fatalf("with the label: %+v, want one target", selection)
	}
	late := c.Disruption("late", all)
	do[prepare.Plan](c, c.Prepare, late)
	c.optIn("null")
	c.MakeTargets(2, nil)
	selection = do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: running, Known: 1})
	if selection.Selected != 1 || len(c.chosen(running)) != 1 || !strings.Contains(selection.Denied, "namespace opt-in") {
		t.Errorf("without the label: %+v, want the one target of before", selection)
	}
	if selection = do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: late}); selection.Selected != 0 {
		t.Errorf("one that comes late: %+v, want no target", selection)
	}
	c.WantCondition(late, v1beta1.ConditionTargetsSelected, metav1.ConditionFalse, "namespace opt-in")
}
