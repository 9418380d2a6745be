package clean

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/cluster"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// settleNodeFailure removes a chaos pod of a node failure that left no exit message: it
// ended with its node, and the node's end also undid everything that it did. settled is
// false when the pod is to be judged like any other.
func (c *cleaning) settleNodeFailure(ctx context.Context, pod *corev1.Pod, outcome chaospod.Outcome) (left *chaospod.LeftPod, settled bool, err error) {
	ended := outcome == chaospod.Failed && chaospod.EndedWithoutReport(pod)
	away := outcome == chaospod.Waiting && c.a.overdue(pod)
	if pod.Labels[v1beta1.LabelDisruptionKind] != string(v1beta1.KindNodeFailure) || !ended && !away {
		return nil, false, nil
	}
	back, err := c.nodeIsReady(ctx, pod.Spec.NodeName)
	if err != nil {
		return nil, false, err
	}
	about := status.Named(c.in.Shard.Disruption)
	switch {
	case back && away:
		return nil, false, nil // its kubelet will report the end
	case back:
		c.addEffect(chaospod.EffectAtEnd{Pod: pod.Name, Effect: v1beta1.Effect{
			State: v1beta1.EffectProven, Evidence: "its injector ended with the node, which is ready again", Since: metav1.Now(),
		}})
		cluster.Events(c.a.Kube).Record(ctx, about, "NodeCameBack", onNode(pod)+": its injector ended together with its node, and the node is ready again", string(pod.UID))
	default:
		cluster.Events(c.a.Kube).Warn(ctx, about, "NodeDidNotComeBack", onNode(pod)+": the node is not ready; only the journal of the injection can be left there", string(pod.UID))
	}
	c.markUnverified(pod)
	return chaospod.NewLeftPod(pod, chaospod.Waiting, "its node was ended"), true, c.a.force(ctx, pod)
}

// nodeIsReady is false for a node that is gone.
func (c *cleaning) nodeIsReady(ctx context.Context, name string) (bool, error) {
	node, err := cluster.ReadNode(ctx, c.a.Cluster, name)
	return node != nil && kube.NodeReady(node), err
}
