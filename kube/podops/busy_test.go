package podops

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rule L1
func TestBusy(t *testing.T) {
	labelled := func(keys ...string) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "shop"}}}
		for _, key := range keys {
			pod.Labels[key] = "1700000000000000000"
		}
		return pod
	}
	evicted := func(status corev1.ConditionStatus) *corev1.Pod {
		pod := labelled()
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: status, Reason: "EvictionByEvictionAPI"}}
		return pod
	}
	deleted := labelled()
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	for _, test := range []struct {
		name string
		pod  *corev1.Pod
		want string
	}{
		{"no label of an operation", labelled(), ""},
		{"an operation has begun", labelled("operating.podopslifecycle.kusionstack.io/scale"), "label operating.podopslifecycle.kusionstack.io/scale"},
		{"it goes on", labelled("operate.podopslifecycle.kusionstack.io/scale"), "label operate.podopslifecycle.kusionstack.io/scale"},
		{"it was done just now", labelled("operated.podopslifecycle.kusionstack.io/scale"), "label operated.podopslifecycle.kusionstack.io/scale"},
		{"of several labels the first in the alphabet", labelled("operating.podopslifecycle.kusionstack.io/b", "operating.podopslifecycle.kusionstack.io/a"),
			"label operating.podopslifecycle.kusionstack.io/a"},
		{"somebody wants to delete it", labelled("collaset.kusionstack.io/to-delete"), "label collaset.kusionstack.io/to-delete"},
		{"it is being deleted", deleted, "it is being deleted"},
		{"it is being evicted", evicted(corev1.ConditionTrue), "condition DisruptionTarget: EvictionByEvictionAPI"},
		{"its eviction was given up", evicted(corev1.ConditionFalse), ""},
		{"orphans of an operation that was finished too early", labelled("preparing.podopslifecycle.kusionstack.io/scale",
			"pre-checked.podopslifecycle.kusionstack.io/scale", "operation-type.podopslifecycle.kusionstack.io/scale"), ""},
		{"in service", labelled("podopslifecycle.kusionstack.io/service-available"), ""},
		{"a label that begins like one", labelled("operating.podopslifecycle.kusionstack.io.example/scale", "operating.podopslifecycle.kusionstack.io"), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Busy(test.pod); got != test.want {
				t.Errorf("Busy = %q, want %q", got, test.want)
			}
		})
	}
}

// An operation is not busy because of its own labels.
func TestBusyWithAnother(t *testing.T) {
	pod := managed(corev1.ConditionFalse, LabelOperating, LabelOperate)
	if got := ours.Busy(pod); got != "" {
		t.Errorf("with ours alone Busy = %q", got)
	}
	if got := Busy(pod); got != "label "+LabelOperate+"/chaos-1" {
		t.Errorf("for anybody else Busy = %q", got)
	}
	pod.Labels[LabelOperating+"/scale"] = "1"
	if got := ours.Busy(pod); got != "label "+LabelOperating+"/scale" {
		t.Errorf("with another one Busy = %q", got)
	}
}
