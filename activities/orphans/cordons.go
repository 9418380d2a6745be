package orphans

import (
	"context"

	"go.temporal.io/sdk/activity"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/replacement"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// orphanedCordons returns the marks on a node whose disruptions have ended and have
// left nothing else.
func orphanedCordons(node *corev1.Node, all map[types.UID]*footprint) []v1beta1.DisruptionRef {
	var orphans []v1beta1.DisruptionRef
	for _, ref := range replacement.Marks(node) {
		if t := all[ref.UID]; t == nil || !t.live() {
			orphans = append(orphans, ref)
		}
	}
	return orphans
}

// sweepCordons removes orphaned cordons from the nodes of a page; the nodes need not be
// ready. A cordon that cannot be removed is left for the next sweep.
func (s *nodeSweep) sweepCordons(ctx context.Context, nodes []corev1.Node) error {
	cordoned := func(node *corev1.Node) bool { return len(replacement.Marks(node)) > 0 }
	for i := range nodes {
		node := &nodes[i]
		if !cordoned(node) {
			continue
		}
		if s.inventory == nil {
			var err error
			if s.inventory, err = s.a.inventory(ctx); err != nil { // read after the marks
				return err
			}
		}
		for _, ref := range orphanedCordons(node, s.inventory) {
			s.uncordon(ctx, node.Name, ref)
		}
	}
	return nil
}

func (s *nodeSweep) uncordon(ctx context.Context, node string, ref v1beta1.DisruptionRef) {
	orphan := Orphan{Disruption: describe(ref), Node: node, What: "cordon, annotation " + v1beta1.AnnotationCordon + string(ref.UID)}
	s.swept.Marks.Found++
	log := activity.GetLogger(ctx)
	if err := (replacement.Cordons{Kube: s.a.Kube}).Uncordon(ctx, node, ref.UID); err != nil {
		orphan.Why = err.Error()
		log.Error("orphan left", "node", orphan.Node, "disruption", orphan.Disruption, "what", orphan.What, "why", orphan.Why)
		s.swept.Marks.Left++
		s.swept.Left = append(s.swept.Left, orphan)
		return
	}
	log.Warn("orphan cleaned", "node", orphan.Node, "disruption", orphan.Disruption, "what", orphan.What)
	s.swept.Marks.Cleaned++
	s.swept.Cleaned = append(s.swept.Cleaned, orphan)
}
