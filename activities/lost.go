package activities

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.temporal.io/sdk/activity"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// cleanable says whether the target of a failed chaos pod still runs
// (rules 38, 39): a pod of the same name with another UID is another pod.
func (c *cleaning) cleanable(ctx context.Context, pod *corev1.Pod) (bool, error) {
	runs, _, err := c.a.readTarget(ctx, c.in.Shard.Disruption.Namespace, chaospod.TargetName(pod), chaospod.TargetUID(pod), c.level())
	return runs, err
}

// level is pod unless the record says node.
func (c *cleaning) level() v1beta1.Level {
	if c.d != nil {
		return c.d.Spec.Level
	}
	return v1beta1.LevelPod
}

// readTarget reads one target live: whether it runs, and whether it is about to
// end though it still does. A node runs until it is deleted or another has its
// name: one that is not ready may be disturbed all the more (rule 39a).
func (a *Activities) readTarget(ctx context.Context, namespace, name string, uid types.UID, level v1beta1.Level) (runs, ending bool, err error) {
	if level == v1beta1.LevelNode {
		node, err := a.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, false, nil
		}
		if err != nil {
			return false, false, fmt.Errorf("read target node %s: %w", name, err)
		}
		return node.UID == uid, node.DeletionTimestamp != nil, nil
	}
	pod, err := a.Kube.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, false, nil
	}
	if err != nil {
		return false, false, fmt.Errorf("read target pod %s/%s: %w", namespace, name, err)
	}
	return pod.UID == uid && pod.Status.Phase == corev1.PodRunning, pod.DeletionTimestamp != nil, nil
}

// findLost fills c.lost with the targets of these chaos pods that are gone,
// replaced, ending or not running. One list answers for those that still
// match the selector; the few others are read one by one.
func (c *cleaning) findLost(ctx context.Context, pods []corev1.Pod) error {
	if c.d == nil {
		return nil
	}
	healthy, err := c.a.Targets.Healthy(ctx, c.d)
	if err != nil {
		return err
	}
	alive := map[types.UID]bool{}
	for _, candidate := range healthy {
		alive[candidate.Target.UID] = true
	}
	for i := range pods {
		uid := chaospod.TargetUID(&pods[i])
		if alive[uid] || c.lost[uid] {
			continue
		}
		runs, ending, err := c.a.readTarget(ctx, c.d.Namespace, chaospod.TargetName(&pods[i]), uid, c.d.Spec.Level)
		if err != nil {
			return err
		}
		// One that ends must not be held up by what disturbs it.
		alive[uid], c.lost[uid] = runs && !ending, !runs || ending
	}
	return nil
}

// Why a target is no longer disrupted though its disruption goes on.
const (
	targetGone    = "the target is gone"
	chaosPodEnded = "its chaos pod ended"
	neverInjected = "never injected: "
)

// endTargets marks the targets that no chaos pod of ours disturbs any more in
// the shard's record, and records what became of them. Tried again it counts
// those that it marked before, too.
func (c *cleaning) endTargets(ctx context.Context) (int, error) {
	info := activity.GetInfo(ctx)
	self := info.WorkflowExecution.RunID + "/" + info.ActivityID
	ended, err := c.a.Targets.End(ctx, c.in.Shard.Disruption, c.in.Shard.Number, self, func(target targets.Target) targets.Ending {
		pods := c.neverInjected[target.UID]
		switch {
		case c.held[target.UID]:
			return targets.Ending{}
		case c.lost[target.UID]:
			return targets.Ending{Why: targetGone}
		case len(pods) > 0 && len(pods) == len(c.d.Spec.Requested()): // those of all kinds were seen to end
			return targets.Ending{Why: neverInjected + slices.Min(slices.Collect(maps.Values(pods))), NeverInjected: true}
		}
		return targets.Ending{Why: chaosPodEnded}
	})
	if err != nil {
		return 0, err
	}
	c.recordEnded(ctx, "TargetLost", "gone or about to go", targetGone, ended)
	c.recordEnded(ctx, "TargetNotInjected", "let go, as their chaos pods ended without having injected", neverInjected, ended)
	c.recordEnded(ctx, "TargetEnded", "no longer disrupted, as their chaos pods ended", chaosPodEnded, ended)
	return len(ended), nil
}

// recordEnded records in one event which targets ended for the same reason, so
// that a thousand pods that go together are one line.
func (c *cleaning) recordEnded(ctx context.Context, reason, what, why string, ended []targets.Target) {
	var names []string
	for _, target := range ended {
		if strings.HasPrefix(target.Ended, why) {
			names = append(names, target.Name)
		}
	}
	if len(names) == 0 {
		return
	}
	some := strings.Join(names[:min(len(names), 10)], ", ")
	if len(names) > 10 {
		some += ", ..."
	}
	key := strings.Join(names, ",") + ended[0].EndedBy
	c.a.events().Record(ctx, c.d, reason, fmt.Sprintf("targets %s: %d (%s)", what, len(names), some), key)
}
