package podops

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDeletionAwaits(t *testing.T) {
	const some, none = true, false
	for _, test := range []struct {
		name   string
		change func(played)
		waits  bool
	}{
		{"in service", func(played) {}, some},
		{"given, and still ready", func(p played) {
			p.labels(map[string]any{Deletion.label(LabelOperating): "1", Deletion.label(LabelOperate): "1"})
		}, some},
		{"given to another operation", func(p played) {
			p.labels(map[string]any{LabelOperating + "/x": "1", LabelOperate + "/x": "1"})
			p.condition(corev1.PodReady, "False")
		}, some},
		{"given, and not ready", func(p played) {
			p.labels(map[string]any{Deletion.label(LabelOperating): "1", Deletion.label(LabelOperate): "1"})
			p.condition(corev1.PodReady, "False")
		}, none},
		{"it ends already", func(p played) { p.pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, none},
		{"it was evicted by its kubelet", func(p played) { p.pod.Status.Phase = corev1.PodFailed }, none},
		{"it has no node", func(p played) { p.pod.Spec.NodeName = "" }, none},
		{"it did not opt in", func(p played) { p.pod.Labels = nil }, none},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPlayed()
			p.pod.Spec.NodeName, p.pod.Status.Phase = "node-0", corev1.PodRunning
			p.condition(corev1.PodReady, corev1.ConditionTrue)
			test.change(p)
			if got := DeletionAwaits(p.pod); (got != "") != test.waits {
				t.Errorf("DeletionAwaits = %q, want some reason: %t", got, test.waits)
			}
		})
	}
}

// A driver that was killed between any two writes resumes: the next action follows from
// the pod.
func TestNextOfDeletion(t *testing.T) {
	p := newPlayed()
	p.pod.Spec.NodeName, p.pod.Status.Phase = "node-0", corev1.PodRunning
	p.settle(t)
	next := func() ([]byte, bool) { return NextOfDeletion(p.pod, time.Unix(1700000000, 0)) }
	if patch, remove := next(); patch != nil || remove {
		t.Errorf("nobody wants to delete it: %s, %t", patch, remove)
	}
	p.merge(t, WantDeletion("u", time.Unix(1700000000, 0)))
	patch, remove := next()
	if patch == nil || remove {
		t.Fatalf("somebody does: %s, %t, want it to begin", patch, remove)
	}
	p.merge(t, patch)
	if patch, remove := next(); patch != nil || remove {
		t.Errorf("it was begun: %s, %t, want nothing until it is given", patch, remove)
	}
	p.settle(t)
	if _, remove := next(); !remove {
		t.Errorf("it was given and is not ready: %v, want it deleted", p.pod.Labels)
	}
	delete(p.pod.Labels, LabelToDelete)
	patch, remove = next()
	if patch == nil || remove {
		t.Fatalf("nobody wants it any more: %s, %t, want the operation to end", patch, remove)
	}
	p.merge(t, patch)
	p.settle(t)
	if left := p.lifecycle(); len(left) > 0 {
		t.Errorf("labels %v are left", left)
	}
}
