package disruption

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/internal/bridgetest"
	"github.com/squall-chaos/squall/workflows/contract"
)

// The bridge informs a Disruption that waits for targets whenever another one frees
// some. It does not inform a Disruption that has all its targets.
func TestFreedTargetsAreReportedToWaitingDisruptions(t *testing.T) {
	for name, give := range map[string]func(*bridge, *v1beta1.Disruption){
		"it is finished": func(b *bridge, d *v1beta1.Disruption) {
			b.SetStatus(d, func(s *v1beta1.DisruptionStatus) { s.Phase = v1beta1.PhaseFinished })
			b.release(d)
		},
		"it is deleted": func(b *bridge, d *v1beta1.Disruption) {
			b.Must(b.Kube.Delete(b.T.Context(), d))
			b.release(d)
		},
		"it holds fewer": func(b *bridge, d *v1beta1.Disruption) {
			b.SetStatus(d, func(s *v1beta1.DisruptionStatus) { s.SelectedTargetsCount = 1 })
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBridge(t).start()
			holder, content, waiter := b.Disrupt("holder"), b.Disrupt("content"), b.Disrupt("waiter")
			b.Chose(holder, 2, 0)
			b.Chose(content, 1, 0)
			b.Chose(waiter, 0, 0)
			b.SetStatus(waiter, func(s *v1beta1.DisruptionStatus) { s.DesiredTargetsCount = 2 })
			b.Quiet()
			informed := func(d *v1beta1.Disruption) int { return len(b.Temporal.Signals(d, contract.SignalObserved)) }
			waiterBefore, contentBefore := informed(waiter), informed(content)
			give(b, holder)
			bridgetest.Eventually(t, bridgetest.Soon, "the waiting Disruption is informed", func() bool { return informed(waiter) > waiterBefore })
			b.Quiet()
			if n := informed(waiter) - waiterBefore; n != 1 {
				t.Errorf("the waiting Disruption was informed %d times, want once", n)
			}
			if n := informed(content) - contentBefore; n != 0 {
				t.Errorf("the Disruption with all its targets was informed %d times", n)
			}
		})
	}
}

// release removes the finalizer, as the workflow does once nothing is left.
func (b *bridge) release(d *v1beta1.Disruption) {
	b.T.Helper()
	bridgetest.Eventually(b.T, bridgetest.Soon, d.Name+" has its finalizer", func() bool {
		return controllerutil.ContainsFinalizer(b.Get(d), v1beta1.DisruptionFinalizer)
	})
	b.Must(b.Kube.Patch(b.T.Context(), d.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
}

func TestWhoCouldTakeWhatIsFreed(t *testing.T) {
	of := func(namespace string, level v1beta1.Level) *v1beta1.Disruption {
		return &v1beta1.Disruption{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, Spec: v1beta1.DisruptionSpec{Level: level}}
	}
	var f freed
	f.add(of("shop", v1beta1.LevelPod))
	f.add(of("bank", v1beta1.LevelNode))
	for name, c := range map[string]struct {
		d          *v1beta1.Disruption
		everywhere bool
		want       int
	}{
		"pods of the namespace":                {of("shop", v1beta1.LevelPod), false, 1},
		"pods of another namespace":            {of("bank", v1beta1.LevelPod), false, 0},
		"nodes, whatever the namespace":        {of("shop", v1beta1.LevelNode), false, 1},
		"policies count those of all of these": {of("other", v1beta1.LevelPod), true, 2},
	} {
		if got := f.count(c.d, c.everywhere); got != c.want {
			t.Errorf("%s: count = %d, want %d", name, got, c.want)
		}
	}
}
