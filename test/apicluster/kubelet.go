package apicluster

import (
	"encoding/json"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// OnPods calls act with all pods of namespace Chaos that the selector matches, as a
// watch has them, first once it knows them and then whenever one has changed. Two calls
// never overlap. It ends with the test.
func (c *Cluster) OnPods(selector string, act func([]*corev1.Pod)) {
	c.Helper()
	matching := func(o *metav1.ListOptions) { o.LabelSelector = selector }
	pods := cache.NewFilteredListWatchFromClient(c.Client.CoreV1().RESTClient(), "pods", c.Chaos, matching)
	informer := cache.NewSharedIndexInformer(pods, &corev1.Pod{}, 0, cache.Indexers{})
	changed := make(chan struct{}, 1)
	wake := func(any) {
		select {
		case changed <- struct{}{}:
		default: // a call is due already
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: wake, UpdateFunc: func(_, object any) { wake(object) }, DeleteFunc: wake,
	})
	c.Must(err)
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(c.Context()) })
	running.Go(func() {
		for {
			select {
			case <-c.Context().Done():
				return
			case <-changed:
				act(copies(informer.GetStore()))
			}
		}
	})
	c.Cleanup(running.Wait)
}

func copies(store cache.Store) []*corev1.Pod {
	objects := store.List()
	pods := make([]*corev1.Pod, len(objects))
	for i, object := range objects {
		pods[i] = object.(*corev1.Pod).DeepCopy()
	}
	return pods
}

// Exits writes how the injector of a pod ended, as a kubelet would: whatever else has
// changed of the pod. A pod that is gone is no error.
func (c *Cluster) Exits(pod *corev1.Pod, phase corev1.PodPhase, state corev1.ContainerState) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": corev1.PodStatus{
		Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{Name: "injector", State: state}},
	}})
	if err != nil {
		return err
	}
	_, err = c.Client.CoreV1().Pods(c.Chaos).Patch(c.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Forgets deletes a pod at once, as a kubelet does that is done with it. A pod that is
// gone is no error.
func (c *Cluster) Forgets(pod *corev1.Pod) error {
	now := int64(0)
	err := c.Client.CoreV1().Pods(c.Chaos).Delete(c.Context(), pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
