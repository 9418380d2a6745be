package activities

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/clean"
	"github.com/squall-chaos/squall/activities/verify"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apicluster"
)

func TestVerifyNodes(t *testing.T) {
	ref := v1beta1.DisruptionRef{Namespace: "shop", Name: "calm", UID: "5a5a26f0-0000-4000-8000-000000000002"}
	other := v1beta1.DisruptionRef{Namespace: "shop", Name: "other", UID: "5a5a26f0-0000-4000-8000-000000000003"}
	c := newCluster(t)
	n := c.WithNodes("verify-clean", "verify-dirty", "verify-stuck", "verify-away")
	n.Marks["verify-clean"] = []v1beta1.Mark{markOf(other, "journal of another")}
	n.Marks["verify-dirty"] = []v1beta1.Mark{markOf(ref, "qdisc clsact")}
	n.Marks["verify-stuck"] = []v1beta1.Mark{markOf(ref, "io.max 8:0")}
	n.Stubborn = "verify-stuck"
	away, err := c.Kube.CoreV1().Nodes().Get(t.Context(), "verify-away", metav1.GetOptions{})
	c.Must(err)
	n.SetReady(away, corev1.ConditionFalse)
	in := verify.Input{Disruption: ref, Nodes: []string{"verify-clean", "verify-dirty", "verify-stuck", "verify-gone"}}
	verified := do[verify.Result](c, c.VerifyNodes, in)
	want := []string{"node verify-stuck: io.max 8:0", "node verify-stuck: write io.max: busy; io.max 8:0"}
	if diff := cmp.Diff(want, verified.Left); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	if len(n.Marks["verify-dirty"]) != 0 || len(n.Marks["verify-clean"]) != 1 {
		t.Errorf("marks = %v, want the dirty node clean and the other disruption's left alone", n.Marks)
	}
	c.Builder.NodeTimeout = time.Second // the longest wait for the node that is not ready
	verified = do[verify.Result](c, c.VerifyNodes, verify.Input{Disruption: ref, Nodes: []string{"verify-away"}})
	if want := []string{"node verify-away: the node is not ready, so it could not be searched"}; !cmp.Equal(want, verified.Left) {
		t.Errorf("left = %q, want %q", verified.Left, want)
	}
	c.Builder.NodeTimeout = 0
	n.Ran = nil
	n.Marks["verify-dirty"] = []v1beta1.Mark{markOf(ref, "qdisc clsact")}
	verified = do[verify.Result](c, c.VerifyNodes, verify.Input{Disruption: ref, Nodes: []string{"verify-dirty"}, Released: true})
	if len(verified.Left) != 1 || len(n.Ran) != 1 {
		t.Errorf("left %v, ran %v; want what a person released told and left alone", verified.Left, n.Ran)
	}
	if left := c.ChaosPodsOf(ref); len(left) != 0 {
		t.Errorf("%d pods are left", len(left))
	}
}

// A node that is not ready is searched once it is ready: otherwise only the next sweep
// would search it.
func TestVerifyANodeThatComesBack(t *testing.T) {
	c := newCluster(t)
	n := c.WithNodes("verify-back")
	ref := v1beta1.DisruptionRef{Namespace: "shop", Name: "calm", UID: "5a5a26f0-0000-4000-8000-000000000005"}
	n.Marks["verify-back"] = []v1beta1.Mark{markOf(ref, "journal")}
	node, err := c.Kube.CoreV1().Nodes().Get(t.Context(), "verify-back", metav1.GetOptions{})
	c.Must(err)
	n.SetReady(node, corev1.ConditionFalse)
	back := time.AfterFunc(time.Second, func() { n.SetReady(node, corev1.ConditionTrue) })
	defer back.Stop()
	verified := do[verify.Result](c, c.VerifyNodes, verify.Input{Disruption: ref, Nodes: []string{"verify-back"}})
	if len(verified.Left) != 0 || len(n.Marks["verify-back"]) != 0 {
		t.Errorf("left %v, marks %v; want both gone once the node is back", verified.Left, n.Marks)
	}
}

// A kubelet rejects the audit of a full node: the worker tries again, and reports why when
// its time is over.
func TestVerifyAFullNode(t *testing.T) {
	c := newCluster(t)
	n := c.WithNodes("verify-full")
	ref := v1beta1.DisruptionRef{Namespace: "shop", Name: "calm", UID: "5a5a26f0-0000-4000-8000-000000000006"}
	n.Full["verify-full"] = 2
	n.Marks["verify-full"] = []v1beta1.Mark{markOf(ref, "journal")}
	in := verify.Input{Disruption: ref, Nodes: []string{"verify-full"}}
	if verified := do[verify.Result](c, c.VerifyNodes, in); len(verified.Left) != 0 || len(n.Marks["verify-full"]) != 0 {
		t.Errorf("left %v, marks %v; want both gone once the node has room", verified.Left, n.Marks)
	}
	c.Builder.NodeTimeout = 2 * time.Second
	n.Full["verify-full"] = 100
	verified := do[verify.Result](c, c.VerifyNodes, in)
	if len(verified.Left) == 0 {
		t.Error("nothing is left although no pod ran on the node")
	}
	for _, left := range verified.Left {
		if !strings.Contains(left, "rejected pod") || !strings.Contains(left, "OutOfcpu: Node didn't have enough resource: cpu") {
			t.Errorf("left %q, want the kubelet's words", left)
		}
	}
}

// The wait for a node on which no pod starts ends after the configured node timeout.
func TestVerifyANodeThatDoesNotAnswer(t *testing.T) {
	c := newCluster(t)
	c.Builder.NodeTimeout = 2 * time.Second
	node, err := c.Kube.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "verify-slow"}}, metav1.CreateOptions{})
	c.Must(err)
	t.Cleanup(func() { _ = c.Kube.CoreV1().Nodes().Delete(context.Background(), node.Name, metav1.DeleteOptions{}) })
	(&apicluster.Nodes{Cluster: c.Cluster}).SetReady(node, corev1.ConditionTrue)
	ref := v1beta1.DisruptionRef{Namespace: "shop", Name: "calm", UID: "5a5a26f0-0000-4000-8000-000000000004"}
	verified := do[verify.Result](c, c.VerifyNodes, verify.Input{Disruption: ref, Nodes: []string{node.Name}})
	if len(verified.Left) == 0 || !strings.Contains(verified.Left[0], "did not end within 2s") {
		t.Errorf("left %q, want that it did not end within 2s", verified.Left)
	}
}

func TestUnverifiedNodes(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(3, nil)
	ref := c.started("calm", all)
	proof := apicluster.Exited(0, "Completed", `{"injected":true,"cleaned":true,"audited":true}`)
	silent := apicluster.Exited(0, "Completed", "")
	for _, pod := range c.ChaosPodsOf(ref) {
		state := proof
		if pod.Spec.NodeName == "node-1" {
			state = silent
		}
		c.Becomes(pod, corev1.PodSucceeded, state, corev1.ConditionFalse)
	}
	c.kubelet(ref, map[string]int32{"node-0": 0, "node-1": 0, "node-2": 0})
	cleaned := do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, Patience: time.Minute})
	if cleaned.Remaining != 0 || !cmp.Equal(cleaned.UnverifiedNodes, []string{"node-1"}) {
		t.Errorf("cleaned = %+v, want all let go and node-1 without a proof", cleaned)
	}
	for what, in := range map[string]clean.Input{
		"an earlier workflow": {Shard: chaospod.Shard{Disruption: ref, Number: chaospod.AllShards}}, "a cleaning whose result was lost": {Shard: chaospod.Shard{Disruption: ref, Number: 0}, ResultLost: true},
	} {
		cleaned = do[clean.Result](c, c.CleanChaosPods, in)
		if !slices.Equal(cleaned.UnverifiedNodes, []string{"node-0", "node-1", "node-2"}) {
			t.Errorf("after %s, without a proof: %v, want every node of the record", what, cleaned.UnverifiedNodes)
		}
	}
}

func markOf(ref v1beta1.DisruptionRef, object string) v1beta1.Mark {
	return v1beta1.Mark{Object: object, Disruption: ref, Kind: v1beta1.KindDiskPressure}
}
