// Package service watches the Services that running disruptions name, and their
// EndpointSlices. It watches no others, because a cluster has many and they change often.
// Disruptions that name the same service share its watch.
package service

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
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

// Watches has one watch for each service that a disruption names. It is safe for concurrent
// use.
type Watches struct {
	client kubernetes.Interface
	// Changed has an event for a disruption whenever the addresses of its services may have
	// changed.
	Changed chan event.GenericEvent

	// Group ends the watches with the bridge.
	*informers.Group

	mu     sync.Mutex
	byName map[types.NamespacedName]*watch
	named  map[types.NamespacedName]following // by disruption
}

// following is what a disruption named when it began.
type following struct {
	uid      types.UID
	services []v1beta1.NetworkService
}

// watch is the watch of one service.
type watch struct {
	service, parts cache.SharedIndexInformer
	stop           context.CancelFunc
}

// New returns watches on the cluster, which are empty at first.
func New(cluster *rest.Config) (*Watches, error) {
	client, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		return nil, fmt.Errorf("watch services: %w", err)
	}
	return &Watches{
		client: client, Changed: make(chan event.GenericEvent, 100), Group: informers.NewGroup(),
		byName: map[types.NamespacedName]*watch{}, named: map[types.NamespacedName]following{},
	}, nil
}

// Follow watches the services that d names, and ends watches that only an earlier
// disruption of its name needed. An edit of the spec changes nothing: the disruption
// continues as it began.
func (w *Watches) Follow(d *v1beta1.Disruption) {
	if d.Spec.Network == nil || len(d.Spec.Network.Services) == 0 {
		return
	}
	name := types.NamespacedName{Namespace: d.Namespace, Name: d.Name}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.named[name].uid == d.UID {
		return
	}
	w.forget(name)
	follows := following{uid: d.UID}
	for _, want := range d.Spec.Network.Services {
		want = want.In(d.Namespace)
		follows.services = append(follows.services, want)
		if w.byName[nameOf(want)] == nil {
			w.byName[nameOf(want)] = w.begin(nameOf(want))
		}
	}
	w.named[name] = follows
}

func nameOf(want v1beta1.NetworkService) types.NamespacedName {
	return types.NamespacedName{Namespace: want.Namespace, Name: want.Name}
}

// Forget ends the watches that only this disruption needed.
func (w *Watches) Forget(disruption types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget(disruption)
}

func (w *Watches) forget(disruption types.NamespacedName) {
	services := w.named[disruption].services
	delete(w.named, disruption)
	for _, want := range services {
		service := nameOf(want)
		if watched := w.byName[service]; watched != nil && len(w.disruptionsOf(service)) == 0 {
			watched.stop()
			delete(w.byName, service)
		}
	}
}

// Seen is the hosts of the services that are followed for d, as text that changes only when
// the hosts do. It is nil if none are followed, or before all were listed.
func (w *Watches) Seen(d *v1beta1.Disruption) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	follows := w.named[types.NamespacedName{Namespace: d.Namespace, Name: d.Name}]
	if follows.uid != d.UID {
		return nil
	}
	var seen []string
	for _, want := range follows.services {
		watched := w.byName[nameOf(want)]
		if !watched.listed() {
			return nil
		}
		hosts, problem := kube.ServiceHosts(want, watched.current(), watched.slices(), d.UID)
		text, err := json.Marshal(hosts)
		if err != nil {
			return nil // hosts are always JSON
		}
		seen = append(seen, fmt.Sprintf("service %s %v", text, problem))
	}
	return seen
}

// disruptionsOf are those that name a service. The mutex is held.
func (w *Watches) disruptionsOf(service types.NamespacedName) []types.NamespacedName {
	var disruptions []types.NamespacedName
	for disruption, follows := range w.named {
		if slices.ContainsFunc(follows.services, func(want v1beta1.NetworkService) bool { return nameOf(want) == service }) {
			disruptions = append(disruptions, disruption)
		}
	}
	return disruptions
}

// begin watches a service and its slices.
func (w *Watches) begin(name types.NamespacedName) *watch {
	ctx, stop := w.Context()
	one := fields.OneTermEqualSelector(metav1.ObjectNameField, name.Name)
	services := cache.NewListWatchFromClient(w.client.CoreV1().RESTClient(), "services", name.Namespace, one)
	parts := cache.NewFilteredListWatchFromClient(w.client.DiscoveryV1().RESTClient(), "endpointslices", name.Namespace,
		func(o *metav1.ListOptions) { o.LabelSelector = kube.SlicesOf(name.Name) })
	watched := &watch{service: informer(services, &corev1.Service{}), parts: informer(parts, &discoveryv1.EndpointSlice{}), stop: stop}
	enqueue := func() { w.enqueue(ctx, name) }
	for _, i := range []cache.SharedIndexInformer{watched.service, watched.parts} {
		// AddEventHandler fails only for an informer that has ended.
		_, _ = i.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { enqueue() }, UpdateFunc: func(any, any) { enqueue() }, DeleteFunc: func(any) { enqueue() },
		})
	}
	w.Run(ctx, enqueue, watched.service, watched.parts) // enqueues also if the service does not exist
	return watched
}

func informer(lw cache.ListerWatcher, object runtime.Object) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(kube.QuickReconnect(lw), object, 0, cache.Indexers{})
}

// enqueue makes the controller reconcile the disruptions that name a service.
func (w *Watches) enqueue(ctx context.Context, service types.NamespacedName) {
	w.mu.Lock()
	disruptions := w.disruptionsOf(service)
	w.mu.Unlock()
	for _, name := range disruptions {
		d := &v1beta1.Disruption{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
		select {
		case w.Changed <- event.GenericEvent{Object: d}:
		case <-ctx.Done():
		}
	}
}

func (w *watch) listed() bool { return w.service.HasSynced() && w.parts.HasSynced() }

// current is the service, nil if there is none.
func (w *watch) current() *corev1.Service {
	for _, object := range w.service.GetStore().List() {
		return object.(*corev1.Service)
	}
	return nil
}

func (w *watch) slices() []discoveryv1.EndpointSlice {
	var parts []discoveryv1.EndpointSlice
	for _, object := range w.parts.GetStore().List() {
		parts = append(parts, *object.(*discoveryv1.EndpointSlice))
	}
	return parts
}
