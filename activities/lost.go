package activities

import (
	"context"
	"errors"
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
	"github.com/squall-chaos/squall/kube"
	"github.com/squall-chaos/squall/kube/podops"
)

// cleanable is true if the target of a failed chaos pod still runs (rules 38, 39). A pod of
// the same name with another UID is another pod.
func (c *cleaning) cleanable(ctx context.Context, pod *corev1.Pod) (bool, error) {
	target, err := c.a.readTarget(ctx, c.in.Shard.Disruption, chaospod.TargetName(pod), chaospod.TargetUID(pod), c.level(pod))
	return target.runs, err
}

// level is the disruption's level. If the record is lost, the chaos pod's labels have it.
func (c *cleaning) level(pod *corev1.Pod) v1beta1.Level {
	if c.d != nil {
		return c.d.Spec.Level
	}
	return chaospod.LevelOf(pod)
}

// targetState is the result of a live read of a target.
type targetState struct {
	// runs is false if the target is gone, replaced, or has ended.
	runs bool
	// ending is true if the target is being deleted, though it may still run.
	ending bool
	// labels and annotations are the current ones.
	labels, annotations map[string]string
	// operation is the evidence of another operation on the target; empty if there is none.
	operation string
}

// readTarget reads one target live. A pod that waits at its start counts as running. A node
// counts as running until it is deleted or replaced: a node that is not ready may be
// disrupted all the more (rule 39a).
func (a *Activities) readTarget(ctx context.Context, ref Ref, name string, uid types.UID, level v1beta1.Level) (targetState, error) {
	if level == v1beta1.LevelNode {
		node, err := a.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return targetState{}, nil
		}
		if err != nil {
			return targetState{}, fmt.Errorf("read target node %s: %w", name, err)
		}
		return targetState{runs: node.UID == uid, ending: node.DeletionTimestamp != nil, labels: node.Labels, annotations: node.Annotations}, nil
	}
	pod, err := a.Kube.CoreV1().Pods(ref.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return targetState{}, nil
	}
	if err != nil {
		return targetState{}, fmt.Errorf("read target pod %s/%s: %w", ref.Namespace, name, err)
	}
	return targetState{
		runs: pod.UID == uid && kube.PodUp(pod), ending: pod.DeletionTimestamp != nil, labels: pod.Labels, annotations: pod.Annotations,
		operation: podops.OfDisruption(ref.UID).Busy(pod),
	}, nil
}

// findLost sorts the targets of these chaos pods. c.lost gets those that are gone,
// replaced, ending or not running. c.unwanted gets those that no longer match or are
// surplus. Unless the spec keeps them, c.operated gets those that another operation uses.
// One list covers the targets that still match the selector; findLost reads the few others
// one by one.
func (c *cleaning) findLost(ctx context.Context, pods []corev1.Pod) error {
	if c.d == nil {
		return nil
	}
	healthy, err := c.a.Targets.Healthy(ctx, c.d)
	if err != nil {
		return err
	}
	alive := map[types.UID]bool{}
	if err := c.findSurplus(ctx, healthy); err != nil {
		return err
	}
	releases := c.d.Spec.ReleasesOnOperation()
	for _, candidate := range healthy {
		alive[candidate.Target.UID] = true
		if candidate.Operation != "" && releases {
			c.operated[candidate.Target.UID] = candidate.Operation
		}
	}
	for i := range pods {
		uid := chaospod.TargetUID(&pods[i])
		if alive[uid] || c.lost[uid] || c.operated[uid] != "" {
			continue
		}
		target, err := c.a.readTarget(ctx, c.d.Ref(), chaospod.TargetName(&pods[i]), uid, c.d.Spec.Level)
		if err != nil {
			return err
		}
		// An ending target must not be delayed by its disruption.
		c.lost[uid] = !target.runs || target.ending
		alive[uid] = !c.lost[uid]
		if alive[uid] && !c.d.Spec.Matches(target.labels, target.annotations) {
			c.unwanted[uid] = targetUnmatched
		}
		if alive[uid] && target.operation != "" && releases {
			c.operated[uid] = target.operation
		}
	}
	return nil
}

// findSurplus adds to c.unwanted the targets that a percentage no longer includes.
func (c *cleaning) findSurplus(ctx context.Context, healthy []targets.Candidate) error {
	if !c.d.Spec.FollowsShare() {
		return nil
	}
	shards, err := c.a.Targets.Shards(ctx, c.d.Ref())
	if err != nil {
		return err
	}
	for _, uid := range targets.Surplus(c.d.Spec, healthy, shards) {
		c.unwanted[uid] = targetSurplus
	}
	return nil
}

// The reasons why a target is no longer disrupted though its disruption continues.
const (
	targetGone      = targets.Gone
	targetUnmatched = "the target no longer matches the selector"
	targetSurplus   = "fewer targets match, and the percentage asks for fewer"
	targetInUse     = "another operation uses the target: "
	targetTaken     = "the driver took the target back: "
	chaosPodEnded   = "its chaos pod ended"
	neverInjected   = "never injected: "
)

// endTargets marks in the shard's record the targets that no chaos pod of the disruption
// disrupts any more. It records why they ended. A retry also counts the targets that an
// earlier attempt marked.
func (c *cleaning) endTargets(ctx context.Context) (int, error) {
	info := activity.GetInfo(ctx)
	self := info.WorkflowExecution.RunID + "/" + info.ActivityID
	var failed error
	ended, err := c.a.Targets.End(ctx, c.in.Shard.Disruption, c.in.Shard.Number, self, func(target targets.Target) targets.Ending {
		pods := c.neverInjected[target.UID]
		switch {
		case c.held[target.UID]:
			return targets.Ending{}
		case c.in.Runs > 0 && target.Run >= c.in.Runs: // chosen after this cleaning began
			return targets.Ending{}
		case c.lost[target.UID]:
			return targets.Ending{Why: targetGone, Lost: true}
		case c.unwanted[target.UID] != "":
			return targets.Ending{Why: c.unwanted[target.UID], Returns: true}
		case target.Operation == targets.OperationAsked, c.in.Operated && target.Operation == "":
			return targets.Ending{} // the disruption waits for it, and it has no chaos pod
		case c.taken[target.UID] != "":
			return targets.Ending{Why: targetTaken + c.taken[target.UID]}
		case c.operated[target.UID] != "":
			return targets.Ending{Why: targetInUse + c.operated[target.UID]}
		case len(pods) > 0 && len(pods) == len(c.d.Spec.Requested()):
			// c saw the end of the chaos pods of all fault types.
			return targets.Ending{Why: neverInjected + slices.Min(slices.Collect(maps.Values(pods))), NeverInjected: true}
		}
		// An earlier attempt may have finalized the chaos pods without a look at the
		// target.
		live, err := c.a.readTarget(ctx, c.d.Ref(), target.Name, target.UID, c.d.Spec.Level)
		switch {
		case err != nil:
			failed = err
			return targets.Ending{}
		case !live.runs || live.ending:
			return targets.Ending{Why: targetGone, Lost: true}
		}
		return targets.Ending{Why: chaosPodEnded, Lost: true}
	})
	if err = errors.Join(err, failed); err != nil {
		return 0, err
	}
	c.a.recordEnded(ctx, c.d, "TargetLost", "deleted, ended or about to end", targetGone, ended)
	c.a.recordEnded(ctx, c.d, "TargetReleased", "cleaned up because they no longer match the selector", targetUnmatched, ended)
	c.a.recordEnded(ctx, c.d, "TargetReleased", "cleaned up because fewer targets match and count is a percentage", targetSurplus, ended)
	c.a.recordEnded(ctx, c.d, "TargetReleased", "cleaned up because another operation uses them", targetInUse, ended)
	c.a.recordEnded(ctx, c.d, "TargetReleased", "cleaned up because the driver took them back", targetTaken, ended)
	c.a.recordEnded(ctx, c.d, "TargetNotInjected", "not injected: their chaos pods ended before the injection", neverInjected, ended)
	c.a.recordEnded(ctx, c.d, "TargetEnded", "no longer disrupted because their chaos pods ended", chaosPodEnded, ended)
	return len(ended), nil
}

// recordEnded records one event for all targets that ended for the same reason, so that the
// end of a thousand pods is one line. It also records the event after the disruption's end
// has cancelled the activity: no later attempt looks at these targets.
func (a *Activities) recordEnded(ctx context.Context, d *v1beta1.Disruption, reason, what, why string, ended []targets.Target) {
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
	a.events().Record(context.WithoutCancel(ctx), d, reason, fmt.Sprintf("targets %s: %d (%s)", what, len(names), shortList(names)), key)
}

// shortList is at most ten names, in a sentence.
func shortList(names []string) string {
	some := strings.Join(names[:min(len(names), 10)], ", ")
	if len(names) > 10 {
		some += ", ..."
	}
	return some
}
