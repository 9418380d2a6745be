package clean

import (
	"context"
	"errors"
	"maps"
	"slices"

	"go.temporal.io/sdk/activity"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/cluster"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube/podops"
)

// cleanable is true if the target of a failed chaos pod still runs (rules 38, 39). A pod of
// the same name with another UID is another pod.
func (c *cleaning) cleanable(ctx context.Context, pod *corev1.Pod) (bool, error) {
	target, err := cluster.ReadTarget(ctx, c.a.Cluster, c.in.Shard.Disruption, chaospod.TargetName(pod), chaospod.TargetUID(pod), c.level(pod))
	return target.Runs, err
}

// level is the disruption's level. If the record is lost, the chaos pod's labels have it.
func (c *cleaning) level(pod *corev1.Pod) v1beta1.Level {
	if c.d != nil {
		return c.d.Spec.Level
	}
	return chaospod.LevelOf(pod)
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
		target, err := cluster.ReadTarget(ctx, c.a.Cluster, c.d.Ref(), chaospod.TargetName(&pods[i]), uid, c.d.Spec.Level)
		if err != nil {
			return err
		}
		// An ending target must not be delayed by its disruption.
		c.lost[uid] = !target.Runs || target.Ending
		alive[uid] = !c.lost[uid]
		if alive[uid] && !c.d.Spec.Matches(target.Labels, target.Annotations) {
			c.unwanted[uid] = cluster.TargetUnmatched
		}
		if alive[uid] && target.Operation != "" && releases {
			c.operated[uid] = target.Operation
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
	targetSurplus = "fewer targets match, and the percentage asks for fewer"
	chaosPodEnded = "its chaos pod ended"
	neverInjected = "never injected: "
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
			return targets.Ending{Why: targets.Gone, Lost: true}
		case c.unwanted[target.UID] != "":
			return targets.Ending{Why: c.unwanted[target.UID], Returns: true}
		case target.Operation == targets.OperationAsked, c.in.Operated && target.Operation == "":
			return targets.Ending{} // the disruption waits for it, and it has no chaos pod
		case c.taken[target.UID] != "":
			return targets.Ending{Why: cluster.TargetTaken + c.taken[target.UID]}
		case c.operated[target.UID] != "":
			return targets.Ending{Why: cluster.TargetInUse + c.operated[target.UID]}
		case len(pods) > 0 && len(pods) == len(c.d.Spec.Requested()):
			// c saw the end of the chaos pods of all fault types.
			return targets.Ending{Why: neverInjected + slices.Min(slices.Collect(maps.Values(pods))), NeverInjected: true}
		}
		// An earlier attempt may have finalized the chaos pods without a look at the
		// target.
		live, err := cluster.ReadTarget(ctx, c.a.Cluster, c.d.Ref(), target.Name, target.UID, c.d.Spec.Level)
		switch {
		case err != nil:
			failed = err
			return targets.Ending{}
		case !live.Runs || live.Ending:
			return targets.Ending{Why: targets.Gone, Lost: true}
		}
		return targets.Ending{Why: chaosPodEnded, Lost: true}
	})
	if err = errors.Join(err, failed); err != nil {
		return 0, err
	}
	cluster.RecordEnded(ctx, c.a.Cluster, c.d, "TargetLost", "deleted, ended or about to end", targets.Gone, ended)
	cluster.RecordEnded(ctx, c.a.Cluster, c.d, "TargetReleased", "cleaned up because they no longer match the selector", cluster.TargetUnmatched, ended)
	cluster.RecordEnded(ctx, c.a.Cluster, c.d, "TargetReleased", "cleaned up because fewer targets match and count is a percentage", targetSurplus, ended)
	cluster.RecordEnded(ctx, c.a.Cluster, c.d, "TargetReleased", "cleaned up because another operation uses them", cluster.TargetInUse, ended)
	cluster.RecordEnded(ctx, c.a.Cluster, c.d, "TargetReleased", "cleaned up because the driver took them back", cluster.TargetTaken, ended)
	cluster.RecordEnded(ctx, c.a.Cluster, c.d, "TargetNotInjected", "not injected: their chaos pods ended before the injection", neverInjected, ended)
	cluster.RecordEnded(ctx, c.a.Cluster, c.d, "TargetEnded", "no longer disrupted because their chaos pods ended", chaosPodEnded, ended)
	return len(ended), nil
}

// findTaken fills c.taken with the targets of these chaos pods that were granted and are
// not any more: a label of the disruption's operation was removed.
func (c *cleaning) findTaken(ctx context.Context, pods []corev1.Pod) error {
	if c.d == nil || !c.d.Spec.ParticipatesInOperations() || c.in.Shard.Number == chaospod.AllShards {
		return nil
	}
	shard, err := c.a.Targets.Shard(ctx, c.in.Shard.Disruption, c.in.Shard.Number)
	if err != nil {
		return err
	}
	operation := podops.OfDisruption(c.d.UID)
	disrupted := map[types.UID]bool{}
	for i := range pods {
		disrupted[chaospod.TargetUID(&pods[i])] = true
	}
	for _, target := range shard.Targets {
		if !target.Active() || target.Operation != targets.OperationGiven || !disrupted[target.UID] || c.lost[target.UID] {
			continue
		}
		pod, err := cluster.ReadPod(ctx, c.a.Cluster, c.d, target)
		if err != nil {
			return err
		}
		if pod != nil && !operation.Holds(pod) {
			c.taken[target.UID] = "a label of operation " + operation.ID + " was removed"
		}
	}
	return nil
}
