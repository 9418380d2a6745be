package orphans

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/replacement"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apicluster"
)

// A sweep removes the cordons of disruptions that have ended, also from nodes that are
// not ready. It leaves the cordons of running disruptions and of other people.
func TestSweepTakesOrphanedCordonsOff(t *testing.T) {
	c := newCluster(t)
	makeNode := func(change func(*corev1.Node)) string {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "sweep-"}}
		change(node)
		node, err := c.Client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
		c.Must(err)
		t.Cleanup(func() {
			if err := c.Client.CoreV1().Nodes().Delete(context.Background(), node.Name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
		return node.Name
	}
	plain := func(*corev1.Node) {}
	lost, shared, live := makeNode(plain), makeNode(func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelOSStable: "windows"} }), makeNode(plain)
	foreign := makeNode(func(n *corev1.Node) { n.Spec.Unschedulable = true })
	goesOn := c.Disruption("goes-on", nil)
	gone := v1beta1.DisruptionRef{Namespace: c.Shop, Name: "gone", UID: types.UID("gone-" + c.Shop)}
	cordons := replacement.Cordons{Kube: c.Client}
	c.Must(cordons.Cordon(t.Context(), lost, gone))
	c.Must(cordons.Cordon(t.Context(), shared, gone))
	c.Must(cordons.Cordon(t.Context(), shared, goesOn))
	c.Must(cordons.Cordon(t.Context(), live, goesOn))
	swept := apicluster.Do[SweptNodes](c.Cluster, c.env, c.sweep.SweepNodes, NodePage{Size: 200})
	if swept.Marks != (Tally{Found: 2, Cleaned: 2}) {
		t.Errorf("marks = %+v, want the two of the disruption that is gone cleaned: %+v", swept.Marks, swept)
	}
	for name, want := range map[string]struct {
		cordoned bool
		marks    int
	}{lost: {false, 0}, shared: {true, 1}, live: {true, 1}, foreign: {true, 0}} {
		node, err := c.Client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		c.Must(err)
		if marks := replacement.Marks(node); node.Spec.Unschedulable != want.cordoned || len(marks) != want.marks {
			t.Errorf("node %s: cordoned = %t, marks %v; want %+v", name, node.Spec.Unschedulable, marks, want)
		}
	}
}
