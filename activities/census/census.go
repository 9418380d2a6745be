// Package census counts the pods of a cluster, by namespace, and its nodes. It keeps
// only names, from one watch each on metadata. So a worker knows without a call what
// share of them a disruption would have. The count may be a moment behind.
package census

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/squall-chaos/squall/kube"
)

// Watch is a worker's count of pods and nodes.
type Watch struct {
	pods, nodes reflected
}

// reflected is a watch and the names that it keeps.
type reflected struct {
	names     *names
	reflector *cache.Reflector
}

// New returns a count that Run starts. Pods that have ended do not count, nor do pods
// in the namespace of the chaos pods.
func New(config *rest.Config, chaosNamespace string) (*Watch, error) {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client for metadata: %w", err)
	}
	return &Watch{
		pods:  reflect(client, "pods", kube.PodsNotEnded+",metadata.namespace!="+chaosNamespace),
		nodes: reflect(client, "nodes", ""),
	}, nil
}

func reflect(client metadata.Interface, resource, fields string) reflected {
	of := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource})
	all := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = fields
			return of.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = fields
			return of.Watch(ctx, options)
		},
	}
	found := &names{listed: make(chan struct{})}
	return reflected{found, cache.NewReflectorWithOptions(kube.QuickReconnect(all), &metav1.PartialObjectMetadata{}, found,
		cache.ReflectorOptions{Name: "census of " + resource, TypeDescription: resource})}
}

// Run watches until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	var both sync.WaitGroup
	for _, r := range []reflected{w.pods, w.nodes} {
		both.Go(func() { r.reflector.RunWithContext(ctx) })
	}
	both.Wait()
}

// Sync waits for the first list of both watches.
func (w *Watch) Sync(ctx context.Context) error {
	for _, r := range []reflected{w.pods, w.nodes} {
		select {
		case <-r.names.listed:
		case <-ctx.Done():
			return fmt.Errorf("count pods and nodes: %w", context.Cause(ctx))
		}
	}
	return nil
}

// Pods returns how many pods there are in a namespace, and in all.
func (w *Watch) Pods(namespace string) (in, all int) { return w.pods.names.count(namespace) }

// Nodes returns how many nodes there are.
func (w *Watch) Nodes() int {
	_, all := w.nodes.names.count("")
	return all
}

// names are the names of all objects of one type, by namespace: a store for a reflector
// that keeps nothing else.
type names struct {
	mu     sync.Mutex
	by     map[string]map[string]struct{}
	all    int
	once   sync.Once
	listed chan struct{}
}

func (n *names) count(namespace string) (in, all int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.by[namespace]), n.all
}

// Replace sets all objects; the reflector calls it at first and whenever the watch
// restarts.
func (n *names) Replace(objects []any, _ string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.by, n.all = map[string]map[string]struct{}{}, 0
	for _, object := range objects {
		if err := n.add(object); err != nil {
			return err
		}
	}
	n.once.Do(func() { close(n.listed) })
	return nil
}

// Add counts a new object.
func (n *names) Add(object any) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.add(object)
}

// Update is Add: only the name counts.
func (n *names) Update(object any) error { return n.Add(object) }

// Delete removes an object from the count.
func (n *names) Delete(object any) error {
	m, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	in := n.by[m.GetNamespace()]
	if _, known := in[m.GetName()]; known {
		delete(in, m.GetName())
		n.all--
	}
	if len(in) == 0 {
		delete(n.by, m.GetNamespace())
	}
	return nil
}

// Transformer drops everything but the name of an object, already while the reflector
// reads the first list.
func (n *names) Transformer() cache.TransformFunc {
	return func(object any) (any, error) {
		m, ok := object.(*metav1.PartialObjectMetadata)
		if !ok {
			return object, nil
		}
		return &metav1.PartialObjectMetadata{TypeMeta: m.TypeMeta, ObjectMeta: metav1.ObjectMeta{
			Namespace: m.Namespace, Name: m.Name, ResourceVersion: m.ResourceVersion,
		}}, nil
	}
}

// Resync has nothing to do.
func (n *names) Resync() error { return nil }

func (n *names) add(object any) error {
	m, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	in := n.by[m.GetNamespace()]
	if in == nil {
		if n.by == nil {
			n.by = map[string]map[string]struct{}{}
		}
		in = map[string]struct{}{}
		n.by[m.GetNamespace()] = in
	}
	if _, known := in[m.GetName()]; !known {
		in[m.GetName()] = struct{}{}
		n.all++
	}
	return nil
}
