package targets

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// Watch is a worker's one watch on the records of targets, which are the claims of all
// disruptions. At any time it holds what the cluster held at one moment: a watch brings
// the writes in their order, and a list replaces everything at once. So a disruption
// that finds its own write there finds all earlier writes too.
type Watch struct {
	reflector *cache.Reflector

	mu     sync.Mutex
	shards map[string]Shard // by name; nil until the first list
	// changed is closed at the next change.
	changed chan struct{}
}

// versions are the resource versions that records got when they were written, by name;
// empty for a deleted record.
type versions map[string]string

// watchPatience is how long the watch may lag before the caller reads from the API
// server instead.
const watchPatience = time.Second

// NewWatch returns a watch that Run starts.
func NewWatch(clientset kubernetes.Interface, namespace string) *Watch {
	ours := func(o *metav1.ListOptions) { o.LabelSelector = labelRecord + "=" + recordTargets }
	all := cache.NewFilteredListWatchFromClient(clientset.CoreV1().RESTClient(), "configmaps", namespace, ours)
	w := &Watch{changed: make(chan struct{})}
	w.reflector = cache.NewReflectorWithOptions(kube.QuickReconnect(all), &corev1.ConfigMap{}, watchStore{w}, cache.ReflectorOptions{})
	return w
}

// Run watches until ctx ends.
func (w *Watch) Run(ctx context.Context) { w.reflector.RunWithContext(ctx) }

// Sync waits for the first list.
func (w *Watch) Sync(ctx context.Context) error {
	for {
		_, seen, changed := w.now(nil)
		if seen {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("list the records of targets: %w", context.Cause(ctx))
		}
	}
}

// after returns all shards as they were at one moment after these writes. seen is false
// when the watch does not reach them within watchPatience. The shards are shared; the
// caller must not change them.
func (w *Watch) after(ctx context.Context, written versions) (all []Shard, seen bool) {
	patience := time.NewTimer(watchPatience)
	defer patience.Stop()
	for {
		all, seen, changed := w.now(written)
		if seen {
			return all, true
		}
		select {
		case <-changed:
		case <-patience.C:
			return nil, false
		case <-ctx.Done():
			return nil, false
		}
	}
}

// now returns all shards if the watch has seen these writes, and a channel that closes
// at the next change.
func (w *Watch) now(written versions) (all []Shard, seen bool, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.shards == nil {
		return nil, false, w.changed
	}
	for name, version := range written {
		held, found := w.shards[name]
		if found != (version != "") || found && older(held.object.ResourceVersion, version) {
			return nil, false, w.changed
		}
	}
	return slices.Collect(maps.Values(w.shards)), true, w.changed
}

// at returns a record if the watch holds it at exactly this version.
func (w *Watch) at(name, version string) (held Shard, found bool) {
	if w == nil || version == "" {
		return Shard{}, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	held, found = w.shards[name]
	return held, found && held.broken == nil && held.object.ResourceVersion == version
}

// of returns the records of a disruption, in order; seen is false before the first
// list.
func (w *Watch) of(ref v1beta1.DisruptionRef) (found []Shard, seen bool) {
	if w == nil {
		return nil, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.shards == nil {
		return nil, false
	}
	for number := 0; ; number++ {
		shard, there := w.shards[shardName(ref.UID, number)]
		if !there {
			return found, true
		}
		found = append(found, shard)
	}
}

func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order < 0
}

// watchStore receives the changes from the reflector.
type watchStore struct{ *Watch }

func (s watchStore) Add(object any) error {
	s.change(func() { keep(s.shards, object) })
	return nil
}

func (s watchStore) Update(object any) error { return s.Add(object) }

func (s watchStore) Delete(object any) error {
	s.change(func() { delete(s.shards, object.(*corev1.ConfigMap).Name) })
	return nil
}

func (s watchStore) Replace(objects []any, _ string) error {
	all := make(map[string]Shard, len(objects))
	for _, object := range objects {
		keep(all, object)
	}
	s.change(func() { s.shards = all })
	return nil
}

func (s watchStore) Resync() error { return nil }

func (s watchStore) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	close(s.changed)
	s.changed = make(chan struct{})
}

// keep adds a record without the parts that are never read again. A record that cannot
// be read is kept with its error, for the callers that need it.
func keep(shards map[string]Shard, object any) {
	record := object.(*corev1.ConfigMap)
	read, err := readShard(record)
	if err != nil {
		read = Shard{object: record, broken: err}
	}
	record.ManagedFields, record.Data = nil, nil
	shards[record.Name] = read
}
