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

// Two disruptions that start together never take the same target (rule 19). Each writes
// its choice into its records, which are the claims, and then reads all claims. A
// disruption that finds another claim on one of its targets gives that target up and
// chooses another. Both write before they read, so at least one of two finds the
// other's claim. If both give up the same target repeatedly, a random pause lets one of
// them claim it first.

// The same holds for budgets: a disruption that finds more claims than fit gives up its
// own claims, except those that fitted in an earlier read.

// Claims are all claims as they were read at one moment.
type Claims struct {
	// Own are the disruption's shards, in order.
	Own []Shard
	// Holders are the disruptions whose targets it must not choose.
	Holders Holders
	// held are all pods that other disruptions claim, if it respects budgets.
	held map[types.UID]bool
	// others are the shards of all other disruptions.
	others []Shard
	// Unread are records of other disruptions that cannot be read.
	Unread []Unread
}

// Unread is a record of targets that cannot be read.
type Unread struct {
	Owner  v1beta1.DisruptionRef
	Record string
	Why    error
	// Keeps names the disruptions that must not choose anything that the record's owner
	// may hold.
	Keeps string
}

// Claim chooses targets until it has as many as wanted, or until no more are free or
// fit into the budgets. It returns all claims. The choice defines which of its targets
// stand. Other targets are left from an attempt whose answer was lost; that attempt
// created nothing for them.
func (s *Store) Claim(ctx context.Context, d *v1beta1.Disruption, choice Choice, healthy []Candidate, budgets Budgets) (Claims, error) {
	sure := map[types.UID]bool{}
	// The first read may use the watch, if that is not older than the disruption's own
	// records and has enough targets.
	written, err := s.ownVersions(ctx, d, choice)
	if err != nil {
		return Claims{}, err
	}
	first, live := true, false
	for round := 0; ; {
		claims, err := s.claimed(ctx, d, healthy, written, live)
		if err != nil {
			return Claims{}, err
		}
		own := claims.Own
		stand, pending := choice.split(own)
		left := makeSure(sure, pending, stand, claims, budgets) // they were written before this read
		next, wanted := nextClaims(d.Spec, healthy, stand, pending, sure, claims.Holders, left)
		if first && !live && len(next) < wanted {
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
		written, err = s.writeClaims(ctx, d, own, len(pending) > 0, choice.layout(stand, next))
		switch {
		case err == nil:
			first, live = false, false
		case !live && (apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err)):
			live = true // the watch had not seen all that an earlier attempt wrote
		default:
			return Claims{}, err
		}
	}
}

// ownVersions returns the versions of the disruption's records. It reads live, because
// another worker may have written them last. There are none before the first choice.
func (s *Store) ownVersions(ctx context.Context, d *v1beta1.Disruption, choice Choice) (versions, error) {
	if choice.Known == 0 {
		return nil, nil
	}
	own, err := s.Shards(ctx, d.Ref())
	if err != nil {
		return nil, err
	}
	now := versions{}
	for _, shard := range own {
		now[shard.object.Name] = shard.Version()
	}
	return now, nil
}

// makeSure adds to sure the pending targets that no other disruption claims and that
// fit into the budgets, beside those that stand or are sure already. It returns the
// room that is left.
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

// claimed reads all claims, as they were after the versions in written; it reads live
// if asked to. It returns the disruption's own shards, in order, and every target that
// others claim and this disruption may not share. For a claim that cannot be read, it
// counts every candidate that the claim's owner may hold.
func (s *Store) claimed(ctx context.Context, d *v1beta1.Disruption, healthy []Candidate, written versions, live bool) (claims Claims, err error) {
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
		if shard.broken != nil && mine {
			return Claims{}, shard.broken
		}
		if shard.broken != nil {
			s.holdAll(ctx, d, healthy, shard, &claims)
			continue
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

// holdAll counts as held what the owner of an unreadable shard may hold: all pods of
// its namespace, or all nodes.
func (s *Store) holdAll(ctx context.Context, d *v1beta1.Disruption, healthy []Candidate, shard Shard, claims *Claims) {
	labels := shard.object.Labels
	owner := v1beta1.DisruptionRef{
		Namespace: labels[v1beta1.LabelDisruptionNamespace], Name: labels[v1beta1.LabelDisruptionName], UID: types.UID(labels[v1beta1.LabelDisruptionUID]),
	}
	pods, nodes := owner.Namespace == d.Namespace || owner.Namespace == "", true
	unread := Unread{Owner: owner, Record: shard.object.Name, Why: shard.broken, Keeps: "no disruption of namespace " + owner.Namespace + ", and none of level node,"}
	if spec, err := s.LoadSpec(ctx, owner); err == nil {
		unread.Owner, unread.Keeps = spec.Ref(), "no disruption of namespace "+owner.Namespace
		nodes = spec.Spec.Level == v1beta1.LevelNode
		if nodes {
			pods, unread.Keeps = false, "no disruption of level node"
		}
	}
	claims.Unread = append(claims.Unread, unread)
	if onNodes := d.Spec.Level == v1beta1.LevelNode; onNodes && !nodes || !onNodes && !pods {
		return
	}
	for _, c := range healthy {
		claims.held[c.Target.UID] = true
		claims.Holders[c.Target.UID] = holder(shard.object) + ", whose targets cannot be read"
	}
}

// tolerated reports whether the disruption may share its targets with the claim: it has
// allowDisruptedTargets, and the kinds stack.
func tolerated(spec v1beta1.DisruptionSpec, claim *corev1.ConfigMap) bool {
	return spec.AllowDisruptedTargets && len(spec.Kinds().Refuses(v1beta1.ParseKinds(claim.Annotations[annotationKinds]))) == 0
}

// holder names the disruption of a claim, and its faults, for texts that people read.
func holder(claim *corev1.ConfigMap) string {
	return fmt.Sprintf("%s/%s (%s)", claim.Labels[v1beta1.LabelDisruptionNamespace], claim.Labels[v1beta1.LabelDisruptionName],
		claim.Annotations[annotationKinds])
}

// writeClaims writes the parts into the own shards, and deletes the shards without a
// part. If targets may move, it writes one shard after the other: a target that moves
// to an earlier shard is then in one of the two at any time. Otherwise it writes
// several at once.
func (s *Store) writeClaims(ctx context.Context, d *v1beta1.Disruption, own []Shard, moves bool, parts []Shard) (versions, error) {
	before := map[int]Shard{}
	for _, shard := range own {
		before[shard.Number] = shard
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(s.Parallel)
	if moves {
		group.SetLimit(1)
	}
	records := make([]*corev1.ConfigMap, len(parts))
	for i, part := range parts {
		old, found := before[part.Number]
		delete(before, part.Number)
		if found && slices.Equal(uidsOf(old.Targets), uidsOf(part.Targets)) {
			records[i] = old.object
			continue
		}
		group.Go(func() (err error) {
			if found {
				part.object = old.object
				err = s.Write(groupCtx, &part)
				records[i] = part.object
				return err
			}
			records[i], err = s.createShard(groupCtx, d, part.Number, part.Targets)
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
	return written, s.withdraw(ctx, before, written)
}

// withdraw deletes shards without any claimed target.
func (s *Store) withdraw(ctx context.Context, shards map[int]Shard, written versions) error {
	for _, number := range slices.Sorted(maps.Keys(shards)) {
		name := shards[number].object.Name
		if err := s.Kube.CoreV1().ConfigMaps(s.Namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("withdraw claim %s: %w", name, err)
		}
		written[name] = ""
	}
	return nil
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
