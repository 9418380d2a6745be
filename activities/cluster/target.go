package cluster

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
	"github.com/squall-chaos/squall/kube/podops"
)

// TargetState is the result of a live read of a target.
type TargetState struct {
	// Runs is false if the target is gone, replaced, or has ended.
	Runs bool
	// Ending is true if the target is being deleted, though it may still run.
	Ending bool
	// Labels and Annotations are the current ones.
	Labels, Annotations map[string]string
	// Operation is the evidence of another operation on the target; empty if there is none.
	Operation string
}

// ReadTarget reads one target live. A pod that waits at its start counts as running. A node
// counts as running until it is deleted or replaced: a node that is not ready may be
// disrupted all the more (rule 39a).
func ReadTarget(ctx context.Context, c *Cluster, ref v1beta1.DisruptionRef, name string, uid types.UID, level v1beta1.Level) (TargetState, error) {
	if level == v1beta1.LevelNode {
		node, err := c.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return TargetState{}, nil
		}
		if err != nil {
			return TargetState{}, fmt.Errorf("read target node %s: %w", name, err)
		}
		return TargetState{Runs: node.UID == uid, Ending: node.DeletionTimestamp != nil, Labels: node.Labels, Annotations: node.Annotations}, nil
	}
	pod, err := c.Kube.CoreV1().Pods(ref.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return TargetState{}, nil
	}
	if err != nil {
		return TargetState{}, fmt.Errorf("read target pod %s/%s: %w", ref.Namespace, name, err)
	}
	return TargetState{
		Runs: pod.UID == uid && kube.PodUp(pod), Ending: pod.DeletionTimestamp != nil, Labels: pod.Labels, Annotations: pod.Annotations,
		Operation: podops.OfDisruption(ref.UID).Busy(pod),
	}, nil
}

// ReadPod reads a target pod live; nil means that the pod is gone, replaced or has ended.
func ReadPod(ctx context.Context, c *Cluster, d *v1beta1.Disruption, target targets.Target) (*corev1.Pod, error) {
	pod, err := c.Kube.CoreV1().Pods(d.Namespace).Get(ctx, target.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read target pod %s/%s: %w", d.Namespace, target.Name, err)
	case pod.UID != target.UID || !kube.PodUp(pod):
		return nil, nil
	}
	return pod, nil
}

// ReadNode reads a node live; nil means that it is gone.
func ReadNode(ctx context.Context, c *Cluster, name string) (*corev1.Node, error) {
	node, err := c.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read node %s: %w", name, err)
	}
	return node, nil
}

// The reasons why a target is no longer disrupted though its disruption continues. The
// evidence follows TargetInUse and TargetTaken.
const (
	TargetUnmatched = "the target no longer matches the selector"
	TargetInUse     = "another operation uses the target: "
	TargetTaken     = "the driver took the target back: "
)

// RecordEnded records one event for all targets that ended for the same reason, so that the
// end of a thousand pods is one line. It also records the event after the disruption's end
// has cancelled the activity: no later attempt looks at these targets.
func RecordEnded(ctx context.Context, c *Cluster, d *v1beta1.Disruption, reason, what, why string, ended []targets.Target) {
	var names []string
	for _, target := range ended {
		if strings.HasPrefix(target.Ended, why) {
			names = append(names, target.Name)
		}
	}
	if len(names) == 0 {
		return
	}
	key := strings.Join(names, ",") + ended[0].EndedBy
	Events(c.Kube).Record(context.WithoutCancel(ctx), d, reason, fmt.Sprintf("targets %s: %d (%s)", what, len(names), ShortList(names)), key)
}

// ShortList is at most ten names, in a sentence.
func ShortList(names []string) string {
	some := strings.Join(names[:min(len(names), 10)], ", ")
	if len(names) > 10 {
		some += ", ..."
	}
	return some
}
