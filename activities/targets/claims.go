package targets

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

// The same goes for what budgets allow: whoever sees more claims than fit gives
// up those of its own that it has not seen fit before.

// Claims are all claims as they were read at one moment.
type Claims struct {
	// Own are the disruption's shards, in order.
	Own []Shard
	// Holders are those whose targets it must leave alone.
	Holders Holders
	// held are all pods that other disruptions claim, if it respects budgets.
	held map[types.UID]bool
	// others are the shards of all other disruptions.
	others []Shard
}

// Claim chooses targets until there are as many as wanted, or no more are
// free or fit into the budgets, and returns all claims. The
// first known of the shards stand. Others are new or left from an attempt whose
// answer was lost; nothing was created for them.
func (s *Store) Claim(ctx context.Context, d *v1beta1.Disruption, known int, healthy []Candidate, budgets Budgets) (Claims, error) {
	sure := map[types.UID]bool{}
	var written versions
	// The first look may be at what the watch has seen so far, if it finds enough.
	live := known > 0
	for round := 0; ; {
		claims, err := s.claimed(ctx, d, written, live)
		if err != nil {
			return Claims{}, err
		}
		own := claims.Own
		stand := min(known, len(own))
		pending := targetsOf(own[stand:])
		left := makeSure(sure, pending, own[:stand], claims, budgets) // they were written before this read
		next, wanted := nextClaims(d.Spec, healthy, own[:stand], pending, sure, claims.Holders, left)
		if written == nil && !live && len(next) < wanted {
			live = true
			continue
		}
		if slices.Equal(uidsOf(next), uidsOf(pending)) {
			return claims, nil
		}
		if round++; round > 2 {
			select {
			case <-ctx.Done():
				return Claims{}, ctx.Err()
			case <-time.After(time.Duration(20+rand.IntN(200)) * time.Millisecond):
			}
		}
		written, err = s.writeClaims(ctx, d, known, own, next)
		switch {
		case err == nil:
			live = false
		case !live && (apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err)):
			live = true // the watch had not seen all that an earlier attempt wrote
		default:
			return Claims{}, err
		}
	}
}

// makeSure adds to sure the pending targets that nobody else claims and that fit into
// the budgets, beside those that stand and those that are sure already. It returns
// what is left of the budgets.
func makeSure(sure map[types.UID]bool, pending []Target, stand []Shard, claims Claims, budgets Budgets) *room {
	left := budgets.at(claims).without(claims.held)
	for _, target := range Active(stand) {
		left.count(target.UID)
	}
	for _, target := range pending {
		if sure[target.UID] {
			left.count(target.UID)
		}
	}
	for _, target := range pending {
		sure[target.UID] = sure[target.UID] || claims.Holders[target.UID] == "" && left.take(target.UID)
	}
	return left
}

// claimed reads all claims, as they were after what was written, and live if
// that is asked for: the disruption's own shards, in order, and every target
// that others claim and this one must leave alone.
func (s *Store) claimed(ctx context.Context, d *v1beta1.Disruption, written versions, live bool) (claims Claims, err error) {
	var all []Shard
	seen := false
	if !live {
		all, seen = s.Watch.after(ctx, written)
	}
	if !seen {
		if all, err = s.listShards(ctx, labels.Set{labelRecord: recordTargets}); err != nil {
			return Claims{}, fmt.Errorf("list the claims of all disruptions: %w", err)
		}
	}
	claims.Holders, claims.held = Holders{}, map[types.UID]bool{}
	for _, shard := range all {
		mine := shard.object.Labels[v1beta1.LabelDisruptionUID] == string(d.UID)
		shares := !mine && tolerated(d.Spec, shard.object)
		if !mine {
			claims.others = append(claims.others, shard)
		}
		if shares && !d.Spec.RespectsBudgets() {
			continue
		}
		if shard.broken != nil {
			return Claims{}, shard.broken
		}
		if mine {
			shard.Targets = slices.Clone(shard.Targets)
			claims.Own = append(claims.Own, shard)
			continue
		}
		for _, target := range shard.Targets {
			if !target.Active() {
				continue
			}
			claims.held[target.UID] = true
			if !shares {
				claims.Holders[target.UID] = holder(shard.object)
			}
		}
	}
	sortShards(claims.Own)
	return claims, nil
}

// tolerated is true when the disruption may share its targets with the claim:
// allowDisruptedTargets, and kinds that stack.
func tolerated(spec v1beta1.DisruptionSpec, claim *corev1.ConfigMap) bool {
	return spec.AllowDisruptedTargets && len(spec.Kinds().Refuses(v1beta1.ParseKinds(claim.Annotations[annotationKinds]))) == 0
}

// holder names the disruption of a claim, and what it does, for people.
func holder(claim *corev1.ConfigMap) string {
	return fmt.Sprintf("%s/%s (%s)", claim.Labels[v1beta1.LabelDisruptionNamespace], claim.Labels[v1beta1.LabelDisruptionName],
		claim.Annotations[annotationKinds])
}

// writeClaims makes the shards from number first on hold these targets. They
// are written in order, so that one that moves to an earlier shard is in either
// at any time; the first ones, of which none can move, all at once.
func (s *Store) writeClaims(ctx context.Context, d *v1beta1.Disruption, first int, own []Shard, targets []Target) (versions, error) {
	before := map[int]Shard{}
	for _, shard := range own {
		before[shard.Number] = shard
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(1)
	if len(own) <= first {
		group.SetLimit(s.Parallel)
	}
	parts := slices.Collect(slices.Chunk(targets, shardSize))
	records := make([]*corev1.ConfigMap, len(parts))
	for i, part := range parts {
		number := first + i
		old, found := before[number]
		delete(before, number)
		if found && slices.Equal(uidsOf(old.Targets), uidsOf(part)) {
			records[i] = old.object
			continue
		}
		group.Go(func() (err error) {
			if found {
				old.Targets = part
				err = s.Write(groupCtx, &old)
				records[i] = old.object
				return err
			}
			records[i], err = s.createShard(groupCtx, d, number, part)
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
		if err := s.Kube.CoreV1().ConfigMaps(s.Namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("withdraw claim %s: %w", name, err)
		}
		written[name] = ""
	}
	return written, nil
}

func (s *Store) createShard(ctx context.Context, d *v1beta1.Disruption, number int, targets []Target) (*corev1.ConfigMap, error) {
	object, err := newShard(d.Ref(), number, d.Spec.Kinds().String(), targets)
	if err != nil {
		return nil, err
	}
	written, err := s.Kube.CoreV1().ConfigMaps(s.Namespace).Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("claim %d targets for disruption %s/%s: %w", len(targets), d.Namespace, d.Name, err)
	}
	return written, nil
}
