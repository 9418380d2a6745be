// Package clean removes a Disruption's chaos pods and cordons: the activity CleanChaosPods.
// It promises that a finalizer goes only after a proof that its injector left nothing, or
// after a person's release.
package clean

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/cluster"
	"github.com/squall-chaos/squall/activities/metric"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// Activities has the activity CleanChaosPods.
type Activities struct {
	*cluster.Cluster
	// StartPatience is how long the finalizer stays on a chaos pod that was Pending when it
	// was deleted. 0 means 5 s.
	StartPatience time.Duration
}

// Input selects the chaos pods that CleanChaosPods removes.
type Input struct {
	Shard chaospod.Shard `json:"shard"`
	// OnlyEnded leaves alone the chaos pods that disrupt a live target. It removes those
	// that ended, that are being deleted, or whose target is lost.
	OnlyEnded bool `json:"onlyEnded,omitempty"`
	// Release are the UIDs of failed chaos pods that a person force-releases.
	Release []string `json:"release,omitempty"`
	// ReleaseUntil is when a person force-released all chaos pods that had failed by then,
	// which are more than Release can list.
	ReleaseUntil *time.Time `json:"releaseUntil,omitempty"`
	// Retry are the target names whose failed chaos pods a cleaner may retry on their node,
	// from the journal. "*" means all but Exhausted.
	Retry []string `json:"retry,omitempty"`
	// Exhausted are the UIDs of chaos pods on which cleaners have failed often enough. No
	// cleaner retries them unless Retry names the target.
	Exhausted []string `json:"exhausted,omitempty"`
	// ResultLost is true when an earlier cleaning may have removed chaos pods and its
	// result did not reach the workflow.
	ResultLost bool `json:"resultLost,omitempty"`
	// Operated is true for a disruption that is an operation on its targets. Such a
	// disruption still waits for a target that the driver has not granted, which has no
	// chaos pod yet.
	Operated bool `json:"operated,omitempty"`
	// Runs is the number of choices of targets before this cleaning. A late attempt, which
	// Temporal has already timed out, must not end targets that were chosen since. 0 means
	// that there are none.
	Runs int `json:"runs,omitempty"`
	// Patience is the longest time to wait for the end of chaos pods. 0 means no wait.
	Patience time.Duration `json:"patience"`
}

// Result has the chaos pods that CleanChaosPods left.
type Result struct {
	// Remaining counts the chaos pods that are to be removed and are not gone.
	Remaining int `json:"remaining"`
	// Left describes them, failed ones first; at most 50.
	Left []chaospod.LeftPod `json:"left,omitempty"`
	// UnverifiedNodes are the nodes on which chaos pods ended without a proof that they
	// left nothing, each once.
	UnverifiedNodes []string `json:"unverifiedNodes,omitempty"`
	// Effects are the last measurements of injectors before they cleaned up, at most 50.
	Effects []chaospod.EffectAtEnd `json:"effects,omitempty"`
	// Lost counts targets that are no longer disrupted though the disruption continues.
	Lost int `json:"lost,omitempty"`
}

// ErrorUnreachable is the type of the error of a CleanChaosPods that did not reach the API
// server: the state of the chaos pods is unknown, and no cleaner has failed.
const ErrorUnreachable = "APIServerUnreachable"

// maxLeft bounds the lists in a workflow's history. The pods themselves are the full list.
const maxLeft = 50

// CleanChaosPods deletes chaos pods, waits for their end, judges each outcome and removes
// the finalizers of clean ones (rules 34-49). It returns the pods that are not clean
// instead of failing, so that one bad node does not delay the others. For a disruption that
// the worker carries out it removes the cordons instead, and only at the disruption's end.
//
// While the API server does not answer it fails with the type ErrorUnreachable.
func (a *Activities) CleanChaosPods(ctx context.Context, in Input) (Result, error) {
	result, err := a.cleanChaosPods(ctx, in)
	if kube.Unreachable(err) {
		metric.CleaningUnreachable.Add(ctx, 1, "")
		err = temporal.NewApplicationErrorWithCause(err.Error(), ErrorUnreachable, err)
	}
	return result, err
}

func (a *Activities) cleanChaosPods(ctx context.Context, in Input) (Result, error) {
	c, err := a.newCleaning(ctx, in)
	if err != nil {
		return Result{}, err
	}
	if in.OnlyEnded && c.d != nil && c.d.Spec.Kinds().By() == v1beta1.ByWorker {
		// such a disruption is meant to remove its targets, so a missing one is no loss
		return Result{}, nil
	}
	changes, stop := a.ChaosPods.Changes(in.Shard.Disruption)
	defer stop()
	deadline := time.NewTimer(in.Patience)
	defer deadline.Stop()
	// The watch may miss changes, so the loop lists the pods again every relistGap.
	relist := time.NewTicker(relistGap)
	defer relist.Stop()
	for {
		left, err := c.round(ctx)
		if err != nil {
			return Result{}, err
		}
		for began, next := time.Now(), false; !next; {
			if c.over || !slices.ContainsFunc(left, waits) {
				return c.result(ctx, left)
			}
			select {
			case <-ctx.Done():
				return Result{}, ctx.Err()
			case <-activity.GetWorkerStopChannel(ctx):
				return Result{}, cluster.ErrWorkerStops
			case <-deadline.C:
				next, c.over = true, true
			case <-relist.C:
				next = true
			case <-changes:
				if err := gather(ctx, changes, c.allEnded); err != nil {
					return Result{}, err
				}
				if left, err = c.finalizeSeen(ctx, left); err != nil {
					return Result{}, err
				}
				next = slices.ContainsFunc(left, waits) && c.needsRound(c.seen(), time.Since(began))
			}
		}
	}
}

func waits(l chaospod.LeftPod) bool { return l.Outcome == chaospod.Waiting }

const (
	// roundGap is the least time between two lists of chaos pods while some have not ended.
	roundGap = time.Second
	// relistGap is the time between two lists that do not depend on the watch.
	relistGap = 5 * time.Second
)

// needsRound is true if, by the pods that the watch has, another round would do enough to be
// worth its list:
//
//   - no chaos pod is left, or
//   - all that are left have ended, and Squall's finalizer holds some of them, or
//   - the last round was a second ago and half of them have ended.
//
// needsRound leaves out the pods that finalizeSeen handles. A pod that the last round deleted
// counts as running until the watch has seen its end.
func (c *cleaning) needsRound(pods []*corev1.Pod, since time.Duration) bool {
	present, running, held := 0, 0, 0
	for _, pod := range pods {
		if c.in.OnlyEnded && notEnding(pod) {
			// the disruption continues on its target
			continue
		}
		present++
		_, known := c.waiting[pod.UID]
		outcome, _ := chaospod.Judge(pod, true)
		switch {
		case outcome == chaospod.Waiting && (known || pod.DeletionTimestamp != nil), known && outcome == chaospod.Clean:
			running++
		case slices.Contains(pod.Finalizers, v1beta1.ChaosPodFinalizer) || pod.Labels[v1beta1.LabelCleaner] != "":
			held++
		}
	}
	return present == 0 || running == 0 && held > 0 || held >= running && since > roundGap
}

// cleaning is the state of one CleanChaosPods.
type cleaning struct {
	a  *Activities
	in Input
	// d is nil when its record is gone: then only labels are known.
	d *v1beta1.Disruption
	// lost has the targets that are gone, replaced or no longer running.
	lost map[types.UID]bool
	// unwanted has the reason for each target that no longer matches or is surplus.
	unwanted map[types.UID]string
	// operated has the targets that are given up because another operation uses them, with
	// the evidence.
	operated map[types.UID]string
	// taken has the targets that the driver no longer grants to the disruption, with the
	// evidence.
	taken map[types.UID]string
	// held has the targets that a chaos pod of the disruption still disrupts, or may.
	held map[types.UID]bool
	// cleaners are the existing cleaner pods, by name.
	cleaners map[string]corev1.Pod
	// waiting has the chaos pods that the last round found and could not finalize.
	waiting map[types.UID]*corev1.Pod
	mu      sync.Mutex
	// cleanerFailures has the message of the failed cleaner of each chaos pod.
	cleanerFailures map[types.UID]string
	// rejections has the chaos pods whose cleaner was rejected by the node's kubelet.
	rejections map[types.UID]rejection
	// shownWait is the wait for room that status shows.
	shownWait string
	// over is true when the patience of the cleaning is over: this round is the last.
	over bool
	// neverInjected has the chaos pods of each target that ended and certainly injected
	// nothing, with the reason.
	neverInjected map[types.UID]map[types.UID]string
	// unverified has the nodes whose chaos pods were finalized without a proof that they
	// are clean.
	unverified map[string]bool
	// effects are the last measurements of the injectors.
	effects []chaospod.EffectAtEnd
}

func (a *Activities) newCleaning(ctx context.Context, in Input) (*cleaning, error) {
	c := &cleaning{a: a, in: in, lost: map[types.UID]bool{}, unwanted: map[types.UID]string{}, operated: map[types.UID]string{}, taken: map[types.UID]string{}, cleanerFailures: map[types.UID]string{}, rejections: map[types.UID]rejection{}, neverInjected: map[types.UID]map[types.UID]string{}, unverified: map[string]bool{}}
	d, err := a.Targets.LoadSpec(ctx, in.Shard.Disruption)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return nil, err
	default:
		c.d = d
	}
	return c, c.markAllUnverified(ctx)
}

// markAllUnverified marks all nodes of the shard when an earlier attempt, or an earlier
// workflow, may have finalized chaos pods: that attempt's findings are lost.
func (c *cleaning) markAllUnverified(ctx context.Context) error {
	if !c.in.ResultLost && c.in.Shard.Number != chaospod.AllShards && activity.GetInfo(ctx).Attempt == 1 {
		return nil
	}
	if c.d != nil && c.d.Spec.Kinds().By() == v1beta1.ByWorker {
		return nil // no injector ran on a node, and uncordon reads the cordons live
	}
	shards, err := c.a.Targets.Shards(ctx, c.in.Shard.Disruption)
	if err != nil {
		return err
	}
	for _, s := range shards {
		if c.in.Shard.Number != chaospod.AllShards && c.in.Shard.Number != s.Number {
			continue
		}
		for _, node := range s.Nodes() {
			c.unverified[node] = true
		}
	}
	return nil
}

// round reads the chaos pods live, deletes those that are to end and finalizes those that
// are clean. It returns the ones that remain.
func (c *cleaning) round(ctx context.Context) ([]chaospod.LeftPod, error) {
	c.cleaners, c.waiting, c.held = map[string]corev1.Pod{}, map[types.UID]*corev1.Pod{}, map[types.UID]bool{}
	var left []chaospod.LeftPod
	var errs []error
	cleaners := map[string]bool{} // the names of all cleaners that these chaos pods can have
	seen := 0
	err := c.read(ctx, func(pods []corev1.Pod) {
		pods = c.splitCleaners(pods)
		for i := range pods {
			cleaners[chaospod.CleanerName(&pods[i])] = true
		}
		seen += len(pods)
		some, failed := c.advanceAll(ctx, pods)
		left, errs = append(left, some...), append(errs, failed...)
	})
	if seen > mostWaiting {
		clear(c.waiting)
	}
	if err := cmp.Or(err, cluster.FirstOf(errs, "chaos pods are not cleaned")); err != nil {
		return nil, err
	}
	stale := c.deleteStaleCleaners(ctx, cleaners)
	cordoned, err := c.uncordon(ctx)
	c.showWait(ctx, left)
	return append(cordoned, left...), cmp.Or(stale, err)
}

// read reads chaos pods live. A shard is one list, with its cleaners. All shards are read
// in pages: a cleaner may be on another page than its chaos pod, so read lists the cleaners
// first.
func (c *cleaning) read(ctx context.Context, take func([]corev1.Pod)) error {
	if c.in.Shard.Number != chaospod.AllShards {
		pods, err := cluster.ListChaosPods(ctx, c.a.Cluster, c.in.Shard)
		if err == nil {
			take(pods)
		}
		return err
	}
	err := cluster.PageChaosPods(ctx, c.a.Cluster, c.in.Shard.Disruption, true, func(cleaners []corev1.Pod) { c.splitCleaners(cleaners) })
	if err != nil {
		return err
	}
	return cluster.PageChaosPods(ctx, c.a.Cluster, c.in.Shard.Disruption, false, take)
}

// advanceAll deletes the chaos pods that are to end, finalizes those that are clean, and
// returns those that remain.
func (c *cleaning) advanceAll(ctx context.Context, pods []corev1.Pod) (remaining []chaospod.LeftPod, errs []error) {
	if c.in.OnlyEnded {
		ending, err := c.endingPods(ctx, pods)
		if err != nil {
			return nil, []error{err}
		}
		pods = ending
	}
	left := make([]*chaospod.LeftPod, len(pods))
	advance := c.advance
	if c.deleteTogether(ctx, pods) {
		advance = func(_ context.Context, pod *corev1.Pod) (*chaospod.LeftPod, error) { return beingDeleted(pod), nil }
	}
	errs = kube.Each(len(pods), c.a.Parallel, func(i int) (err error) {
		left[i], err = advance(ctx, &pods[i])
		return err
	})
	for i, l := range left {
		if l == nil {
			continue
		}
		remaining = append(remaining, *l)
		if waits(*l) && len(c.waiting) <= mostWaiting {
			c.waiting[l.UID] = &pods[i]
		}
	}
	return remaining, errs
}

// endingPods are the pods that are to end though the disruption continues (rules 37, 40).
func (c *cleaning) endingPods(ctx context.Context, pods []corev1.Pod) ([]corev1.Pod, error) {
	if err := c.findLost(ctx, pods); err != nil {
		return nil, err
	}
	if err := c.findTaken(ctx, pods); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(pods, func(pod corev1.Pod) bool {
		uid := chaospod.TargetUID(&pod)
		stays := notEnding(&pod) && !c.lost[uid] && c.unwanted[uid] == "" && c.operated[uid] == "" && c.taken[uid] == ""
		c.held[uid] = c.held[uid] || stays
		return stays
	}), nil
}

// result describes the chaos pods that are left. While the disruption continues, it also
// records which targets are no longer disrupted.
func (c *cleaning) result(ctx context.Context, left []chaospod.LeftPod) (Result, error) {
	slices.SortFunc(left, func(a, b chaospod.LeftPod) int {
		return cmp.Or(cmp.Compare(rank(a.Outcome), rank(b.Outcome)), cmp.Compare(a.Pod, b.Pod))
	})
	cleaned := Result{Remaining: len(left), Left: left[:min(len(left), maxLeft)], UnverifiedNodes: slices.Sorted(maps.Keys(c.unverified)), Effects: c.effects}
	if !c.in.OnlyEnded || c.d == nil || c.in.Shard.Number == chaospod.AllShards {
		return cleaned, nil
	}
	for _, l := range left {
		c.held[l.TargetUID] = true
	}
	lost, err := c.endTargets(ctx)
	cleaned.Lost = lost
	return cleaned, err
}

func rank(o chaospod.Outcome) int {
	if o == chaospod.Failed {
		return 0
	}
	return 1
}
