package disruption

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/cached"
)

// freed counts how often Disruptions freed targets, for those that wait for targets. The
// bridge informs their workflows when the count changes. A bridge that starts counts from 0
// and informs every Disruption that waits anyway.
type freed struct {
	mu sync.Mutex
	// in has a count for each namespace, and one under "" for nodes; all has the sum.
	in  map[string]int
	all int
}

// pool is where d finds its targets: a namespace, or "" for nodes.
func pool(d *v1beta1.Disruption) string {
	if d.Spec.Level == v1beta1.LevelNode {
		return ""
	}
	return d.Namespace
}

func (f *freed) add(d *v1beta1.Disruption) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.in == nil {
		f.in = map[string]int{}
	}
	f.in[pool(d)]++
	f.all++
}

// count is how often targets were freed that d could choose. everywhere counts all
// namespaces: policies count the targets of every namespace.
func (f *freed) count(d *v1beta1.Disruption, everywhere bool) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if everywhere {
		return f.all
	}
	return f.in[pool(d)]
}

// freedChanges is the count of freed targets, for a Disruption that would choose more
// targets; nil for any other.
func freedChanges(s snapshot) []string {
	if !wantsTargets(s.disruption) {
		return nil
	}
	return []string{fmt.Sprintf("targets freed %d times", s.freed)}
}

// waitsForTargets is true for a Disruption whose workflow acts when more targets may be
// free.
func waitsForTargets(d *v1beta1.Disruption) bool { return wantsObservations(d) && wantsTargets(d) }

// frees is true for an update by which a Disruption frees targets: it holds fewer, or its
// finalizer is removed. Its claims are deleted before that.
func frees(before, after *v1beta1.Disruption) bool {
	held := func(d *v1beta1.Disruption) bool { return slices.Contains(d.Finalizers, v1beta1.DisruptionFinalizer) }
	return held(before) && !held(after) || after.Status.SelectedTargetsCount < before.Status.SelectedTargetsCount
}

// freedBy enqueues the Disruptions that wait for targets when another one frees some.
func (r *reconciler) freedBy() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	wake := func(ctx context.Context, d *v1beta1.Disruption, q queue) {
		r.freed.add(d)
		for _, request := range r.waiting(ctx, d) {
			q.Add(request)
		}
	}
	return handler.Funcs{
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			before, ok := e.ObjectOld.(*v1beta1.Disruption)
			after, found := e.ObjectNew.(*v1beta1.Disruption)
			if ok && found && frees(before, after) {
				wake(ctx, after, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			// A finished Disruption freed its targets when its finalizer was removed.
			if d, ok := e.Object.(*v1beta1.Disruption); ok && (d.DeletionTimestamp != nil || !d.Settled()) {
				wake(ctx, d, q)
			}
		},
	}
}

// waiting are the Disruptions that could choose what d freed.
func (r *reconciler) waiting(ctx context.Context, d *v1beta1.Disruption) []reconcile.Request {
	var policies v1beta1.DisruptionPolicyList
	if err := r.client.List(ctx, &policies, client.UnsafeDisableDeepCopy); err != nil || len(policies.Items) > 0 {
		return r.ofBothLevels(ctx, waitsForTargets)
	}
	if namespace := pool(d); namespace != "" {
		return cached.Find(ctx, r.client, waitsForTargets, client.InNamespace(namespace), client.MatchingFields{cached.IndexLevel: string(v1beta1.LevelPod)})
	}
	return cached.Find(ctx, r.client, waitsForTargets, client.MatchingFields{cached.IndexLevel: string(v1beta1.LevelNode)})
}
