package disruption

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/cached"
)

// Ten thousand chaos pods that end while their disruption is cleaned up do not cause ten
// thousand reconciles: its workflow sees them itself.
func TestPodsConcernOnlyObservedDisruptions(t *testing.T) {
	selected := []metav1.Condition{{Type: v1beta1.ConditionTargetsSelected, Status: metav1.ConditionTrue}}
	deleted := &metav1.Time{Time: time.Now()}
	for _, test := range []struct {
		name     string
		deleted  *metav1.Time
		status   v1beta1.DisruptionStatus
		concerns bool
	}{
		{"one that has not chosen yet", nil, v1beta1.DisruptionStatus{}, false},
		{"one that holds", nil, v1beta1.DisruptionStatus{Phase: v1beta1.PhaseHolding, Conditions: selected}, true},
		{"one that is cleaned", deleted, v1beta1.DisruptionStatus{Phase: v1beta1.PhaseCleaning, Conditions: selected}, false},
		{"one that is stuck", deleted, v1beta1.DisruptionStatus{Phase: v1beta1.PhaseStuck, Conditions: selected}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := &v1beta1.Disruption{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "shop", Name: "calm", UID: "u1", DeletionTimestamp: test.deleted, Finalizers: []string{v1beta1.DisruptionFinalizer},
				},
				Spec: v1beta1.DisruptionSpec{Selector: map[string]string{"app": "web"}}, Status: test.status,
			}
			r := &reconciler{client: caches(t, d), chaosNamespace: "chaos"}
			target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", Labels: map[string]string{"app": "web"}}}
			chaos := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "chaos", Name: "chaos-0", Labels: map[string]string{v1beta1.LabelDisruptionUID: "u1"}}}
			for _, pod := range []*corev1.Pod{target, chaos} {
				if got := len(r.concernedByPod(t.Context(), pod)) > 0; got != test.concerns {
					t.Errorf("pod %s concerns it: %t, want %t", pod.Name, got, test.concerns)
				}
			}
		})
	}
}

// caches hold one Disruption, and find it as the bridge's caches do.
func caches(t *testing.T, d *v1beta1.Disruption) client.Client {
	t.Helper()
	scheme, err := cached.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(d)
	if err := cached.Index(indexer{builder}, "chaos"); err != nil {
		t.Fatal(err)
	}
	return builder.Build()
}

type indexer struct{ *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, object client.Object, field string, of client.IndexerFunc) error {
	i.WithIndex(object, field, of)
	return nil
}
