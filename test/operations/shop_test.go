package operations

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/squall-chaos/squall/kube/podops"
	"github.com/squall-chaos/squall/test/kuperator"
	"github.com/squall-chaos/squall/test/world"
)

// traffic is the finalizer of who brings traffic to a pod, slowest how long it takes at
// most to take that away.
const (
	traffic = podops.FinalizerPrefix + "traffic"
	slowest = 3 * time.Second
)

// shop is the namespace of the targets. It plays what of a kubelet is about readiness
// gates, who brings traffic to pods, and, unless the bridge does, the driver.
type shop struct {
	*world.World
	*book
	kuperator bool
	pods      cache.SharedIndexInformer
	queue     workqueue.TypedRateLimitingInterface[string]
}

func newShop(w *world.World, driven bool) *shop {
	w.Helper()
	in := func(namespace string) cache.SharedIndexInformer {
		return informers.NewSharedInformerFactoryWithOptions(w.Kube, 0, informers.WithNamespace(namespace)).Core().V1().Pods().Informer()
	}
	s := &shop{
		World: w, book: newBook(), kuperator: driven, pods: in(w.Shop),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, time.Second)),
	}
	_, err := s.pods.AddEventHandler(each(func(pod *corev1.Pod) { s.saw(pod); s.queue.Add(pod.Name) }, s.sawGone))
	w.Must(err)
	chaos := in(w.Chaos)
	_, err = chaos.AddEventHandler(each(s.sawInjector, s.sawInjectorGone))
	w.Must(err)
	for _, informer := range []cache.SharedIndexInformer{s.pods, chaos} {
		go informer.RunWithContext(w.Context())
		cache.WaitForCacheSync(w.Context().Done(), informer.HasSynced)
	}
	for range 4 {
		go s.work()
	}
	w.Cleanup(s.queue.ShutDown)
	return s
}

func each(saw, gone func(*corev1.Pod)) cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { saw(o.(*corev1.Pod)) },
		UpdateFunc: func(_, o any) { saw(o.(*corev1.Pod)) },
		DeleteFunc: func(o any) {
			if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = unknown.Obj
			}
			gone(o.(*corev1.Pod))
		},
	}
}

// makePod makes a pod that a driver moves; with traffic the shop sends traffic to
// it.
func (s *shop) makePod(name string, withTraffic bool) {
	s.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "web", podops.LabelManaged: podops.ManagedValue}},
		Spec: corev1.PodSpec{
			NodeName: "node-00", Containers: []corev1.Container{{Name: "main", Image: "web"}},
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: podops.ReadinessGate}},
		},
	}
	if withTraffic {
		pod.Annotations = map[string]string{podops.AnnotationAvailable: fmt.Sprintf(`{"expectedFinalizers":{"traffic":%q}}`, traffic)}
	}
	created, err := s.Kube.CoreV1().Pods(s.Shop).Create(s.Context(), pod, metav1.CreateOptions{})
	s.Must(err)
	s.saw(created)
}

func (s *shop) work() {
	for {
		name, over := s.queue.Get()
		if over {
			return
		}
		again, err := s.sync(name)
		switch {
		case err != nil && !apierrors.IsNotFound(err):
			s.queue.AddRateLimited(name) // another client wrote meanwhile
		case again > 0:
			s.queue.AddAfter(name, again)
		default:
			s.queue.Forget(name)
		}
		s.queue.Done(name)
	}
}

// sync does the next step of every party but Squall for one pod.
func (s *shop) sync(name string) (again time.Duration, err error) {
	object, found, err := s.pods.GetIndexer().GetByKey(s.Shop + "/" + name)
	if err != nil || !found {
		return 0, err
	}
	pod := object.(*corev1.Pod).DeepCopy()
	pods := s.Kube.CoreV1().Pods(s.Shop)
	if wait, changed := traffics(pod); changed {
		_, err = pods.Update(s.Context(), pod, metav1.UpdateOptions{})
		return 0, err
	} else if wait > 0 {
		again = wait
	}
	if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning {
		return again, nil
	}
	if kuperator.Kubelet(pod) {
		turned(pod)
		_, err = pods.UpdateStatus(s.Context(), pod, metav1.UpdateOptions{})
		return again, err
	}
	if s.kuperator {
		return again, kuperator.SettlePod(s.Context(), s.Kube, pod, false)
	}
	return again, nil
}

// traffics sends traffic to a pod that is ready, and removes it from one that is
// not or ends. Removal takes time for some; then it returns how long.
func traffics(pod *corev1.Pod) (wait time.Duration, changed bool) {
	at := slices.Index(pod.Finalizers, traffic)
	ready := podops.Ready(pod) && pod.DeletionTimestamp == nil
	switch {
	case pod.Annotations[podops.AnnotationAvailable] == "" || ready == (at >= 0):
		return 0, false
	case ready:
		pod.Finalizers = append(pod.Finalizers, traffic)
		return 0, true
	}
	if wait = time.Until(since(pod).Add(takes(pod))); wait > 0 && pod.DeletionTimestamp == nil {
		return wait, false
	}
	pod.Finalizers = slices.Delete(pod.Finalizers, at, at+1)
	return 0, true
}

// turned notes that the pod has just become ready, or unready.
func turned(pod *corev1.Pod) {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			c.LastTransitionTime = metav1.Now()
		}
	}
}

// since is when the pod became unready.
func since(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// takes is how long it takes to take the traffic from a pod.
func takes(pod *corev1.Pod) time.Duration {
	h := fnv.New32()
	_, _ = h.Write([]byte(pod.Name))
	return slowest * time.Duration(h.Sum32()%100) / 100
}
