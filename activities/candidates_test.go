package activities

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// A node that somebody removes from the cluster is no more a target than a pod
// that is being deleted; the bridge does not count it as a candidate either.
func TestNodesThatAreBeingDeletedAreNotChosen(t *testing.T) {
	deleted := metav1.NewTime(time.Unix(1, 0))
	node := func(name string, deletion *metav1.Time, ready corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"role": "worker"}, DeletionTimestamp: deletion, Finalizers: []string{"f/f"}},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
		}
	}
	a := &Activities{Kube: fake.NewClientset(
		node("well", nil, corev1.ConditionTrue), node("leaving", &deleted, corev1.ConditionTrue), node("away", nil, corev1.ConditionUnknown))}
	d := &v1beta1.Disruption{Spec: v1beta1.DisruptionSpec{Level: v1beta1.LevelNode, Selector: map[string]string{"role": "worker"}}}
	found, err := a.healthy(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, candidate := range found {
		names = append(names, candidate.target.Name)
	}
	if diff := cmp.Diff([]string{"well"}, names); diff != "" {
		t.Errorf("candidates (-want +got):\n%s", diff)
	}
}
