// Package orphan is the bridge's controller of workflows and chaos pods whose Disruption is
// gone although its workflow did not remove the finalizer. It ends them, always after a
// live read that did not find the Disruption.
package orphan

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/cached"
	"github.com/squall-chaos/squall/crdbridge/queue"
	"github.com/squall-chaos/squall/crdbridge/temporal"
	"github.com/squall-chaos/squall/workflows/start"
)

// repeatAfter is how long a workflow that was signalled to end is not signalled again.
const repeatAfter = 10 * time.Minute

// reconciler ends workflows whose Disruption is gone although no workflow removed its
// finalizer: a person did, or forced the end of its namespace. It notices the deletion of a
// Disruption. After a time in which no bridge ran, it notices the chaos pods that are left.
// The sweep handles records without a chaos pod.
type reconciler struct {
	cache          client.Reader
	live           client.Reader
	workflows      *temporal.Workflows
	chaosNamespace string

	mu sync.Mutex
	// ended is when a workflow was signalled to end, or started.
	ended map[types.UID]time.Time
}

// Setup adds the controller of orphans to m.
func Setup(m manager.Manager, workflows *temporal.Workflows, chaosNamespace string) error {
	r := &reconciler{
		cache: m.GetClient(), live: m.GetAPIReader(), workflows: workflows, chaosNamespace: chaosNamespace,
		ended: map[types.UID]time.Time{},
	}
	options := queue.Options[v1beta1.DisruptionRef]()
	options.MaxConcurrentReconciles = 1
	err := builder.TypedControllerManagedBy[v1beta1.DisruptionRef](m).
		Named("orphan").
		WithOptions(options).
		Watches(&v1beta1.Disruption{}, gone()).
		// The deletion of a chaos pod shows no orphan.
		Watches(&corev1.Pod{}, handler.TypedEnqueueRequestsFromMapFunc(r.orphaned), builder.WithPredicates(cached.OnUpdate(cached.PodChanged), predicate.Funcs{
			DeleteFunc: func(event.DeleteEvent) bool { return false },
		})).
		Complete(r)
	if err != nil {
		return fmt.Errorf("build the controller of orphans: %w", err)
	}
	return nil
}

// gone enqueues Disruptions that were deleted before they were over. If a watch was cut
// meanwhile and another Disruption has the name by now, that is an update from the one to
// the other.
func gone() handler.TypedEventHandler[client.Object, v1beta1.DisruptionRef] {
	type queue = workqueue.TypedRateLimitingInterface[v1beta1.DisruptionRef]
	went := func(o client.Object, q queue) {
		if d, ok := o.(*v1beta1.Disruption); ok && !d.Status.Phase.Over() {
			q.Add(d.Ref())
		}
	}
	return handler.TypedFuncs[client.Object, v1beta1.DisruptionRef]{
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { went(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
				went(e.ObjectOld, q)
			}
		},
	}
}

// orphaned is the disruption of a chaos pod, if the cache has no such object.
func (r *reconciler) orphaned(ctx context.Context, pod client.Object) []v1beta1.DisruptionRef {
	labels := pod.GetLabels()
	ref := v1beta1.DisruptionRef{
		Namespace: labels[v1beta1.LabelDisruptionNamespace], Name: labels[v1beta1.LabelDisruptionName],
		UID: types.UID(labels[v1beta1.LabelDisruptionUID]),
	}
	if ref.UID == "" || ref.Name == "" || pod.GetNamespace() != r.chaosNamespace {
		return nil
	}
	if len(cached.Find(ctx, r.cache, cached.Everyone, client.MatchingFields{cached.IndexDisruptionUID: string(ref.UID)})) > 0 {
		return nil
	}
	return []v1beta1.DisruptionRef{ref}
}

// Reconcile ends the workflow of a missing Disruption. The cache may lag behind, and an end
// cannot be undone. So Reconcile reads live, and signals the workflow only when the object
// is not there.
func (r *reconciler) Reconcile(ctx context.Context, ref v1beta1.DisruptionRef) (reconcile.Result, error) {
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("Disruption"))
	err := r.live.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, found)
	if err == nil && found.UID == ref.UID {
		return reconcile.Result{}, nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("look for disruption %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	if !r.due(ref.UID) {
		return reconcile.Result{}, nil
	}
	if err := r.end(ctx, ref); err != nil {
		return reconcile.Result{}, err
	}
	r.note(ref.UID)
	return reconcile.Result{}, nil
}

// end signals the workflow that its Disruption is gone. If none runs but chaos pods are
// left, it starts a workflow that only cleans up.
func (r *reconciler) end(ctx context.Context, ref v1beta1.DisruptionRef) error {
	err := r.workflows.End(ctx, ref, "")
	if !errors.Is(err, start.ErrNotRunning) {
		return err
	}
	var pods corev1.PodList
	err = r.cache.List(ctx, &pods, client.UnsafeDisableDeepCopy, client.InNamespace(r.chaosNamespace), client.MatchingFields{cached.IndexDisruptionUID: string(ref.UID)})
	if err != nil || len(pods.Items) == 0 {
		return err
	}
	err = r.workflows.StartCleaning(ctx, ref)
	if errors.Is(err, start.ErrCompleted) {
		return nil // these chaos pods are about to be deleted, or came late: the sweep finds them
	}
	return err
}

// due is false for a while after note: each of many chaos pods enqueues its disruption.
func (r *reconciler) due(uid types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.ended[uid]) >= repeatAfter
}

func (r *reconciler) note(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.ended, func(_ types.UID, at time.Time) bool { return time.Since(at) >= repeatAfter })
	r.ended[uid] = time.Now()
}
