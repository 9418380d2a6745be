package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/metric"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// CleanInput says which chaos pods to take away.
type CleanInput struct {
	Shard Shard `json:"shard"`
	// OnlyEnded leaves alone what still disturbs a live target: it settles the
	// chaos pods that ended, that somebody deletes, or whose target is lost.
	OnlyEnded bool `json:"onlyEnded,omitempty"`
	// Release are the UIDs of failed chaos pods that a person lets go.
	Release []string `json:"release,omitempty"`
	// ReleaseUntil is when a person let go of all that had failed by then: of more
	// chaos pods than can be named here.
	ReleaseUntil *time.Time `json:"releaseUntil,omitempty"`
	// Retry are target names whose failed chaos pods a cleaner may try again on
	// their node, from the journal; "*" is all but Exhausted.
	Retry []string `json:"retry,omitempty"`
	// Exhausted are the UIDs of chaos pods on which cleaners have failed often
	// enough: none is tried unless Retry names the target.
	Exhausted []string `json:"exhausted,omitempty"`
	// ResultLost is true when an earlier cleaning may have let chaos pods go and
	// nobody heard of it.
	ResultLost bool `json:"resultLost,omitempty"`
	// Operated is true for a disruption that is an operation on its targets: one that was
	// not given yet has no chaos pod, and is waited for.
	Operated bool `json:"operated,omitempty"`
	// Runs is how often targets were chosen before this cleaning. An attempt of it that
	// nobody waits for any more may come late: it must not end targets chosen since. 0
	// means that there are none.
	Runs int `json:"runs,omitempty"`
	// Patience is how long to wait for chaos pods to end, at most. 0 means not at all.
	Patience time.Duration `json:"patience"`
}

// CleanResult says what CleanChaosPods left.
type CleanResult struct {
	// Remaining counts chaos pods that are to go and are not gone.
	Remaining int `json:"remaining"`
	// Left describes them, failed ones first; at most 50.
	Left []LeftPod `json:"left,omitempty"`
	// UnverifiedNodes are the nodes on which chaos pods ended without a proof that they
	// left nothing, each once.
	UnverifiedNodes []string `json:"unverifiedNodes,omitempty"`
	// Effects are what injectors measured before they cleaned, at most 50 of them.
	Effects []chaospod.EffectAtEnd `json:"effects,omitempty"`
	// Lost counts targets that are no longer disrupted though the disruption goes on.
	Lost int `json:"lost,omitempty"`
}

// ErrorUnreachable is the type of the error of CleanChaosPods that did not reach the API
// server: nothing is known of the chaos pods, and no cleaner has failed.
const ErrorUnreachable = "APIServerUnreachable"

// maxLeft bounds what a history carries; the pods themselves are the full list.
const maxLeft = 50

// CleanChaosPods deletes chaos pods, waits for their end, judges each outcome
// and lets go of those that are clean (rules 34-49). It returns what is
// not clean, rather than failing: one bad node does not stop the others. Of a
// disruption that the worker carries out it takes off the cordons instead, and
// nothing before the end.
//
// While the API server does not answer it fails with the type ErrorUnreachable.
func (a *Activities) CleanChaosPods(ctx context.Context, in CleanInput) (CleanResult, error) {
	result, err := a.cleanChaosPods(ctx, in)
	if kube.Unreachable(err) {
		metric.CleaningUnreachable.Add(ctx, 1, "")
		err = temporal.NewApplicationErrorWithCause(err.Error(), ErrorUnreachable, err)
	}
	return result, err
}

func (a *Activities) cleanChaosPods(ctx context.Context, in CleanInput) (CleanResult, error) {
	c, err := a.newCleaning(ctx, in)
	if err != nil {
		return CleanResult{}, err
	}
	if in.OnlyEnded && c.d != nil && c.d.Spec.Kinds().By() == v1beta1.ByWorker {
		return CleanResult{}, nil // a target that is gone is what it was to become
	}
	changes, stop := a.ChaosPods.Changes(in.Shard.Disruption)
	defer stop()
	deadline := time.NewTimer(in.Patience)
	defer deadline.Stop()
	// The watch is a hint that may be lost: the list is read again now and then.
	again := time.NewTicker(againGap)
	defer again.Stop()
	for over := false; ; {
		left, err := c.round(ctx)
		if err != nil {
			return CleanResult{}, err
		}
		for began, next := time.Now(), false; !next; {
			if over || !slices.ContainsFunc(left, waits) {
				return c.result(ctx, left)
			}
			select {
			case <-ctx.Done():
				return CleanResult{}, ctx.Err()
			case <-activity.GetWorkerStopChannel(ctx):
				return CleanResult{}, fmt.Errorf("worker stops; another one goes on")
			case <-deadline.C:
				next, over = true, true
			case <-again.C:
				next = true
			case <-changes:
				if err := gather(ctx, changes, c.allEnded); err != nil {
					return CleanResult{}, err
				}
				if left, err = c.finalizeSeen(ctx, left); err != nil {
					return CleanResult{}, err
				}
				next = slices.ContainsFunc(left, waits) && c.needsRound(time.Since(began))
			}
		}
	}
}

func waits(l LeftPod) bool { return l.Outcome == chaospod.Waiting }

const (
	// roundGap is the least time between two lists of chaos pods of which some
	// have not ended.
	roundGap = time.Second
	// againGap is how often chaos pods are listed whatever the watch says.
	againGap = 5 * time.Second
)

// needsRound tells, by the watch alone, whether another round has enough to do to
// be worth its list:
//   - no chaos pod is left, or
//   - all that are left have ended, and our finalizer holds some of them, or
//   - the last round was a second ago and half of them have ended.
//
// What finalizeSeen will let go is left to it, and what the last round deleted has
// not ended though the watch has not seen that yet.
func (c *cleaning) needsRound(since time.Duration) bool {
	present, running, held := 0, 0, 0
	for _, pod := range c.a.ChaosPods.OfShard(c.in.Shard.Disruption, c.in.Shard.Number) {
		if c.in.OnlyEnded && goesOn(pod) {
			continue // it stays
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
	in CleanInput
	d  *v1beta1.Disruption // nil when its record is gone: then only labels are known
	// lost has the targets that are gone, replaced or no longer running.
	lost map[types.UID]bool
	// unwanted has the targets that match no longer or are surplus, with which of it.
	unwanted map[types.UID]string
	// operated has the targets that are let go because somebody operates on them,
	// with what shows that.
	operated map[types.UID]string
	// taken has those that are no longer given to the disruption, with what shows that.
	taken map[types.UID]string
	// held has the targets that a chaos pod of ours still disturbs, or may.
	held map[types.UID]bool
	// cleaners are the cleaners there are, by name.
	cleaners map[string]corev1.Pod
	// waiting has the chaos pods that the last round found and could not let go.
	waiting map[types.UID]*corev1.Pod
	mu      sync.Mutex
	// tried has the chaos pods whose cleaner failed, with its words.
	tried map[types.UID]string
	// neverInjected has, of each target, the chaos pods that ended and are sure to
	// have injected nothing, with the reason.
	neverInjected map[types.UID]map[types.UID]string
	// unverified has the nodes of chaos pods that were let go without a proof.
	unverified map[string]bool
	// effects are what injectors said of them at their end.
	effects []chaospod.EffectAtEnd
}

func (a *Activities) newCleaning(ctx context.Context, in CleanInput) (*cleaning, error) {
	c := &cleaning{a: a, in: in, lost: map[types.UID]bool{}, unwanted: map[types.UID]string{}, operated: map[types.UID]string{}, taken: map[types.UID]string{}, tried: map[types.UID]string{}, neverInjected: map[types.UID]map[types.UID]string{}, unverified: map[string]bool{}}
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
// workflow, may have let chaos pods go: what it saw is lost.
func (c *cleaning) markAllUnverified(ctx context.Context) error {
	if !c.in.ResultLost && c.in.Shard.Number != AllShards && activity.GetInfo(ctx).Attempt == 1 {
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
		if c.in.Shard.Number != AllShards && c.in.Shard.Number != s.Number {
			continue
		}
		for _, node := range s.Nodes() {
			c.unverified[node] = true
		}
	}
	return nil
}

// round reads the chaos pods live, deletes those that are to go and lets go of
// those that are clean. It returns the ones that remain.
func (c *cleaning) round(ctx context.Context) ([]LeftPod, error) {
	c.cleaners, c.waiting, c.held = map[string]corev1.Pod{}, map[types.UID]*corev1.Pod{}, map[types.UID]bool{}
	var left []LeftPod
	var errs []error
	cleaners := map[string]bool{} // the names of those that the chaos pods have or may have
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
	if err := cmp.Or(err, firstOf(errs, "chaos pods are not cleaned")); err != nil {
		return nil, err
	}
	stale := c.deleteStaleCleaners(ctx, cleaners)
	cordoned, err := c.uncordon(ctx)
	return append(cordoned, left...), cmp.Or(stale, err)
}

// read reads the chaos pods live: those of a shard at once, with their cleaners, and all
// of them in pages, of which a cleaner may be on another: all cleaners are read first.
func (c *cleaning) read(ctx context.Context, take func([]corev1.Pod)) error {
	if c.in.Shard.Number != AllShards {
		pods, err := c.a.listChaosPods(ctx, c.in.Shard)
		if err == nil {
			take(pods)
		}
		return err
	}
	err := c.a.pageChaosPods(ctx, c.in.Shard.Disruption, true, func(cleaners []corev1.Pod) { c.splitCleaners(cleaners) })
	if err != nil {
		return err
	}
	return c.a.pageChaosPods(ctx, c.in.Shard.Disruption, false, take)
}

// advanceAll deletes those of the chaos pods that are to go, lets go of those that are
// clean, and returns those that remain.
func (c *cleaning) advanceAll(ctx context.Context, pods []corev1.Pod) (remaining []LeftPod, errs []error) {
	if c.in.OnlyEnded {
		ending, err := c.endingPods(ctx, pods)
		if err != nil {
			return nil, []error{err}
		}
		pods = ending
	}
	left, errs := make([]*LeftPod, len(pods)), make([]error, len(pods))
	advance := c.advance
	if c.deleteTogether(ctx, pods) {
		advance = func(_ context.Context, pod *corev1.Pod) (*LeftPod, error) { return beingDeleted(pod), nil }
	}
	var group errgroup.Group // without a context: one that fails stops no other (rule 48)
	group.SetLimit(c.a.Parallel)
	for i := range pods {
		group.Go(func() error {
			left[i], errs[i] = advance(ctx, &pods[i])
			return nil
		})
	}
	_ = group.Wait()
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

// firstOf is the first of the errors, and says how many there are and of what.
func firstOf(errs []error, of string) error {
	failed := slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(failed) < 2 {
		return errors.Join(failed...)
	}
	return fmt.Errorf("%d %s; the first: %w", len(failed), of, failed[0])
}

// endingPods keeps the pods that are to go though the disruption goes on
// (rules 37, 40).
func (c *cleaning) endingPods(ctx context.Context, pods []corev1.Pod) ([]corev1.Pod, error) {
	if err := c.findLost(ctx, pods); err != nil {
		return nil, err
	}
	if err := c.findTaken(ctx, pods); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(pods, func(pod corev1.Pod) bool {
		uid := chaospod.TargetUID(&pod)
		stays := goesOn(&pod) && !c.lost[uid] && c.unwanted[uid] == "" && c.operated[uid] == "" && c.taken[uid] == ""
		c.held[uid] = c.held[uid] || stays
		return stays
	}), nil
}

// result describes what is left and, while the disruption goes on, notes in
// the record which targets are no longer disrupted.
func (c *cleaning) result(ctx context.Context, left []LeftPod) (CleanResult, error) {
	slices.SortFunc(left, func(a, b LeftPod) int {
		return cmp.Or(cmp.Compare(rank(a.Outcome), rank(b.Outcome)), cmp.Compare(a.Pod, b.Pod))
	})
	cleaned := CleanResult{Remaining: len(left), Left: left[:min(len(left), maxLeft)], UnverifiedNodes: slices.Sorted(maps.Keys(c.unverified)), Effects: c.effects}
	if !c.in.OnlyEnded || c.d == nil || c.in.Shard.Number == AllShards {
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
