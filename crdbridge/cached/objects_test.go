package cached

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube/podops"
	"github.com/squall-chaos/squall/test/kuperator"
)

func TestCachesHoldNoMoreThanIsRead(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", ManagedFields: []metav1.ManagedFieldsEntry{{}}, Finalizers: []string{"f"}},
		Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "main"}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, Message: "long",
			Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled}, {Type: corev1.PodReady, Status: corev1.ConditionFalse, Message: "long"},
				{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI", Message: "long"}},
			InitContainerStatuses: []corev1.ContainerStatus{
				{Name: "migrate"}, {Name: v1beta1.OnInitContainer, Image: "long", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}},
			},
			ContainerStatuses: []corev1.ContainerStatus{
				{Name: "waits"}, {Name: "runs", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}},
				{Name: "ended", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Message: "long"}}},
			},
		},
	}
	kept, err := stripPod(pod)
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec:       corev1.PodSpec{NodeName: "node"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse},
			{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"}}, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "waits"}, {Name: "runs", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
			{Name: "ended", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}}},
		}, InitContainerStatuses: []corev1.ContainerStatus{{Name: v1beta1.OnInitContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}},
	}
	if diff := cmp.Diff(want, kept); err != nil || diff != "" {
		t.Errorf("stripPod (-want +got), %v:\n%s", err, diff)
	}
	tombstone := cache.DeletedFinalStateUnknown{Key: "k"}
	if got, err := stripPod(tombstone); err != nil || got != any(tombstone) {
		t.Errorf("stripPod(tombstone) = %v, %v, want it untouched", got, err)
	}
}

// rule E4: the time since when a chaos pod is ready shows whether it was unready in
// between.
func TestCachesHoldSinceWhenAChaosPodIsReady(t *testing.T) {
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(7, 0)}
	pod := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{ready}}}
	if kept, _ := stripPod(pod); len(kept.(*corev1.Pod).Status.Conditions) != 0 {
		t.Errorf("kept %+v of a pod of others", kept)
	}
	pod.Labels = map[string]string{v1beta1.LabelDisruptionUID: "u"}
	if kept, _ := stripPod(pod); !slices.Equal(kept.(*corev1.Pod).Status.Conditions, pod.Status.Conditions) {
		t.Errorf("kept %+v of a chaos pod", kept)
	}
}

// The cached fields of a pod show each step of an operation on it, and that there was one.
// A disruption that participates waits for nothing else.
func TestCachesHoldEachStepOfAnOperation(t *testing.T) {
	operation := podops.OfDisruption("u1")
	observed := func(pod *corev1.Pod) string {
		available, err := podops.Available(pod)
		return fmt.Sprintf("%s, %s; managed %t, available %t %v", operation.Next(pod), operation.Awaits(pod), podops.Managed(pod), available, err)
	}
	strip := func(pod *corev1.Pod) *corev1.Pod {
		t.Helper()
		kept, err := stripPod(pod)
		if err != nil {
			t.Fatal(err)
		}
		return kept.(*corev1.Pod)
	}
	const traffic = podops.FinalizerPrefix + "traffic"
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p1", Finalizers: []string{traffic}, Labels: map[string]string{podops.LabelManaged: podops.ManagedValue}},
		Spec:       corev1.PodSpec{ReadinessGates: []corev1.PodReadinessGate{{ConditionType: podops.ReadinessGate}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "main", Ready: true}}},
	}
	before, steps := pod.DeepCopy(), map[string]bool{}
	step := func(what string) {
		t.Helper()
		steps[observed(pod)] = true
		kept := strip(pod)
		if got, want := observed(kept), observed(pod); got != want {
			t.Errorf("%s: the cache tells %q of the pod, which tells %q", what, got, want)
		}
		if observed(pod) != observed(before) && !PodChanged(strip(before), kept) {
			t.Errorf("%s: no controller is notified, though it was %q and is %q", what, observed(before), observed(pod))
		}
		before = pod.DeepCopy()
	}
	moves := func(what string) {
		t.Helper()
		for kuperator.Move(pod) || kuperator.Kubelet(pod) {
			step(what)
		}
	}
	moves("begins to serve")
	pod.Labels[podops.LabelOperationType+"/"+operation.ID], pod.Labels[podops.LabelOperating+"/"+operation.ID] = "chaos", "1"
	step("asked for")
	moves("taken out of service")
	pod.Finalizers = nil
	step("its traffic is gone")
	moves("given")
	delete(pod.Labels, podops.LabelOperating+"/"+operation.ID)
	step("given back")
	moves("put into service")
	if available, err := podops.Available(pod); !available || err != nil || len(steps) < 8 {
		t.Errorf("the pod ends as %v after %d different steps, %v; want it in service after 8 or more", pod.Labels, len(steps), err)
	}
}
