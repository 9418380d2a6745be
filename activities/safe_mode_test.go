package activities

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/census"
	"github.com/squall-chaos/squall/activities/choose"
	"github.com/squall-chaos/squall/activities/permission"
	"github.com/squall-chaos/squall/activities/policy"
	"github.com/squall-chaos/squall/activities/prepare"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apiserver"
)

// judges turns safe mode on, for a namespace with n pods.
func (c *testCluster) judges(n int, enforced bool) {
	c.Helper()
	if c.Rules.SafeMode == nil {
		count, err := census.New(apiserver.Start(c.T), c.Chaos)
		c.Must(err)
		// The tests share a cluster, so only the namespace's pods count.
		c.Rules.SafeMode = &permission.SafeMode{Census: count, Thresholds: policy.Thresholds{Namespace: 80, Cluster: 100}}
		go c.Rules.SafeMode.Run(c.Context())
		c.Must(c.Rules.SafeMode.Sync(c.Context()))
	}
	c.Rules.SafeMode.Enforced = enforced
	c.Eventually("the pods are counted", func() bool { in, _ := c.Rules.SafeMode.Census.Pods(c.Shop); return in == n })
}

// rule S16: status warns of a disruption of most of a namespace. Where safe mode is
// enforced, such a disruption gets no target; a running one keeps its targets and gets no
// more.
func TestADisruptionOfMostOfANamespace(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(4, nil)
	c.judges(4, false)
	warned, selection := c.selectFor("warned", all)
	if selection.Selected != 4 || !strings.Contains(selection.String(), "safe mode would refuse it: 4 of the 4 pods of namespace "+c.Shop) {
		t.Errorf("by default: %q of %+v, want all 4 and a warning", selection, selection)
	}
	c.WantCondition(warned, v1beta1.ConditionTargetsSelected, metav1.ConditionTrue, "safe mode would refuse it: 4 of the 4 pods")
	c.Must(c.Targets.DeleteRecords(t.Context(), warned))

	c.judges(4, true)
	refused, selection := c.selectFor("refused", all)
	if selection.Selected != 0 || selection.Caught != "" {
		t.Errorf("enforced: %+v, want no target", selection)
	}
	c.WantCondition(refused, v1beta1.ConditionTargetsSelected, metav1.ConditionFalse, "denied by safe mode: 4 of the 4 pods of namespace "+c.Shop)
	c.wantEvent(v1beta1.ReasonDenied, "safe mode")
	if _, selection = c.selectFor("unsafe", func(spec *v1beta1.DisruptionSpec) {
		all(spec)
		spec.UnsafeMode = &v1beta1.UnsafeMode{DisableCountTooLarge: true}
	}); selection.Selected != 4 {
		t.Errorf("set aside by its spec: %+v, want all 4", selection)
	}
}

// A disruption that grows beyond the limit keeps the targets that it has.
func TestADisruptionThatWantsTooMuchLater(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(2, map[string]string{"app": "other"})
	c.MakeTargets(2, nil)
	c.judges(4, true)
	running, selection := c.selectFor("running", all)
	if selection.Selected != 2 {
		t.Fatalf("half of the namespace: %+v, want both", selection)
	}
	c.MakeTargets(8, nil)
	c.judges(12, true)
	selection = do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: running, Known: 1})
	if selection.Selected != 2 || !strings.Contains(selection.Denied, "10 of the 12 pods") {
		t.Errorf("it wants 10 of 12: %+v, want the 2 of before", selection)
	}
}

// rule S16: a disruption that was created before safe mode was enforced is checked when it
// begins.
func TestSafeModeIsJudgedWhenADisruptionBegins(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(1, nil)
	everything := func(spec *v1beta1.DisruptionSpec) {
		spec.Faults = v1beta1.Faults{Network: &v1beta1.NetworkDisruption{Drop: 10}}
	}
	c.judges(1, false)
	if plan := do[prepare.Plan](c, c.Prepare, c.Disruption("warned", everything)); plan.Rejected != "" {
		t.Errorf("by default it is rejected: %s", plan.Rejected)
	}
	c.judges(1, true)
	ref := c.Disruption("refused", everything)
	if plan := do[prepare.Plan](c, c.Prepare, ref); !strings.Contains(plan.Rejected, "denied by safe mode: network names neither host nor port") {
		t.Errorf("enforced it is rejected with %q", plan.Rejected)
	}
	c.WantCondition(ref, v1beta1.ConditionAccepted, metav1.ConditionFalse, "unsafeMode.disableNeitherHostNorPort")
}
