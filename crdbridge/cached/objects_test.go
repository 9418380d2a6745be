package cached

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/squall-chaos/squall/api/v1beta1"
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
