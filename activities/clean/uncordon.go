package clean

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/replacement"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// uncordon removes the disruption's cordons. A cordon that may not be removed does not stop
// the others: it is returned like a chaos pod that failed to clean up.
func (c *cleaning) uncordon(ctx context.Context) ([]chaospod.LeftPod, error) {
	if !replacement.MayCordon(c.d) || c.in.Shard.Number > 0 { // the first shard removes the cordons of all
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
