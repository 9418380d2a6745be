package bench

import (
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
)

const chaosNamespace = "squall-chaos"

// realCluster is one with Squall, and what two watches have seen of it.
type realCluster struct {
	config *rest.Config
	client client.Client
	kube   kubernetes.Interface
	nodes  []string
	// namespace is of the targets and probes, floorNamespace of bare pods.
	namespace, floorNamespace string
	disrupted                 int

	mu          sync.Mutex
	pods        map[types.UID]*seenPod
	disruptions map[types.UID]*seenDisruption
}

// seenPod has the times at which a pod was first seen in each state.
type seenPod struct {
	namespace, target         string
	disruption                types.UID
	made, ready, going, ended time.Time
	gone                      bool
}

// seenDisruption has the times at which a disruption was created, at which its
// status first reported each target and all of them, and at which it was gone.
type seenDisruption struct {
	targets              int
	reported             map[string]time.Time
	created, whole, gone time.Time
}

// watch begins to see chaos pods, the floor's pods and disruptions.
func (c *realCluster) watch(t *testing.T, scheme *runtime.Scheme) {
	t.Helper()
	ours, err := labels.Parse(v1beta1.LabelDisruptionUID)
	must(t, err)
	watched, err := cache.New(c.config, cache.Options{Scheme: scheme, ByObject: map[client.Object]cache.ByObject{
		&corev1.Pod{}: {Namespaces: map[string]cache.Config{chaosNamespace: {LabelSelector: ours}, c.floorNamespace: {}}},
	}})
	must(t, err)
	go func() { _ = watched.Start(t.Context()) }()
	see(t, watched, &corev1.Pod{}, c.seePod)
	see(t, watched, &v1beta1.Disruption{}, c.seeDisruption)
}

// see calls note for whatever happens to the objects of a kind.
func see[T client.Object](t *testing.T, watched cache.Cache, kind T, note func(object T, gone bool)) {
	t.Helper()
	informer, err := watched.GetInformer(t.Context(), kind)
	must(t, err)
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { note(o.(T), false) },
		UpdateFunc: func(_, o any) { note(o.(T), false) },
		DeleteFunc: func(o any) {
			if object, ok := o.(T); ok {
				note(object, true)
			}
		},
	})
	must(t, err)
}

func (c *realCluster) seePod(pod *corev1.Pod, gone bool) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := c.pods[pod.UID]
	if seen == nil {
		seen = &seenPod{namespace: pod.Namespace, target: pod.Labels[v1beta1.LabelTarget], disruption: types.UID(pod.Labels[v1beta1.LabelDisruptionUID]), made: now}
		c.pods[pod.UID] = seen
	}
	seen.gone = gone
	if pod.DeletionTimestamp != nil {
		first(&seen.going, now)
		if pod.Status.Phase == corev1.PodSucceeded {
			first(&seen.ended, now)
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			first(&seen.ready, now)
		}
	}
}

func (c *realCluster) seeDisruption(d *v1beta1.Disruption, gone bool) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := c.disruptions[d.UID]
	if seen == nil {
		seen = &seenDisruption{reported: map[string]time.Time{}, targets: d.Spec.Count.IntValue()}
		c.disruptions[d.UID] = seen
	}
	for target, kinds := range d.Status.TargetInjections {
		for _, i := range kinds { // one
			if _, there := seen.reported[target]; !there && i.InjectionStatus == v1beta1.Injected {
				seen.reported[target] = now
			}
		}
	}
	if d.Status.InjectionStatus == v1beta1.Injected && d.Status.Targets == fmt.Sprintf("%d/%[1]d", seen.targets) {
		first(&seen.whole, now)
	}
	if gone {
		first(&seen.gone, now)
	}
}

// first notes what was seen the first time.
func first(seen *time.Time, now time.Time) {
	if seen.IsZero() {
		*seen = now
	}
}

// there counts the pods of a namespace, and the ready ones.
func (c *realCluster) there(namespace string) (all, ready int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, pod := range c.pods {
		if pod.namespace != namespace || pod.gone {
			continue
		}
		all++
		if !pod.ready.IsZero() {
			ready++
		}
	}
	return all, ready
}

// seen is what a watch saw of a disruption, so far.
func (c *realCluster) seen(d *v1beta1.Disruption) seenDisruption {
	c.mu.Lock()
	defer c.mu.Unlock()
	if seen := c.disruptions[d.UID]; seen != nil {
		return *seen
	}
	return seenDisruption{}
}

// forget forgets all that was seen until now.
func (c *realCluster) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.disruptions)
	clear(c.pods)
}

// reportedAfter is how long after each chaos pod of the disruptions of n targets
// was ready the status reported it, and how long after the last one it reported
// all.
func (c *realCluster) reportedAfter(t *testing.T, n int) (each, last []time.Duration) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid, disruption := range c.disruptions {
		if disruption.targets != n || disruption.whole.IsZero() {
			continue
		}
		var latest time.Time
		for _, pod := range c.pods {
			if pod.disruption != uid || pod.ready.IsZero() {
				continue
			}
			reported, there := disruption.reported[pod.target]
			if !there {
				t.Errorf("target %s was injected, and no status said so", pod.target)
				continue
			}
			each = append(each, reported.Sub(pod.ready))
			if pod.ready.After(latest) {
				latest = pod.ready
			}
		}
		last = append(last, disruption.whole.Sub(latest))
	}
	return each, last
}

// kubelets returns the kubelets' times for the chaos pods of the disruptions of n
// targets: from created to ready, and from deleted to ended.
func (c *realCluster) kubelets(n int) (started, ended []time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, pod := range c.pods {
		if d := c.disruptions[pod.disruption]; d == nil || d.targets != n || pod.ready.IsZero() {
			continue
		}
		started = append(started, pod.ready.Sub(pod.made))
		if !pod.ended.IsZero() {
			ended = append(ended, pod.ended.Sub(pod.going))
		}
	}
	return started, ended
}
