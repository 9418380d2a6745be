package scale

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// kubelets plays the kubelets of all nodes: every pod that has a node starts at
// once and ends as soon as it is asked to. It does to the API what a kubelet
// does, and in the same order.
type kubelets struct {
	kube  kubernetes.Interface
	pods  cache.SharedIndexInformer
	queue workqueue.TypedRateLimitingInterface[string]
}

// startKubelets plays until ctx ends.
func startKubelets(ctx context.Context, kube kubernetes.Interface) (*kubelets, error) {
	k := &kubelets{
		kube:  kube,
		pods:  informers.NewSharedInformerFactory(kube, 0).Core().V1().Pods().Informer(),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
	}
	_, err := k.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    k.enqueue,
		UpdateFunc: func(_, pod any) { k.enqueue(pod) },
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

func (k *kubelets) enqueue(object any) {
	if pod := object.(*corev1.Pod); next(pod) != nothing {
		k.queue.Add(pod.Namespace + "/" + pod.Name)
	}
}

func (k *kubelets) work(ctx context.Context) {
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

func (k *kubelets) sync(ctx context.Context, key string) error {
	object, found, err := k.pods.GetIndexer().GetByKey(key)
	if err != nil || !found {
		return err
	}
	pod := object.(*corev1.Pod).DeepCopy()
	switch next(pod) {
	case run:
		pod.Status = running(pod)
		_, err = k.kube.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return gone(err)
	case end:
		pod.Status = exited(pod)
		if _, err := k.kube.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
			return gone(err)
		}
		return k.remove(ctx, pod)
	case remove:
		return k.remove(ctx, pod)
	}
	return nil
}

// remove tells the API server that nothing of the pod is left on the node. The
// pod goes when its last finalizer does.
func (k *kubelets) remove(ctx context.Context, pod *corev1.Pod) error {
	now := int64(0)
	return gone(k.kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	}))
}

// endAll ends the injectors of a namespace by themselves, as at their deadline.
func (k *kubelets) endAll(ctx context.Context, namespace string) error {
	for _, object := range k.pods.GetStore().List() {
		pod := object.(*corev1.Pod).DeepCopy()
		if pod.Namespace != namespace {
			continue
		}
		pod.Status = exited(pod)
		if _, err := k.kube.CoreV1().Pods(namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); gone(err) != nil {
			return err
		}
	}
	return nil
}

// ready counts the running pods of a namespace.
func (k *kubelets) ready(namespace string) (n int) {
	return k.count(namespace, func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning })
}

// count counts the pods of a namespace for which holds is true, as last seen.
func (k *kubelets) count(namespace string, holds func(*corev1.Pod) bool) (n int) {
	for _, object := range k.pods.GetStore().List() {
		if pod := object.(*corev1.Pod); pod.Namespace == namespace && holds(pod) {
			n++
		}
	}
	return n
}

// step is what a kubelet does next with a pod.
type step int

const (
	nothing step = iota
	run
	end
	remove
)

func next(pod *corev1.Pod) step {
	over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	switch {
	case pod.Spec.NodeName == "":
		return nothing
	case pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodPending:
		return run
	case pod.DeletionTimestamp == nil:
		return nothing
	case !over:
		return end
	case *pod.DeletionGracePeriodSeconds > 0:
		return remove
	}
	return nothing // only a finalizer holds it
}

func running(pod *corev1.Pod) corev1.PodStatus {
	now := metav1.NewTime(time.Now())
	return corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &now,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now}},
		HostIP:     "10.0.0.1", HostIPs: []corev1.HostIP{{IP: "10.0.0.1"}}, PodIP: "10.1.0.1", PodIPs: []corev1.PodIP{{IP: "10.1.0.1"}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: pod.Spec.Containers[0].Name, Image: pod.Spec.Containers[0].Image, Ready: true, ContainerID: "containerd://" + string(pod.UID),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		}},
	}
}

// broken is how the name of a target begins whose injector fails to clean.
const broken = "broken-"

func exited(pod *corev1.Pod) corev1.PodStatus {
	now := metav1.NewTime(time.Now())
	phase, code, reason := corev1.PodSucceeded, int32(0), "Completed"
	if strings.HasPrefix(pod.Labels[v1beta1.LabelTarget], broken) {
		phase, code, reason = corev1.PodFailed, 1, "Error"
	}
	return corev1.PodStatus{
		Phase: phase, StartTime: pod.Status.StartTime,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: now}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: pod.Spec.Containers[0].Name, Image: pod.Spec.Containers[0].Image, ContainerID: "containerd://" + string(pod.UID),
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, FinishedAt: now}},
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
