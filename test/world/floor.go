package world

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Cost is what something took.
type Cost struct {
	Time time.Duration
	CPU  CPU
}

// Clock measures a cost from its start.
type Clock struct {
	began time.Time
	used  CPU
}

// StartClock starts a clock.
func StartClock() Clock {
	return Clock{began: time.Now(), used: usedCPU()}
}

// Stop is the cost since the start.
func (c Clock) Stop() Cost { return Cost{time.Since(c.began), usedCPU().since(c.used)} }

// The worker's greatest parallelism: parallel API calls for each of parallelShards
// shards of shardSize targets. A test compares them with the worker's own.
const (
	parallel       = 32
	parallelShards = 6
	shardSize      = 200
	most           = parallel * parallelShards
)

// AtOnce is how many API calls a worker with one disruption of n targets has
// under way at once.
func AtOnce(n int) int { return parallel * min(parallelShards, (n+shardSize-1)/shardSize) }

// ChaosPods are chaos pods of d as they were created, one of each kind, but for
// what makes them Squall's: name, finalizer, and the prefix of labels and
// annotations.
func (w *World) ChaosPods(d *v1beta1.Disruption) []*corev1.Pod {
	w.Helper()
	var pods []*corev1.Pod
	for _, fault := range d.Spec.Requested() {
		selector := labels.Set{v1beta1.LabelDisruptionUID: string(d.UID), v1beta1.LabelDisruptionKind: string(fault.Kind)}
		list, err := w.Kube.CoreV1().Pods(w.Chaos).List(w.Context(), metav1.ListOptions{Limit: 1, LabelSelector: selector.String()})
		w.Must(err)
		if len(list.Items) == 0 {
			w.Fatalf("%s has no chaos pod of kind %s", d.Name, fault.Kind)
		}
		pod := &list.Items[0]
		pods = append(pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Labels: floored(pod.Labels), Annotations: floored(pod.Annotations)},
			Spec:       pod.Spec,
		})
	}
	return pods
}

func floored(marks map[string]string) map[string]string {
	all := make(map[string]string, len(marks))
	for key, value := range marks {
		all["floor."+key] = value
	}
	return all
}

// Floor is the least that n pods like these, in turn, cost here: to create them
// and see them ready, and to delete them and see them gone, with so many calls
// at once.
func (w *World) Floor(pods []*corev1.Pod, n, atOnce int) (up, down Cost) {
	w.Helper()
	namespace := w.NewNamespace("floor-")
	api := w.floor.CoreV1().Pods(namespace)
	name := func(i int) string { return fmt.Sprintf("floor-%05d", i) }
	clock := StartClock()
	w.Each(n, atOnce, func(i int) error {
		one := pods[i%len(pods)].DeepCopy()
		one.Name, one.Spec.NodeName = name(i), node(i)
		_, err := api.Create(w.Context(), one, metav1.CreateOptions{})
		return err
	})
	Eventually(w, w.Patience, "the floor's pods run", func() bool { return w.Kubelets.Ready(namespace) == n })
	up, clock = clock.Stop(), StartClock()
	w.Each(n, atOnce, func(i int) error {
		return gone(api.Delete(w.Context(), name(i), metav1.DeleteOptions{}))
	})
	Eventually(w, w.Patience, "the floor's pods are gone", func() bool { return w.Kubelets.There(namespace) == 0 })
	return up, clock.Stop()
}
