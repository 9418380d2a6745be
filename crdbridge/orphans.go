package main

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
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/start"
)

// orphans brings the end to workflows whose Disruption is gone though nobody
// let it go: its finalizer was taken off by hand, or its namespace by force. It
// learns of it when the Disruption goes and, after a time in which no bridge
// ran, from the chaos pods it left. Records alone are left to the sweep.
type orphans struct {
	*reconciler
	live client.Reader // not the cache

	mu sync.Mutex
	// ended is when a workflow was told to end, or started.
	ended map[types.UID]time.Time
}

// watchOrphans lets r's orphans be found.
func watchOrphans(m manager.Manager, r *reconciler) error {
	o := &orphans{reconciler: r, live: m.GetAPIReader(), ended: map[types.UID]time.Time{}}
	never := func(event.UpdateEvent) bool { return false }
	gone := handler.TypedFuncs[client.Object, v1beta1.DisruptionRef]{
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[v1beta1.DisruptionRef]) {
			if d, ok := e.Object.(*v1beta1.Disruption); ok && !letGo(d) {
				q.Add(d.Ref())
			}
		},
	}
	err := builder.TypedControllerManagedBy[v1beta1.DisruptionRef](m).
		Named("orphan").
		WithOptions(controller.TypedOptions[v1beta1.DisruptionRef]{
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[v1beta1.DisruptionRef](firstRetry, lastRetry),
		}).
		Watches(&v1beta1.Disruption{}, gone, builder.WithPredicates(predicate.Funcs{UpdateFunc: never})).
		// A chaos pod that goes is no news of an orphan.
		Watches(&corev1.Pod{}, handler.TypedEnqueueRequestsFromMapFunc(o.orphaned), builder.WithPredicates(onUpdate(podChanged), predicate.Funcs{
			DeleteFunc: func(event.DeleteEvent) bool { return false },
		})).
		Complete(o)
	if err != nil {
		return fmt.Errorf("build the controller of orphans: %w", err)
	}
	return nil
}

// letGo is true for a Disruption whose workflow let it go: it says so in status
// before it takes the finalizer off.
func letGo(d *v1beta1.Disruption) bool {
	return d.Status.Phase == v1beta1.PhaseFinished || d.Status.Phase == v1beta1.PhaseRejected
}

// orphaned is the disruption of a chaos pod, if the cache has no such object.
func (o *orphans) orphaned(ctx context.Context, pod client.Object) []v1beta1.DisruptionRef {
	labels := pod.GetLabels()
	ref := v1beta1.DisruptionRef{
		Namespace: labels[v1beta1.LabelDisruptionNamespace], Name: labels[v1beta1.LabelDisruptionName],
		UID: types.UID(labels[v1beta1.LabelDisruptionUID]),
	}
	if ref.UID == "" || ref.Name == "" || pod.GetNamespace() != o.chaosNamespace {
		return nil
	}
	if len(o.find(ctx, everyone, client.MatchingFields{indexDisruptionUID: string(ref.UID)})) > 0 {
		return nil
	}
	return []v1beta1.DisruptionRef{ref}
}

// Reconcile ends what goes on without its Disruption. The cache may lag behind,
// and this cannot be taken back: so the object is looked for live, and Temporal
// is told only when it is not there.
func (o *orphans) Reconcile(ctx context.Context, ref v1beta1.DisruptionRef) (reconcile.Result, error) {
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("Disruption"))
	err := o.live.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, found)
	if err == nil && found.UID == ref.UID {
		return reconcile.Result{}, nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("look for disruption %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	if !o.due(ref.UID) {
		return reconcile.Result{}, nil
	}
	if err := o.end(ctx, ref); err != nil {
		return reconcile.Result{}, err
	}
	o.note(ref.UID)
	return reconcile.Result{}, nil
}

// end tells the workflow that its Disruption is gone. Where none runs but chaos
// pods are left, one is started, which will only clean.
func (o *orphans) end(ctx context.Context, ref v1beta1.DisruptionRef) error {
	err := o.workflows.end(ctx, ref, "")
	if !errors.Is(err, start.ErrNotRunning) {
		return err
	}
	var pods corev1.PodList
	err = o.client.List(ctx, &pods, client.UnsafeDisableDeepCopy, client.InNamespace(o.chaosNamespace), client.MatchingFields{indexDisruptionUID: string(ref.UID)})
	if err != nil || len(pods.Items) == 0 {
		return err
	}
	err = o.workflows.startCleaning(ctx, ref)
	if errors.Is(err, start.ErrCompleted) {
		return nil // these chaos pods are about to go, or came late: the sweep finds them
	}
	return err
}

// due is false for a while after note: each of many chaos pods brings us here.
func (o *orphans) due(uid types.UID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return time.Since(o.ended[uid]) >= recheck
}

func (o *orphans) note(uid types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.ended, func(_ types.UID, at time.Time) bool { return time.Since(at) >= recheck })
	o.ended[uid] = time.Now()
}
