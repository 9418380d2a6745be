package probe

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube/podops"
)

// podsReady succeeds when enough pods are ready. It reads the watch, not the API
// server.
func (p *Prober) podsReady(probe *v1beta1.PodsReadyProbe) (Answer, error) {
	if p.Pods == nil {
		return Answer{}, errors.New("pods cannot be listed: the worker does not watch them")
	}
	selector, err := labels.ValidatedSelectorFromSet(probe.Selector)
	if err != nil {
		return Answer{}, fmt.Errorf("podsReady.selector: %w", err)
	}
	pods, err := p.Pods.List(selector)
	if err != nil {
		return Answer{}, err
	}
	count, ready := 0, 0
	for _, pod := range pods {
		if ended(pod) || pod.DeletionTimestamp != nil {
			continue
		}
		count++
		if podops.Ready(pod) {
			ready++
		}
	}
	want := probe.Enough(count)
	if want < 0 {
		return Answer{}, fmt.Errorf("podsReady.min %s: want a number of 1 or more, or 1%% to 100%%", probe.Min)
	}
	answer := Answer{Result: Success, Text: fmt.Sprintf("%d of %d pods are ready, want %d", ready, count, want)}
	if ready < want {
		answer.Result = Failure
	}
	return answer, nil
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
