package chaospod

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// Watch is a worker's one watch on all chaos pods. Activities that wait for a change of
// a chaos pod read the watch and are woken by it, instead of polling the API server.
type Watch struct {
	informer cache.SharedIndexInformer

	mu      sync.Mutex
	waiters map[string]map[chan struct{}]struct{} // by disruption UID
}

// Indexes by the UID of the disruption, of all its chaos pods and of those that are
// ready; by shard; and by node.
const (
	indexDisruption = "disruption"
	indexReady      = "ready"
	indexShard      = "shard"
	indexNode       = "node"
)

// NewWatch returns a watch that Run starts.
func NewWatch(clientset kubernetes.Interface, namespace string) (*Watch, error) {
	ours := func(o *metav1.ListOptions) { o.LabelSelector = v1beta1.LabelDisruptionUID }
	all := cache.NewFilteredListWatchFromClient(clientset.CoreV1().RESTClient(), "pods", namespace, ours)
	informer := cache.NewSharedIndexInformer(kube.QuickReconnect(all), &corev1.Pod{}, 0, cache.Indexers{})
	pods := &Watch{informer: informer, waiters: map[string]map[chan struct{}]struct{}{}}
	if err := pods.informer.SetTransform(strip); err != nil {
		return nil, err
	}
	disruptionOf := func(object any) ([]string, error) {
		return []string{object.(*corev1.Pod).Labels[v1beta1.LabelDisruptionUID]}, nil
	}
	readyOf := func(object any) ([]string, error) {
		if ready, _ := Ready(object.(*corev1.Pod)); !ready {
			return nil, nil
		}
		return disruptionOf(object)
	}
	shard := func(object any) ([]string, error) {
		labels := object.(*corev1.Pod).Labels
		return []string{labels[v1beta1.LabelDisruptionUID] + "/" + labels[v1beta1.LabelShard]}, nil
	}
	nodeOf := func(object any) ([]string, error) {
		pod := object.(*corev1.Pod)
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			return nil, nil
		}
		return []string{pod.Spec.NodeName}, nil
	}
	err := pods.informer.AddIndexers(cache.Indexers{indexDisruption: disruptionOf, indexReady: readyOf, indexShard: shard, indexNode: nodeOf})
	if err != nil {
		return nil, err
	}
	_, err = pods.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: pods.wake, UpdateFunc: func(_, object any) { pods.wake(object) }, DeleteFunc: pods.wake,
	})
	return pods, err
}

// Run watches until ctx ends.
func (w *Watch) Run(ctx context.Context) { w.informer.RunWithContext(ctx) }

// Sync waits for the first list.
func (w *Watch) Sync(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), w.informer.HasSynced) {
		return fmt.Errorf("list chaos pods: %w", context.Cause(ctx))
	}
	return nil
}

// Of returns the chaos pods of a disruption as last seen. They are shared; the caller
// must not change them.
func (w *Watch) Of(ref v1beta1.DisruptionRef) []*corev1.Pod {
	return w.by(indexDisruption, string(ref.UID))
}

// OfShard is Of for one shard, or for all.
func (w *Watch) OfShard(ref v1beta1.DisruptionRef, shard int) []*corev1.Pod {
	if shard == AllShards {
		return w.Of(ref)
	}
	return w.by(indexShard, fmt.Sprintf("%s/%d", ref.UID, shard))
}

// BesideOn counts the chaos pods of other disruptions that occupy a place on a node, as
// last seen.
func (w *Watch) BesideOn(node string, ref v1beta1.DisruptionRef) (n int) {
	for _, pod := range w.by(indexNode, node) {
		if pod.Labels[v1beta1.LabelDisruptionUID] != string(ref.UID) {
			n++
		}
	}
	return n
}

func (w *Watch) by(index, value string) []*corev1.Pod {
	objects, err := w.informer.GetIndexer().ByIndex(index, value)
	if err != nil {
		return nil // only an unknown index name is an error
	}
	pods := make([]*corev1.Pod, len(objects))
	for i, object := range objects {
		pods[i] = object.(*corev1.Pod)
	}
	return pods
}

// Ready counts the chaos pods of a disruption that are ready, as last seen.
func (w *Watch) Ready(ref v1beta1.DisruptionRef) int {
	ready, err := w.informer.GetIndexer().IndexKeys(indexReady, string(ref.UID))
	if err != nil {
		return 0 // only an unknown index name is an error
	}
	return len(ready)
}

// Changes returns a channel that receives after a change of a chaos pod of the
// disruption; several changes may be one receive. stop ends it.
func (w *Watch) Changes(ref v1beta1.DisruptionRef) (changes <-chan struct{}, stop func()) {
	channel := make(chan struct{}, 1)
	uid := string(ref.UID)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiters[uid] == nil {
		w.waiters[uid] = map[chan struct{}]struct{}{}
	}
	w.waiters[uid][channel] = struct{}{}
	return channel, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.waiters[uid], channel)
		if len(w.waiters[uid]) == 0 {
			delete(w.waiters, uid)
		}
	}
}

func (w *Watch) wake(object any) {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for channel := range w.waiters[pod.Labels[v1beta1.LabelDisruptionUID]] {
		select {
		case channel <- struct{}{}:
		default: // a receive is pending already
		}
	}
}

// strip drops the fields that no one reads: with 10,000 chaos pods these are most of
// the worker's memory.
func strip(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.ManagedFields = nil
		pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName}
	}
	return object, nil
}
