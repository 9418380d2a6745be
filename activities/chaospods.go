package activities

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

// ChaosPods is a worker's one watch on all chaos pods: activities that wait
// for something to become of them read it and are woken by it, instead of
// asking the API server again and again.
type ChaosPods struct {
	informer cache.SharedIndexInformer

	mu      sync.Mutex
	waiters map[string]map[chan struct{}]struct{} // by disruption UID
}

// Indexes by the UID of the disruption, of all its chaos pods and of those that
// are ready; and by shard.
const (
	indexDisruption = "disruption"
	indexReady      = "ready"
	indexShard      = "shard"
)

// NewChaosPods returns a watch that Run starts.
func NewChaosPods(clientset kubernetes.Interface, namespace string) (*ChaosPods, error) {
	ours := func(o *metav1.ListOptions) { o.LabelSelector = v1beta1.LabelDisruptionUID }
	all := cache.NewFilteredListWatchFromClient(clientset.CoreV1().RESTClient(), "pods", namespace, ours)
	informer := cache.NewSharedIndexInformer(kube.QuickReconnect(all), &corev1.Pod{}, 0, cache.Indexers{})
	pods := &ChaosPods{informer: informer, waiters: map[string]map[chan struct{}]struct{}{}}
	if err := pods.informer.SetTransform(strip); err != nil {
		return nil, err
	}
	disruptionOf := func(object any) ([]string, error) {
		return []string{object.(*corev1.Pod).Labels[v1beta1.LabelDisruptionUID]}, nil
	}
	ready := func(object any) ([]string, error) {
		if ready, _ := podReady(object.(*corev1.Pod)); !ready {
			return nil, nil
		}
		return disruptionOf(object)
	}
	shard := func(object any) ([]string, error) {
		labels := object.(*corev1.Pod).Labels
		return []string{labels[v1beta1.LabelDisruptionUID] + "/" + labels[v1beta1.LabelShard]}, nil
	}
	err := pods.informer.AddIndexers(cache.Indexers{indexDisruption: disruptionOf, indexReady: ready, indexShard: shard})
	if err != nil {
		return nil, err
	}
	_, err = pods.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: pods.wake, UpdateFunc: func(_, object any) { pods.wake(object) }, DeleteFunc: pods.wake,
	})
	return pods, err
}

// Run watches until ctx ends.
func (c *ChaosPods) Run(ctx context.Context) { c.informer.RunWithContext(ctx) }

// Sync waits until the watch has seen what there is.
func (c *ChaosPods) Sync(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), c.informer.HasSynced) {
		return fmt.Errorf("list chaos pods: %w", context.Cause(ctx))
	}
	return nil
}

// Of returns the chaos pods of a disruption as last seen. They are shared:
// nobody may change them.
func (c *ChaosPods) Of(ref Ref) []*corev1.Pod { return c.by(indexDisruption, string(ref.UID)) }

// OfShard is Of for one shard, or for all.
func (c *ChaosPods) OfShard(s Shard) []*corev1.Pod {
	if s.Number == AllShards {
		return c.Of(s.Disruption)
	}
	return c.by(indexShard, fmt.Sprintf("%s/%d", s.Disruption.UID, s.Number))
}

func (c *ChaosPods) by(index, value string) []*corev1.Pod {
	objects, err := c.informer.GetIndexer().ByIndex(index, value)
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
func (c *ChaosPods) Ready(ref Ref) int {
	ready, err := c.informer.GetIndexer().IndexKeys(indexReady, string(ref.UID))
	if err != nil {
		return 0 // only an unknown index name is an error
	}
	return len(ready)
}

// Changes returns a channel that receives whenever a chaos pod of the
// disruption changes; several changes may be one receive. stop ends it.
func (c *ChaosPods) Changes(ref Ref) (changes <-chan struct{}, stop func()) {
	channel := make(chan struct{}, 1)
	uid := string(ref.UID)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiters[uid] == nil {
		c.waiters[uid] = map[chan struct{}]struct{}{}
	}
	c.waiters[uid][channel] = struct{}{}
	return channel, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waiters[uid], channel)
		if len(c.waiters[uid]) == 0 {
			delete(c.waiters, uid)
		}
	}
}

func (c *ChaosPods) wake(object any) {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for channel := range c.waiters[pod.Labels[v1beta1.LabelDisruptionUID]] {
		select {
		case channel <- struct{}{}:
		default: // a receive is pending already
		}
	}
}

// strip drops what nobody reads: with 10,000 chaos pods it is most of the
// worker's memory.
func strip(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.ManagedFields = nil
		pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName}
	}
	return object, nil
}
