package activities

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

	"github.com/squall-chaos/squall/kube"
)

// Records is a worker's one watch on the records of targets, which are the
// claims of all disruptions. At any time it holds what the cluster held at one
// moment: a watch brings the writes in their order, and a list takes the place
// of everything at once. So who finds its own write there finds all that was
// written before.
type Records struct {
	reflector *cache.Reflector

	mu     sync.Mutex
	shards map[string]shard // by name; nil until the first list
	// changed is closed at the next change.
	changed chan struct{}
}

// versions are the resource versions that records got by writing them, by name;
// empty for one that was deleted.
type versions map[string]string

// recordsPatience is how long the watch may be behind before one asks the API
// server instead.
const recordsPatience = time.Second

// NewRecords returns a watch that Run starts.
func NewRecords(clientset kubernetes.Interface, namespace string) *Records {
	ours := func(o *metav1.ListOptions) { o.LabelSelector = labelRecord + "=" + recordTargets }
	all := cache.NewFilteredListWatchFromClient(clientset.CoreV1().RESTClient(), "configmaps", namespace, ours)
	r := &Records{changed: make(chan struct{})}
	r.reflector = cache.NewReflectorWithOptions(kube.QuickReconnect(all), &corev1.ConfigMap{}, recordStore{r}, cache.ReflectorOptions{})
	return r
}

// Run watches until ctx ends.
func (r *Records) Run(ctx context.Context) { r.reflector.RunWithContext(ctx) }

// Sync waits until the watch has seen what there is.
func (r *Records) Sync(ctx context.Context) error {
	for {
		_, seen, changed := r.now(nil)
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

// after returns all shards as they were at one moment after these writes. seen
// is false when the watch does not come that far in time. The shards are
// shared: nobody may change them.
func (r *Records) after(ctx context.Context, written versions) (all []shard, seen bool) {
	patience := time.NewTimer(recordsPatience)
	defer patience.Stop()
	for {
		all, seen, changed := r.now(written)
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

// now returns all shards if the watch has seen these writes, and what is closed
// when there is news.
func (r *Records) now(written versions) (all []shard, seen bool, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shards == nil {
		return nil, false, r.changed
	}
	for name, version := range written {
		held, found := r.shards[name]
		if found != (version != "") || found && older(held.object.ResourceVersion, version) {
			return nil, false, r.changed
		}
	}
	return slices.Collect(maps.Values(r.shards)), true, r.changed
}

func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order < 0
}

// recordStore is what the reflector writes to.
type recordStore struct{ *Records }

func (s recordStore) Add(object any) error {
	s.change(func() { keep(s.shards, object) })
	return nil
}

func (s recordStore) Update(object any) error { return s.Add(object) }

func (s recordStore) Delete(object any) error {
	s.change(func() { delete(s.shards, object.(*corev1.ConfigMap).Name) })
	return nil
}

func (s recordStore) Replace(objects []any, _ string) error {
	all := make(map[string]shard, len(objects))
	for _, object := range objects {
		keep(all, object)
	}
	s.change(func() { s.shards = all })
	return nil
}

func (s recordStore) Resync() error { return nil }

func (s recordStore) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	close(s.changed)
	s.changed = make(chan struct{})
}

// keep adds a record without what nobody reads again. One that cannot be read
// is kept as such: whoever needs it says so.
func keep(shards map[string]shard, object any) {
	record := object.(*corev1.ConfigMap)
	read, err := readShard(record)
	if err != nil {
		read = shard{object: record, broken: err}
	}
	record.ManagedFields, record.Data = nil, nil
	shards[record.Name] = read
}
