package activities

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/replacement"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// mayCordon is true for a disruption that the worker carries out, and for one whose record
// is lost.
func mayCordon(d *v1beta1.Disruption) bool {
	return d == nil || d.Spec.Kinds().By() == v1beta1.ByWorker
}

// uncordon removes the disruption's cordons. A cordon that may not be removed does not stop
// the others: it is returned like a chaos pod that failed to clean up.
func (c *cleaning) uncordon(ctx context.Context) ([]chaospod.LeftPod, error) {
	if !mayCordon(c.d) || c.in.Shard.Number > 0 { // the first shard removes the cordons of all
		return nil, nil
	}
	ref := c.in.Shard.Disruption
	nodes, err := replacement.Cordons{Kube: c.a.Kube}.Of(ctx, ref.UID)
	if err != nil {
		return nil, err
	}
	var left []chaospod.LeftPod
	for _, node := range nodes {
		name := "cordon-of-" + node
		if slices.Contains(c.in.Release, name) || c.in.ReleaseUntil != nil {
			c.unverified[node] = true
			continue
		}
		switch err := (replacement.Cordons{Kube: c.a.Kube}).Uncordon(ctx, node, ref.UID); {
		case apierrors.IsForbidden(err):
			left = append(left, chaospod.LeftPod{
				Pod: name, Node: node, Target: node, Kind: v1beta1.KindPodReplacement, Outcome: chaospod.Failed, Why: err.Error(),
			})
		case err != nil:
			return nil, err
		}
	}
	return left, nil
}

// cordonsLeft counts the nodes that the disruption has left cordoned. It ignores cordons
// that a person force-released.
func (a *Activities) cordonsLeft(ctx context.Context, e status.FinishInput) (int, error) {
	if e.Rejected || e.ReleasedPods > 0 {
		return 0, nil
	}
	d, err := a.Targets.LoadSpec(ctx, e.Disruption)
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, err
	}
	if !mayCordon(d) {
		return 0, nil
	}
	nodes, err := replacement.Cordons{Kube: a.Kube}.Of(ctx, e.Disruption.UID)
	return len(nodes), err
}
