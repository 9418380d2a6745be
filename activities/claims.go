package activities

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
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
// (rule 19): each writes its choice into its records, which are the
// claims, and then reads all claims. Whoever sees another claim on a target of
// its own gives that one up and chooses another. At least one of two sees the
// other, since both write before they read; so a target is never held twice.
// When both give up the same again and again, a random pause lets one go first.

// claim chooses targets until there are as many as wanted, or no more are
// free, and returns all shards. The first known of them stand. Others are new
// or left from an attempt whose answer was lost; nothing was created for them.
func (a *Activities) claim(ctx context.Context, d *v1beta1.Disruption, known int, healthy []candidate) ([]shard, error) {
	sure := map[types.UID]bool{}
	var written versions
	// The first look may be at what the watch has seen so far, if it finds enough.
	live := known > 0
	for round := 0; ; {
		own, busy, err := a.claimed(ctx, d, written, live)
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
		wanted := count.Desired - count.Selected
		next := topUp(pending, sure, wanted, free)
		if written == nil && !live && len(next) < wanted {
			live = true
			continue
		}
		if slices.Equal(uidsOf(next), uidsOf(pending)) {
			return own, nil
		}
		if round++; round > 2 {
			if err := pause(ctx, time.Duration(20+rand.IntN(200))*time.Millisecond); err != nil {
				return nil, err
			}
		}
		written, err = a.writeClaims(ctx, d, known, own, next)
		switch {
		case err == nil:
			live = false
		case !live && (apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err)):
			live = true // the watch had not seen all that an earlier attempt wrote
		default:
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

// claimed reads all claims, as they were after what was written, and live if
// that is asked for: the disruption's own shards, in order, and every target
// that others claim and this one must leave alone.
func (a *Activities) claimed(ctx context.Context, d *v1beta1.Disruption, written versions, live bool) (own []shard, busy map[types.UID]bool, err error) {
	var all []shard
	seen := false
	if !live {
		all, seen = a.Records.after(ctx, written)
	}
	if !seen {
		if all, err = a.listShards(ctx, labels.Set{labelRecord: recordTargets}); err != nil {
			return nil, nil, fmt.Errorf("list the claims of all disruptions: %w", err)
		}
	}
	busy = map[types.UID]bool{}
	for _, s := range all {
		mine := s.object.Labels[v1beta1.LabelDisruptionUID] == string(d.UID)
		if !mine && tolerated(d.Spec, s.object) {
			continue
		}
		if s.broken != nil {
			return nil, nil, s.broken
		}
		if mine {
			s.targets = slices.Clone(s.targets)
			own = append(own, s)
			continue
		}
		for _, target := range s.targets {
			if target.Ended == "" {
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
	theirs := v1beta1.ParseKinds(claim.Annotations[annotationKind])
	return !slices.ContainsFunc(spec.Kinds(), func(kind v1beta1.Kind) bool { return slices.Contains(theirs, kind) })
}

// writeClaims makes the shards from number first on hold these targets. They
// are written in order, so that one that moves to an earlier shard is in either
// at any time; the first ones, of which none can move, all at once.
func (a *Activities) writeClaims(ctx context.Context, d *v1beta1.Disruption, first int, own []shard, targets []Target) (versions, error) {
	before := map[int]shard{}
	for _, s := range own {
		before[s.number] = s
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(1)
	if len(own) <= first {
		group.SetLimit(a.Parallel)
	}
	parts := slices.Collect(slices.Chunk(targets, shardSize))
	records := make([]*corev1.ConfigMap, len(parts))
	for i, part := range parts {
		number := first + i
		old, found := before[number]
		delete(before, number)
		if found && slices.Equal(uidsOf(old.targets), uidsOf(part)) {
			records[i] = old.object
			continue
		}
		group.Go(func() (err error) {
			if found {
				old.targets = part
				err = a.rewrite(groupCtx, &old)
				records[i] = old.object
				return err
			}
			records[i], err = a.createShard(groupCtx, d, number, part)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	written := versions{}
	for _, record := range records {
		written[record.Name] = record.ResourceVersion
	}
	for _, number := range slices.Sorted(maps.Keys(before)) {
		if number < first {
			continue
		}
		name := before[number].object.Name
		if err := a.Kube.CoreV1().ConfigMaps(a.Namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("withdraw claim %s: %w", name, err)
		}
		written[name] = ""
	}
	return written, nil
}

func (a *Activities) createShard(ctx context.Context, d *v1beta1.Disruption, number int, targets []Target) (*corev1.ConfigMap, error) {
	object, err := newShard(d.Ref(), number, d.Spec.Kinds().String(), targets)
	if err != nil {
		return nil, err
	}
	written, err := a.Kube.CoreV1().ConfigMaps(a.Namespace).Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("claim %d targets for disruption %s/%s: %w", len(targets), d.Namespace, d.Name, err)
	}
	return written, nil
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
