package emergencystop

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/cached"
)

// docs/guarantees.md: an EmergencyStop cleans up everything that runs within 2 to 3 s. Most
// of that is the kubelet's: the bridge marks and deletes all in one pass, and waits for
// nothing.
func TestAnEmergencyStopWaitsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme, err := cached.Scheme()
		if err != nil {
			t.Fatal(err)
		}
		stop := &v1beta1.EmergencyStop{ObjectMeta: metav1.ObjectMeta{Name: "fire"}, Spec: v1beta1.EmergencyStopSpec{Reason: "payment is down"}}
		d := &v1beta1.Disruption{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "calm", UID: "u1", Finalizers: []string{v1beta1.DisruptionFinalizer}},
			Status:     v1beta1.DisruptionStatus{Phase: v1beta1.PhaseHolding},
		}
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "chaos", Name: "chaos-0", UID: "p1", Finalizers: []string{v1beta1.ChaosPodFinalizer},
				Labels: map[string]string{v1beta1.LabelDisruptionUID: "u1", v1beta1.LabelDisruptionNamespace: "shop"},
			},
			Status: corev1.PodStatus{Phase: corev1.PodRunning},
		}
		kube := fake.NewClientBuilder().WithScheme(scheme).WithObjects(stop, d, pod).WithStatusSubresource(stop, d).Build()
		r := &stopReconciler{client: kube, live: kube, chaosNamespace: "chaos"}
		began := time.Now()
		if _, err := r.enforce(t.Context(), reconcile.Request{}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("enforce() waited %s", took)
		}
		for _, object := range []client.Object{d, pod} {
			if err := kube.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				t.Fatal(err)
			}
		}
		if got := d.Stopped(); got != fire {
			t.Errorf("the disruption was stopped by %q, want %q", got, fire)
		}
		if pod.DeletionTimestamp == nil {
			t.Error("the chaos pod was not deleted")
		}
	})
}
