package activities

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// How two disruptions that start together never take the same target
// (acceptance 19): each writes its choice into its records, which are the
// claims, and then reads all claims. Whoever sees another claim on a target of
// its own gives that one up and chooses another. At least one of two sees the
// other, since both write before they read; so a target is never held twice.
// When both give up the same again and again, a random pause lets one go first.

// claim chooses targets until there are as many as wanted, or no more are
// free, and returns all shards. The first known of them stand. Others are new
// or left from an attempt whose answer was lost; nothing was created for them.
func (a *Activities) claim(ctx context.Context, d *v1beta1.Disruption, known int, healthy []candidate) ([]shard, error) {
	sure := map[types.UID]bool{}
	for round := 0; ; round++ {
		own, busy, err := a.claimed(ctx, d)
		if err != nil {
			return nil, err
		}
		count, chosen := tally(d.Spec, healthy, own[:min(known, len(own))])
		pending := targetsOf(own[min(known, len(own)):])
		for _, target := range pending {
			chosen[target.UID] = true
			sure[target.UID] = sure[target.UID] || !busy[target.UID] // it was written before this read
		}
		free := slices.DeleteFunc(slices.Clone(healthy), func(c candidate) bool { return chosen[c.target.UID] || busy[c.target.UID] })
		next := topUp(pending, sure, count.Desired-count.Selected, free)
		if slices.Equal(uidsOf(next), uidsOf(pending)) {
			return own, nil
		}
		if round > 1 {
			if err := pause(ctx, time.Duration(20+rand.IntN(200))*time.Millisecond); err != nil {
				return nil, err
			}
		}
		if err := a.writeClaims(ctx, d, known, own, next); err != nil {
			return nil, err
		}
	}
}

// topUp puts a free target in the place of each that is not sure, and adds more
// while there are fewer than wanted. When none is free any more, the last ones
// move into the gaps: none that stays ever moves to a later place.
func topUp(pending []Target, sure map[types.UID]bool, wanted int, free []candidate) []Target {
	gaps := 0
	for _, target := range pending {
		if !sure[target.UID] {
			gaps++
		}
	}
	fresh := choose(free, wanted-(len(pending)-gaps))
	next := slices.Clone(pending)
	for i := 0; i < len(next); i++ {
		if sure[next[i].UID] {
			continue
		}
		if len(fresh) > 0 {
			next[i], fresh = fresh[0], fresh[1:]
			continue
		}
		next[i] = next[len(next)-1]
		next = next[:len(next)-1]
		i--
	}
	return append(next, fresh...)
}

// claimed reads all claims: the disruption's own shards, in order, and every
// target that others claim and this one must leave alone.
func (a *Activities) claimed(ctx context.Context, d *v1beta1.Disruption) (own []shard, busy map[types.UID]bool, err error) {
	selector := labels.Set{labelRecord: recordTargets}
	list, err := a.Kube.CoreV1().ConfigMaps(a.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return nil, nil, fmt.Errorf("list the claims of all disruptions: %w", err)
	}
	busy = map[types.UID]bool{}
	for i := range list.Items {
		object := &list.Items[i]
		mine := object.Labels[v1beta1.LabelDisruptionUID] == string(d.UID)
		if !mine && tolerated(d.Spec, object) {
			continue
		}
		read, err := readShard(object)
		if err != nil {
			return nil, nil, err
		}
		if mine {
			own = append(own, read)
			continue
		}
		for _, target := range read.targets {
			if target.Released == "" {
				busy[target.UID] = true
			}
		}
	}
	sortShards(own)
	return own, busy, nil
}

// tolerated is true when the disruption may share its targets with the claim:
// allowDisruptedTargets, and no kind in common.
func tolerated(spec v1beta1.DisruptionSpec, claim *corev1.ConfigMap) bool {
	if !spec.AllowDisruptedTargets {
		return false
	}
	theirs := "," + claim.Annotations[annotationKind] + ","
	for _, fault := range spec.Requested() {
		if strings.Contains(theirs, ","+string(fault.Kind)+",") {
			return false
		}
	}
	return true
}

// writeClaims makes the shards from number first on hold these targets. They
// are written in order, so that one that moves to an earlier shard is in either
// at any time; the first ones, of which none can move, all at once.
func (a *Activities) writeClaims(ctx context.Context, d *v1beta1.Disruption, first int, own []shard, targets []Target) error {
	written := map[int]shard{}
	for _, s := range own {
		written[s.number] = s
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(1)
	if len(own) <= first {
		group.SetLimit(a.Parallel)
	}
	number := first
	for part := range slices.Chunk(targets, shardSize) {
		at := number
		before, found := written[at]
		number++
		if found && slices.Equal(uidsOf(before.targets), uidsOf(part)) {
			continue
		}
		group.Go(func() error {
			if found {
				before.targets = part
				return a.rewrite(groupCtx, &before)
			}
			return a.createShard(groupCtx, d, at, part)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, last := range slices.Sorted(maps.Keys(written)) {
		if last < number {
			continue
		}
		name := written[last].object.Name
		if err := a.Kube.CoreV1().ConfigMaps(a.Namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("withdraw claim %s: %w", name, err)
		}
	}
	return nil
}

func (a *Activities) createShard(ctx context.Context, d *v1beta1.Disruption, number int, targets []Target) error {
	object, err := newShard(refOf(d), number, kindNames(kindsOf(d.Spec)), targets)
	if err != nil {
		return err
	}
	if _, err := a.Kube.CoreV1().ConfigMaps(a.Namespace).Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("claim %d targets for disruption %s/%s: %w", len(targets), d.Namespace, d.Name, err)
	}
	return nil
}

func targetsOf(shards []shard) (all []Target) {
	for _, s := range shards {
		all = append(all, s.targets...)
	}
	return all
}

func uidsOf(targets []Target) []types.UID {
	uids := make([]types.UID, len(targets))
	for i, target := range targets {
		uids[i] = target.UID
	}
	return uids
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
