package activities

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/squall-chaos/squall/activities/choose"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// smallNode makes a node with room for ten pods, and this number of targets on it.
func (c *testCluster) smallNode(targets int) {
	c.Helper()
	node, err := c.Client.CoreV1().Nodes().Create(c.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0"}}, metav1.CreateOptions{})
	c.Must(err)
	c.Cleanup(func() { _ = c.Client.CoreV1().Nodes().Delete(context.Background(), node.Name, metav1.DeleteOptions{}) })
	node.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")}
	_, err = c.Client.CoreV1().Nodes().UpdateStatus(c.Context(), node, metav1.UpdateOptions{})
	c.Must(err)
	for range targets {
		c.MakeTargets(1, nil) // always on node-0
	}
}

// rule 17b: with a share of 30 %, a node with room for ten pods gets three chaos pods.
func TestChaosPodsLeaveANodesOtherPodsAPlace(t *testing.T) {
	c := newCluster(t)
	c.NodeShare = 30
	c.smallNode(5)

	first := c.started("first", all)
	if pods := c.ChaosPodsOf(first); len(pods) != 3 {
		t.Fatalf("%d chaos pods, want three", len(pods))
	}
	c.WantCondition(first, v1beta1.ConditionTargetsSelected, metav1.ConditionTrue,
		"2 are left out, as their nodes have no room for more chaos pods (setting chaos-pods-per-node): node-0 (30 % of 10 pods, 0 taken by other disruptions)")
	c.wantEvent("FewerTargets", "3 of 5", "node-0")
	if got := c.Get(first).Status.Targets; got != "0/5" {
		t.Errorf("targets = %s, want 0/5: five are wanted", got)
	}
	if again := do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: first, Known: 1, Run: 1}); again.Selected != 3 || len(again.Added) != 0 || again.RetryAt == nil {
		t.Errorf("selected again: %+v, want the same three and when it looks again", again)
	}

	c.Eventually("the worker sees the chaos pods", func() bool { return len(c.Watch.Of(first)) == 3 })
	packets := func(spec *v1beta1.DisruptionSpec) {
		all(spec)
		spec.Faults = v1beta1.Faults{Network: &v1beta1.NetworkDisruption{Drop: 1}}
		spec.AllowDisruptedTargets = true
	}
	_, selection := c.selectFor("second", packets)
	if selection.Selected != 0 || !strings.Contains(selection.String(), "3 taken by other disruptions") {
		t.Errorf("selection = %+v, want none, as the node is full", selection)
	}
}

// One target always has a place, however small its node is and however many faults are
// injected.
func TestANodeWithoutChaosPodsHasRoomForOneTarget(t *testing.T) {
	c := newCluster(t)
	c.NodeShare = 1
	c.smallNode(2)
	_, selection := c.selectFor("both", func(spec *v1beta1.DisruptionSpec) {
		count := intstr.FromInt32(2)
		spec.Count = &count
		spec.Faults = v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}, Network: &v1beta1.NetworkDisruption{Drop: 1}}
	})
	if selection.Selected != 1 || selection.Full == "" {
		t.Errorf("selection = %+v, want one of two", selection)
	}
}
