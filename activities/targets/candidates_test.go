package targets

import (
	"context"
	"sync"
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
	s := NewStore(fake.NewClientset(
		node("well", nil, corev1.ConditionTrue), node("leaving", &deleted, corev1.ConditionTrue), node("away", nil, corev1.ConditionUnknown)), "squall-chaos", nil, 1)
	d := &v1beta1.Disruption{Spec: v1beta1.DisruptionSpec{Level: v1beta1.LevelNode, Selector: map[string]string{"role": "worker"}}}
	found, err := s.Healthy(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, candidate := range found {
		names = append(names, candidate.Target.Name)
	}
	if diff := cmp.Diff([]string{"well"}, names); diff != "" {
		t.Errorf("candidates (-want +got):\n%s", diff)
	}
}

func TestCandidatesInPages(t *testing.T) {
	c := newCluster(t)
	c.targets(5, nil)
	c.targets(2, map[string]string{"app": "other"})
	c.pageSize = 2
	var group sync.WaitGroup
	for range 2 * parallelLists {
		group.Go(func() {
			found, err := c.Healthy(t.Context(), &v1beta1.Disruption{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace},
				Spec: v1beta1.DisruptionSpec{Level: v1beta1.LevelPod, Selector: map[string]string{"app": "web"}}})
			if err != nil || len(found) != 5 {
				t.Errorf("%d candidates, %v; want 5", len(found), err)
			}
		})
	}
	group.Wait()
	for range parallelLists {
		c.must(c.acquireList(t.Context()))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Healthy(ctx, &v1beta1.Disruption{}); err == nil {
		t.Error("a ninth list goes on beside eight")
	}
}
