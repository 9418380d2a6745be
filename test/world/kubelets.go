package world

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Kubelets plays the kubelets of all nodes: every pod that has a node starts at
// once, or after the time it takes, is ready, unless a readiness gate of it keeps it
// from that, and ends when it is asked to; a cleaner or a sweeper ends by itself.
// It does to the API what a kubelet does, and in the same order.
type Kubelets struct {
	kube  kubernetes.Interface
	pods  cache.SharedIndexInformer
	queue workqueue.TypedRateLimitingInterface[string]
	exits atomic.Pointer[func(*corev1.Pod) Exit]
	times atomic.Pointer[times]

	// waiting has the keys of the pods that wait for a disruption before they start, by UID.
	waiting sync.Map

	mu    sync.Mutex
	there map[string]*tally // by namespace
}

// Exit is how the container of a pod ends: with its exit code, and with its
// termination message.
type Exit struct {
	Code    int32
	Message string
}

// tally counts the pods of a namespace.
type tally struct{ all, running int }

// Clean is how the injector ends with the command of this pod when nothing is
// left: an injection, a clean or an audit, each with its own last words.
func Clean(pod *corev1.Pod) Exit {
	var output any = v1beta1.InjectionReport{Injected: true, Cleaned: true, Audited: true}
	switch args := pod.Spec.Containers[0].Args; {
	case slices.Contains(args, "clean"):
		output = v1beta1.CleanReport{Cleaned: []string{"what a journal told"}, Audited: true, Left: []v1beta1.LeftInjection{}}
	case slices.Contains(args, "audit"):
		output = v1beta1.Audit{Marks: []v1beta1.Mark{}}
	}
	message, _ := json.Marshal(output) // strings and booleans can be encoded
	return Exit{Message: string(message)}
}

// Swept is how the pod of a sweep ends on a node that carries marks, and those that it
// carries then.
func Swept(pod *corev1.Pod, marks []v1beta1.Mark) (Exit, []v1beta1.Mark) {
	args := pod.Spec.Containers[0].Args
	if args[0] == "clean" {
		marks = slices.DeleteFunc(marks, func(m v1beta1.Mark) bool { return slices.Contains(args, string(m.Disruption.UID)) })
		return Clean(pod), marks
	}
	if len(marks) == 0 {
		return Clean(pod), marks
	}
	message, _ := json.Marshal(v1beta1.Audit{Marks: marks}) // strings can be encoded
	return Exit{Code: 3, Message: string(message)}, marks
}

// Exits decides how pods end from now on. Until then all end with exit code 0 and
// report that nothing is left.
func (k *Kubelets) Exits(how func(*corev1.Pod) Exit) { k.exits.Store(&how) }

// times are what a kubelet takes to start a pod, and to end one.
type times struct{ start, end time.Duration }

// Take makes the kubelets take their time from now on. At first they take none.
func (k *Kubelets) Take(start, end time.Duration) { k.times.Store(&times{start, end}) }

// There counts the pods of a namespace, as last seen.
func (k *Kubelets) There(namespace string) int { return k.tally(namespace).all }

// Ready counts the running pods of a namespace, as last seen.
func (k *Kubelets) Ready(namespace string) int { return k.tally(namespace).running }

func (k *Kubelets) tally(namespace string) tally {
	k.mu.Lock()
	defer k.mu.Unlock()
	if t := k.there[namespace]; t != nil {
		return *t
	}
	return tally{}
}

// EndAll ends the pods of a namespace by themselves, as injectors end at their
// deadline.
func (k *Kubelets) EndAll(ctx context.Context, namespace string) error {
	for _, object := range k.pods.GetStore().List() {
		pod := object.(*corev1.Pod).DeepCopy()
		if pod.Namespace != namespace {
			continue
		}
		pod.Status = exited(pod, k.exit(pod))
		if _, err := k.kube.CoreV1().Pods(namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); gone(err) != nil {
			return err
		}
	}
	return nil
}

// startKubelets plays until ctx ends.
func startKubelets(ctx context.Context, kube kubernetes.Interface) (*Kubelets, error) {
	k := &Kubelets{
		kube:  kube,
		pods:  informers.NewSharedInformerFactory(kube, 0).Core().V1().Pods().Informer(),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
		there: map[string]*tally{},
	}
	k.Take(0, 0)
	_, err := k.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(pod any) { k.count(pod, 1); k.enqueue(pod) },
		UpdateFunc: func(old, pod any) { k.count(old, -1); k.count(pod, 1); k.enqueue(pod) },
		DeleteFunc: func(pod any) { k.count(pod, -1) },
	})
	if err != nil {
		return nil, err
	}
	go k.pods.RunWithContext(ctx)
	cache.WaitForCacheSync(ctx.Done(), k.pods.HasSynced)
	for range 16 {
		go k.work(ctx)
	}
	context.AfterFunc(ctx, k.queue.ShutDown)
	return k, nil
}

func (k *Kubelets) count(object any, by int) {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	pod := object.(*corev1.Pod)
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.there[pod.Namespace]
	if t == nil {
		t = &tally{}
		k.there[pod.Namespace] = t
	}
	t.all += by
	if pod.Status.Phase == corev1.PodRunning {
		t.running += by
	}
}

func (k *Kubelets) enqueue(object any) {
	pod := object.(*corev1.Pod)
	key, takes := pod.Namespace+"/"+pod.Name, k.times.Load()
	switch next(pod) {
	case run:
		k.queue.AddAfter(key, takes.start)
	case end:
		k.queue.AddAfter(key, takes.end)
	case hold, report, remove:
		k.queue.Add(key)
	}
}

func (k *Kubelets) work(ctx context.Context) {
	for {
		key, over := k.queue.Get()
		if over {
			return
		}
		if err := k.sync(ctx, key); err != nil {
			k.queue.AddRateLimited(key)
		} else {
			k.queue.Forget(key)
		}
		k.queue.Done(key)
	}
}

func (k *Kubelets) sync(ctx context.Context, key string) error {
	object, found, err := k.pods.GetIndexer().GetByKey(key)
	if err != nil || !found {
		return err
	}
	pod := object.(*corev1.Pod).DeepCopy()
	switch next(pod) {
	case hold:
		k.waiting.Store(pod.UID, key)
		pod.Status = waits(pod)
		_, err = k.kube.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return gone(err)
	case run, report:
		if err := k.release(ctx, pod); err != nil {
			return err
		}
		pod.Status = running(pod)
		_, err = k.kube.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return gone(err)
	case end:
		pod.Status = exited(pod, k.exit(pod))
		if _, err := k.kube.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
			return gone(err)
		}
		if pod.DeletionTimestamp == nil {
			return nil
		}
		return k.remove(ctx, pod)
	case remove:
		return k.remove(ctx, pod)
	}
	return nil
}

// remove reports to the API server that nothing of the pod is left on the node.
// The pod is deleted with its last finalizer.
func (k *Kubelets) remove(ctx context.Context, pod *corev1.Pod) error {
	now := int64(0)
	return gone(k.kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	}))
}

// step is what a kubelet does next with a pod.
type step int

const (
	nothing step = iota
	hold         // before its first own container, for the injector
	run
	report // whether it is ready
	end
	remove
)

func next(pod *corev1.Pod) step {
	over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	switch {
	case pod.Spec.NodeName == "":
		return nothing
	case pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodPending && held(pod):
		if len(pod.Status.InitContainerStatuses) > 0 {
			return nothing
		}
		return hold
	case pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodPending:
		return run
	case pod.DeletionTimestamp == nil && !over && conditionOf(pod, corev1.PodReady) != ready(pod):
		return report
	case pod.DeletionTimestamp == nil && (over || !commanded(pod)):
		return nothing
	case !over:
		return end
	case *pod.DeletionGracePeriodSeconds > 0:
		return remove
	}
	return nothing // only a finalizer holds it
}

// held is true for a pod that waits for a disruption before it starts.
func held(pod *corev1.Pod) bool {
	return len(pod.Spec.InitContainers) > 0 && pod.Spec.InitContainers[0].Name == v1beta1.OnInitContainer
}

// release starts the target of a chaos pod if it waits: the injector ends the wait as soon
// as it has injected, which is before the chaos pod is ready.
func (k *Kubelets) release(ctx context.Context, chaos *corev1.Pod) error {
	uid := types.UID(chaos.Labels[v1beta1.LabelTargetUID])
	key, found := k.waiting.Load(uid)
	if !found || commanded(chaos) {
		return nil
	}
	object, found, err := k.pods.GetIndexer().GetByKey(key.(string))
	if err != nil || !found {
		return err
	}
	pod := object.(*corev1.Pod).DeepCopy()
	if pod.UID != uid || pod.Status.Phase != corev1.PodPending {
		return nil
	}
	began := waits(pod).InitContainerStatuses
	began[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", FinishedAt: metav1.Now()}}
	pod.Status = running(pod)
	pod.Status.InitContainerStatuses = began
	_, err = k.kube.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return gone(err)
}

// waits is the status of a pod that is held.
func waits(pod *corev1.Pod) corev1.PodStatus {
	now, started := metav1.Now(), true
	return corev1.PodStatus{
		Phase: corev1.PodPending, StartTime: &now,
		InitContainerStatuses: []corev1.ContainerStatus{{
			Name: v1beta1.OnInitContainer, Image: pod.Spec.InitContainers[0].Image, Started: &started, ContainerID: "containerd://init-" + string(pod.UID),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		}},
	}
}

// commanded is true for a pod that runs a command of the injector and ends.
func commanded(pod *corev1.Pod) bool {
	return pod.Labels[v1beta1.LabelCleaner] != "" || pod.Labels[v1beta1.LabelSweep] != ""
}

// ready is a kubelet's verdict on a running pod: True if all conditions of its
// readiness gates are.
func ready(pod *corev1.Pod) corev1.ConditionStatus {
	for _, gate := range pod.Spec.ReadinessGates {
		if conditionOf(pod, gate.ConditionType) != corev1.ConditionTrue {
			return corev1.ConditionFalse
		}
	}
	return corev1.ConditionTrue
}

func conditionOf(pod *corev1.Pod, condition corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range pod.Status.Conditions {
		if c.Type == condition {
			return c.Status
		}
	}
	return ""
}

func running(pod *corev1.Pod) corev1.PodStatus {
	now, started := metav1.NewTime(time.Now()), true
	others := slices.DeleteFunc(slices.Clone(pod.Status.Conditions), func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	return corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &now,
		Conditions: append(others, corev1.PodCondition{Type: corev1.PodReady, Status: ready(pod), LastTransitionTime: now}),
		HostIP:     "10.0.0.1", HostIPs: []corev1.HostIP{{IP: "10.0.0.1"}}, PodIP: "10.1.0.1", PodIPs: []corev1.PodIP{{IP: "10.1.0.1"}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: pod.Spec.Containers[0].Name, Image: pod.Spec.Containers[0].Image, Started: &started, Ready: true, ContainerID: "containerd://" + string(pod.UID),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		}},
	}
}

func (k *Kubelets) exit(pod *corev1.Pod) Exit {
	if how := k.exits.Load(); how != nil {
		return (*how)(pod)
	}
	return Clean(pod)
}

func exited(pod *corev1.Pod, exit Exit) corev1.PodStatus {
	now := metav1.NewTime(time.Now())
	phase, reason := corev1.PodSucceeded, "Completed"
	if exit.Code != 0 {
		phase, reason = corev1.PodFailed, "Error"
	}
	return corev1.PodStatus{
		Phase: phase, StartTime: pod.Status.StartTime,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: now}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: pod.Spec.Containers[0].Name, Image: pod.Spec.Containers[0].Image, ContainerID: "containerd://" + string(pod.UID),
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: exit.Code, Reason: reason, Message: exit.Message, FinishedAt: now,
			}},
		}},
	}
}

// gone treats a pod that is no longer there as done with.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
