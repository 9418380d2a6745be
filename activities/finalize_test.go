package activities

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/clean"
	"github.com/squall-chaos/squall/test/apicluster"
)

// A write to a chaos pod after its judgement must not undo a final judgement, and must undo
// any other.
func TestFinalizeAPodThatChangedSince(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(2, nil)
	pods := c.ChaosPodsOf(c.started("calm", nil))
	for i, test := range []struct {
		name  string
		phase corev1.PodPhase
		state corev1.ContainerState
		kept  bool
	}{
		{"its injector has exited: it is let go", corev1.PodSucceeded, apicluster.Exited(0, "Completed", ""), false},
		{"nothing ran when it was judged: it is judged again", corev1.PodPending, corev1.ContainerState{}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			kube := c.Kube.CoreV1().Pods(c.Namespace)
			c.Becomes(pods[i], test.phase, test.state, corev1.ConditionFalse)
			c.Must(kube.Delete(t.Context(), pods[i].Name, metav1.DeleteOptions{}))
			judged, err := kube.Get(t.Context(), pods[i].Name, metav1.GetOptions{})
			c.Must(err)
			_, err = kube.Patch(t.Context(), judged.Name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"changed":"since"}}}`), metav1.PatchOptions{})
			c.Must(err)
			_, err = clean.Finalize(t.Context(), c.cleaning, judged)
			c.Must(err)
			now, err := kube.Get(t.Context(), judged.Name, metav1.GetOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
			if kept := err == nil && len(now.Finalizers) > 0; kept != test.kept {
				t.Errorf("our finalizer is there: %v, want %v", kept, test.kept)
			}
		})
	}
}
