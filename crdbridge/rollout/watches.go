package rollout

import (
	"context"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/internal/informers"
	"github.com/squall-chaos/squall/kube"
)

// watches has one watch for each workload that a rollout names. It keeps only the hashes of
// the containers. It is safe for concurrent use.
type watches struct {
	client kubernetes.Interface
	// changed has an event for a rollout whenever its workload is created or deleted, or
	// gets other containers.
	changed chan event.GenericEvent

	// Group ends the watches with the bridge.
	*informers.Group

	mu    sync.Mutex
	named map[types.NamespacedName]*watch // by rollout
}

// watch is that on the workload of one rollout.
type watch struct {
	target   v1beta1.TargetResource
	informer cache.SharedIndexInformer
	stop     context.CancelFunc
}

func newWatches(cluster *rest.Config) (*watches, error) {
	client, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		return nil, fmt.Errorf("watch workloads: %w", err)
	}
	return &watches{
		client: client, changed: make(chan event.GenericEvent, 100), Group: informers.NewGroup(), named: map[types.NamespacedName]*watch{},
	}, nil
}

// follow watches the workload of r and returns its release. listed is false before the API
// server has answered, and release is nil if there is no workload.
func (w *watches) follow(r *v1beta1.DisruptionRollout) (release *kube.Release, listed bool) {
	name := types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
	w.mu.Lock()
	defer w.mu.Unlock()
	watched := w.named[name]
	if watched == nil || watched.target != r.Spec.TargetResource {
		w.end(name)
		watched = w.begin(name, r.Spec.TargetResource)
		w.named[name] = watched
	}
	return watched.release(), watched.informer.HasSynced()
}

// forget ends the watch of a rollout that is gone.
func (w *watches) forget(rollout types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end(rollout)
}

// end ends a watch. The mutex is held.
func (w *watches) end(rollout types.NamespacedName) {
	if watched := w.named[rollout]; watched != nil {
		watched.stop()
		delete(w.named, rollout)
	}
}

func (w *watches) begin(rollout types.NamespacedName, target v1beta1.TargetResource) *watch {
	ctx, stop := w.Context()
	resource, object := "deployments", runtime.Object(&appsv1.Deployment{})
	if target.Kind == v1beta1.TargetStatefulSet {
		resource, object = "statefulsets", &appsv1.StatefulSet{}
	}
	one := fields.OneTermEqualSelector(metav1.ObjectNameField, target.Name)
	list := cache.NewListWatchFromClient(w.client.AppsV1().RESTClient(), resource, rollout.Namespace, one)
	watched := &watch{target: target, stop: stop, informer: cache.NewSharedIndexInformer(kube.QuickReconnect(list), object, 0, cache.Indexers{})}
	enqueue := func() { w.enqueue(ctx, rollout) }
	// Both calls fail only for an informer that has begun or ended.
	_ = watched.informer.SetTransform(strip)
	_, _ = watched.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { enqueue() }, DeleteFunc: func(any) { enqueue() },
		UpdateFunc: func(before, after any) {
			if releaseOf(before) != releaseOf(after) {
				enqueue()
			}
		},
	})
	w.Run(ctx, enqueue, watched.informer) // enqueues also if the workload does not exist
	return watched
}

// enqueue makes the controller reconcile a rollout.
func (w *watches) enqueue(ctx context.Context, rollout types.NamespacedName) {
	r := &v1beta1.DisruptionRollout{ObjectMeta: metav1.ObjectMeta{Namespace: rollout.Namespace, Name: rollout.Name}}
	select {
	case w.changed <- event.GenericEvent{Object: r}:
	case <-ctx.Done():
	}
}

// release is the release of the workload, nil if there is none.
func (w *watch) release() *kube.Release {
	for _, object := range w.informer.GetStore().List() {
		release := releaseOf(object)
		return &release
	}
	return nil
}

// stripped is the part of a workload that the cache keeps.
type stripped struct {
	metav1.PartialObjectMetadata
	release kube.Release
}

// DeepCopyObject returns an object of the same type.
func (s *stripped) DeepCopyObject() runtime.Object {
	return &stripped{*s.DeepCopy(), s.release}
}

// strip keeps the hashes: containers may hold secrets in their environment.
func strip(o any) (any, error) {
	var pod corev1.PodSpec
	var meta metav1.ObjectMeta
	switch object := o.(type) {
	case *appsv1.Deployment:
		pod, meta = object.Spec.Template.Spec, object.ObjectMeta
	case *appsv1.StatefulSet:
		pod, meta = object.Spec.Template.Spec, object.ObjectMeta
	default:
		return o, nil // it was stripped before
	}
	kept := &stripped{release: kube.ReleaseOf(pod)}
	kept.Namespace, kept.Name, kept.UID, kept.ResourceVersion = meta.Namespace, meta.Name, meta.UID, meta.ResourceVersion
	return kept, nil
}

func releaseOf(o any) kube.Release {
	if kept, ok := o.(*stripped); ok {
		return kept.release
	}
	return kube.Release{}
}
