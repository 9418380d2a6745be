package activities

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/choose"
	"github.com/squall-chaos/squall/activities/clean"
	"github.com/squall-chaos/squall/activities/inject"
	"github.com/squall-chaos/squall/activities/prepare"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apicluster"
)

func nodeFailure(spec *v1beta1.DisruptionSpec) {
	all(spec)
	spec.Faults = v1beta1.Faults{NodeFailure: &v1beta1.NodeFailure{}}
}

func TestNodesThatShareAKernelAreNotEnded(t *testing.T) {
	c := newCluster(t)
	c.WithNodes("node-0", "node-1", "node-2")
	for name, boot := range map[string]string{"node-0": "one", "node-1": "one", "node-2": "two"} {
		node, err := c.Kube.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		c.Must(err)
		node.Status.NodeInfo.BootID = boot
		_, err = c.Kube.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
		c.Must(err)
	}
	c.MakeTargets(3, nil)
	ref := c.Disruption("end", nodeFailure)
	do[prepare.Plan](c, c.Prepare, ref)
	do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref, ShownLater: true})
	do[inject.CreateResult](c, c.CreateChaosPods, inject.CreateInput{Shard: chaospod.Shard{Disruption: ref, Number: 0}})
	pods := c.ChaosPodsOf(ref)
	if len(pods) != 1 || pods[0].Spec.NodeName != "node-2" {
		t.Errorf("%d chaos pods, want one, on the node with a kernel of its own", len(pods))
	}
	c.wantEvent("CreateFailed", "2 chaos pods refused", "same kernel")
	c.WantCondition(ref, v1beta1.ConditionInjected, metav1.ConditionFalse, "same kernel")
	// status does not show the choice of targets yet
	if shown := c.Get(ref).Status; shown.InjectionStatus != v1beta1.NotInjected || shown.Phase != v1beta1.PhasePending {
		t.Errorf("status is %q in phase %q, want %s in phase %s", shown.InjectionStatus, shown.Phase, v1beta1.NotInjected, v1beta1.PhasePending)
	}
}

func TestNodeThatWasEnded(t *testing.T) {
	setUp := func(t *testing.T) (*testCluster, *apicluster.Nodes, v1beta1.DisruptionRef, corev1.Pod) {
		c := newCluster(t)
		nodes := c.WithNodes("node-0")
		c.MakeTargets(1, nil)
		ref := c.started("end", nodeFailure)
		pod := c.ChaosPodsOf(ref)[0]
		c.Becomes(pod, corev1.PodRunning, injectorRuns, corev1.ConditionTrue)
		return c, nodes, ref, pod
	}
	t.Run("it came back: said so, nobody is stuck, and the node is searched", func(t *testing.T) {
		c, _, ref, pod := setUp(t)
		c.Becomes(pod, corev1.PodFailed, apicluster.Exited(255, "Unknown", ""), corev1.ConditionFalse)
		cleaned := do[clean.Result](c, c.CleanChaosPods, in(ref))
		if cleaned.Remaining != 0 || len(c.ChaosPodsOf(ref)) != 0 || !cmp.Equal(cleaned.UnverifiedNodes, []string{"node-0"}) {
			t.Errorf("cleaned = %+v, want nothing left and the node to be searched", cleaned)
		}
		c.wantEvent("NodeCameBack", "node node-0", "ready again")
		// rule E1
		if len(cleaned.Effects) != 1 || cleaned.Effects[0].Effect.State != v1beta1.EffectProven {
			t.Errorf("effects = %+v, want that of the node proven", cleaned.Effects)
		}
	})
	t.Run("it did not come back: said so, and nobody waits for ever", func(t *testing.T) {
		c, nodes, ref, pod := setUp(t)
		node, err := c.Kube.CoreV1().Nodes().Get(t.Context(), "node-0", metav1.GetOptions{})
		c.Must(err)
		nodes.SetReady(node, corev1.ConditionUnknown)
		grace := int64(1)
		c.Must(c.Kube.CoreV1().Pods(c.Namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &grace}))
		cleaned := do[clean.Result](c, c.CleanChaosPods, in(ref))
		if cleaned.Remaining != 0 || len(c.ChaosPodsOf(ref)) != 0 || !cmp.Equal(cleaned.UnverifiedNodes, []string{"node-0"}) {
			t.Errorf("cleaned = %+v, want nothing left and the node reported as not searched", cleaned)
		}
		c.wantEvent("NodeDidNotComeBack", "node node-0", "not ready")
	})
	t.Run("it is up, and its kubelet is just late: waited for", func(t *testing.T) {
		c, _, ref, pod := setUp(t)
		grace := int64(1)
		c.Must(c.Kube.CoreV1().Pods(c.Namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &grace}))
		cleaned := do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, Patience: 3 * time.Second})
		if cleaned.Remaining != 1 || !strings.Contains(cleaned.Left[0].Why, "still running") {
			t.Errorf("cleaned = %+v, want the chaos pod waited for", cleaned)
		}
	})
	t.Run("an injector that tells what it left is no node that ended", func(t *testing.T) {
		c, _, ref, pod := setUp(t)
		c.Becomes(pod, corev1.PodFailed, apicluster.Exited(1, "Error", `{"injected":true,"cleaned":false,"error":"busy"}`), corev1.ConditionFalse)
		cleaned := do[clean.Result](c, c.CleanChaosPods, in(ref))
		if cleaned.Remaining != 1 || !strings.Contains(cleaned.Left[0].Why, "busy") {
			t.Errorf("cleaned = %+v, want it kept, with its words", cleaned)
		}
	})
}
