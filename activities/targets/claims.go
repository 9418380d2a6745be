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
	// Unread are records of others that cannot be read.
	Unread []Unread
}

// Unread is a record of targets that cannot be read.
type Unread struct {
	Owner  v1beta1.DisruptionRef
	Record string
	Why    error
	// Keeps says which disruptions must leave alone all that its owner may have.
	Keeps string
}

// Claim chooses targets until there are as many as wanted, or no more are
// free or fit into the budgets, and returns all claims. The choice says which
// of its targets stand. Others are left from an attempt whose answer was lost;
// nothing was created for them.
func (s *Store) Claim(ctx context.Context, d *v1beta1.Disruption, choice Choice, healthy []Candidate, budgets Budgets) (Claims, error) {
	sure := map[types.UID]bool{}
	// The first look may be at what the watch has seen so far, if it finds enough, and
	// if that is not older than the disruption's own records.
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

// ownVersions are those of the disruption's records, read live: another worker may have
// written them last. None are there before the first choice.
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
// that others claim and this one must leave alone. Of a claim that cannot be read it
// counts all candidates that its owner may have.
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

// holdAll counts as held what the owner of a shard that cannot be read may hold: all pods
// of its namespace, or all nodes.
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

// writeClaims makes the own shards hold what the parts say, and deletes those that no part
// is for. They are written in order, so that a target that moves to an earlier shard is in
// either at any time; when none can move, all at once.
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

// withdraw deletes shards in which no target is claimed any more.
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
