package activities

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// How two disruptions that start together never take the same target
// (acceptance 19): each writes its choice as a pending claim and then reads
// all claims. Whoever sees another claim on a target of its own withdraws and
// chooses again. At least one of two sees the other, since both write before
// they read; so a target is never held twice. When both withdraw, a random
// pause lets one go first.

// ownClaims returns the disruption's held shards. A pending one is left from
// an attempt that crashed half-way: it is withdrawn.
func (a *Activities) ownClaims(ctx context.Context, ref Ref) ([]shard, error) {
	shards, err := a.shards(ctx, ref)
	if err != nil {
		return nil, err
	}
	held := shards[:0]
	for _, s := range shards {
		if s.object.Labels[labelClaim] == claimHeld {
			held = append(held, s)
			continue
		}
		if err := a.withdraw(ctx, []shard{s}); err != nil {
			return nil, err
		}
	}
	return held, nil
}

// claim chooses at most n of the candidates that are free and holds them in
// new shards, numbered from first on.
func (a *Activities) claim(ctx context.Context, d *v1beta1.Disruption, first, n int, free func(busy map[types.UID]bool) []candidate) ([]shard, error) {
	for n > 0 {
		busy, err := a.claimed(ctx, d)
		if err != nil {
			return nil, err
		}
		chosen := choose(free(busy), n)
		if len(chosen) == 0 {
			return nil, nil
		}
		pending, err := a.writeClaims(ctx, d, first, chosen)
		if err != nil {
			return nil, err
		}
		busy, err = a.claimed(ctx, d)
		if err != nil {
			return nil, err
		}
		if !contested(pending, busy) {
			return a.hold(ctx, pending)
		}
		if err := a.withdraw(ctx, pending); err != nil {
			return nil, err
		}
		if err := pause(ctx, time.Duration(20+rand.IntN(200))*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// claimed has every target that another disruption claims and this one must
// leave alone.
func (a *Activities) claimed(ctx context.Context, d *v1beta1.Disruption) (map[types.UID]bool, error) {
	selector := labels.Set{labelRecord: recordTargets}
	list, err := a.Kube.CoreV1().ConfigMaps(a.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return nil, fmt.Errorf("list the claims of all disruptions: %w", err)
	}
	busy := map[types.UID]bool{}
	for i := range list.Items {
		object := &list.Items[i]
		if object.Labels[v1beta1.LabelDisruptionUID] == string(d.UID) || tolerated(d.Spec, object) {
			continue
		}
		other, err := readShard(object)
		if err != nil {
			return nil, err
		}
		for _, target := range other.targets {
			if target.Released == "" {
				busy[target.UID] = true
			}
		}
	}
	return busy, nil
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

func contested(pending []shard, busy map[types.UID]bool) bool {
	for _, s := range pending {
		for _, target := range s.targets {
			if busy[target.UID] {
				return true
			}
		}
	}
	return false
}

func (a *Activities) writeClaims(ctx context.Context, d *v1beta1.Disruption, first int, chosen []Target) ([]shard, error) {
	var kinds []v1beta1.Kind
	for _, fault := range d.Spec.Requested() {
		kinds = append(kinds, fault.Kind)
	}
	var written []shard
	for start := 0; start < len(chosen); start += shardSize {
		targets := chosen[start:min(start+shardSize, len(chosen))]
		object, err := newShard(refOf(d), first+len(written), kindNames(kinds), targets)
		if err != nil {
			return nil, err
		}
		object, err = a.Kube.CoreV1().ConfigMaps(a.Namespace).Create(ctx, object, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("claim %d targets for disruption %s/%s: %w", len(targets), d.Namespace, d.Name, err)
		}
		written = append(written, shard{number: first + len(written), targets: targets, object: object})
	}
	return written, nil
}

func (a *Activities) hold(ctx context.Context, pending []shard) ([]shard, error) {
	for i := range pending {
		pending[i].object.Labels[labelClaim] = claimHeld
		if err := a.rewrite(ctx, &pending[i]); err != nil {
			return nil, err
		}
	}
	return pending, nil
}

func (a *Activities) withdraw(ctx context.Context, pending []shard) error {
	for _, s := range pending {
		err := a.Kube.CoreV1().ConfigMaps(a.Namespace).Delete(ctx, s.object.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("withdraw claim %s: %w", s.object.Name, err)
		}
	}
	return nil
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
