package scale

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// cost is what something took.
type cost struct {
	time time.Duration
	cpu  cpu
}

// clock measures a cost from its start.
type clock struct {
	began time.Time
	used  cpu
}

func startClock() clock { return clock{time.Now(), used()} }

func (c clock) stop() cost { return cost{time.Since(c.began), used().since(c.used)} }

// compare sets a cost beside that of a loop that does nothing but create or
// delete as many pods. Other work on the machine disturbs the times, not the
// processor seconds.
func (w *world) compare(what string, ours, floor cost) {
	w.Helper()
	times, work := ours.time.Seconds()/floor.time.Seconds(), ours.cpu.total()/floor.cpu.total()
	w.Logf("%s: %.2f times the floor's time (%.2fs, %.2fs), %.2f times its processor seconds\n  %s\n  floor: %s",
		what, times, ours.time.Seconds(), floor.time.Seconds(), work, ours.cpu, floor.cpu)
	if times > 15 || work > 4 {
		w.Errorf("%s: %.1f times the floor's time, %.1f times its work", what, times, work)
	}
}

// aChaosPod is one as it was created, but for what belongs to Squall.
func (w *world) aChaosPod() *corev1.Pod {
	w.Helper()
	list, err := w.kube.CoreV1().Pods(w.chaos).List(w.Context(), metav1.ListOptions{Limit: 1})
	w.must(err)
	if len(list.Items) == 0 {
		w.Fatal("no chaos pod")
	}
	pod := &corev1.Pod{Spec: list.Items[0].Spec}
	pod.Labels, pod.Annotations = map[string]string{}, map[string]string{}
	for key, value := range list.Items[0].Labels {
		pod.Labels["floor."+key] = value
	}
	for key, value := range list.Items[0].Annotations {
		pod.Annotations["floor."+key] = value
	}
	return pod
}

// floor is the least that n pods cost here: to create them and see them ready,
// and to delete them and see them gone.
func (w *world) floor(pod *corev1.Pod, n int) (up, down cost) {
	w.Helper()
	namespace := w.newNamespace("floor-")
	pods := w.kube.CoreV1().Pods(namespace)
	clock := startClock()
	w.each(n, func(i int) error {
		one := pod.DeepCopy()
		one.Name, one.Spec.NodeName = fmt.Sprintf("floor-%04d", i), fmt.Sprintf("node-%02d", i%50)
		_, err := pods.Create(w.Context(), one, metav1.CreateOptions{})
		return err
	})
	eventually(w.T, 2*time.Minute, "the floor's pods run", func() bool { return w.kubelets.ready(namespace) == n })
	up, clock = clock.stop(), startClock()
	w.each(n, func(i int) error {
		return gone(pods.Delete(w.Context(), fmt.Sprintf("floor-%04d", i), metav1.DeleteOptions{}))
	})
	eventually(w.T, 2*time.Minute, "the floor's pods are gone", func() bool {
		return w.kubelets.count(namespace, func(*corev1.Pod) bool { return true }) == 0
	})
	return up, clock.stop()
}
