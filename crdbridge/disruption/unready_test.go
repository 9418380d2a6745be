package disruption

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// rule E4: a chaos pod that ceases to be ready is a change; one that becomes ready is none.
func TestAChaosPodThatCeasesToBeReadyIsAChange(t *testing.T) {
	r := &reconciler{chaosNamespace: "chaos"}
	with := func(ready corev1.ConditionStatus) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "chaos", Name: "chaos-a", Labels: map[string]string{v1beta1.LabelDisruptionUID: "u"}},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
		}
	}
	const yes, no = corev1.ConditionTrue, corev1.ConditionFalse
	for _, test := range []struct {
		name          string
		before, after corev1.ConditionStatus
		want          bool
	}{
		{"it becomes ready", no, yes, false},
		{"it ceases to be", yes, no, true},
		{"it stays ready", yes, yes, false},
		{"it stays as it is", no, no, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := r.podPredicate().Update(event.UpdateEvent{ObjectOld: with(test.before), ObjectNew: with(test.after)}); got != test.want {
				t.Errorf("passed = %t, want %t", got, test.want)
			}
		})
	}
}
