package orphan

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/internal/bridgetest"
	"github.com/squall-chaos/squall/workflows/contract"
)

// ripOff removes the finalizer and deletes d before the bridge can add it again: its writes
// are held up meanwhile.
func (b *bridge) ripOff(d *v1beta1.Disruption) {
	b.T.Helper()
	b.holdWrites(true)
	defer b.holdWrites(false)
	b.Must(b.Kube.Patch(b.T.Context(), d, client.RawPatch(bridgetest.MergePatch, []byte(`{"metadata":{"finalizers":null}}`))))
	b.Must(b.Kube.Delete(b.T.Context(), d))
}

func (b *bridge) holdWrites(hold bool) {
	if !hold {
		b.Traffic.Intercept(nil)
		return
	}
	b.Traffic.Intercept(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPatch {
			return nil, errors.New("held up by the test")
		}
		return nil, nil
	})
}

func (b *bridge) ends(d *v1beta1.Disruption) int {
	return len(b.Temporal.Signals(d, contract.SignalEnd))
}

// held is a Disruption with a chaos pod, whose workflow has every signal.
func (b *bridge) held(name string) (*v1beta1.Disruption, *corev1.Pod) {
	b.T.Helper()
	target := b.Pod(b.Namespace, "shop", map[string]string{"app": "shop"})
	d := b.Disrupt(name)
	chaos := b.ChaosPod(d, name+"-chaos", target)
	b.Informed(d)
	b.SetStatus(d, func(s *v1beta1.DisruptionStatus) { s.Phase = v1beta1.PhaseHolding })
	b.Quiet()
	return d, chaos
}

// handledPods waits until the controller has acted on every earlier change of a chaos pod.
// It makes a chaos pod whose Disruption never existed, and waits for the end of its
// workflow. The controller has one worker, which takes one after the other.
func (b *bridge) handledPods() {
	b.T.Helper()
	marker := &v1beta1.Disruption{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: "nobody", UID: "nobody"}}
	b.ChaosPod(marker, "marker", &corev1.Pod{})
	bridgetest.Eventually(b.T, bridgetest.Soon, "the marker's workflow is signalled to end", func() bool { return b.ends(marker) > 0 })
}

func TestADisruptionThatWasRippedOffIsEndedAtOnce(t *testing.T) {
	b := newBridge(t).start()
	d, chaos := b.held("ripped")
	b.ripOff(d)
	began := time.Now()
	bridgetest.Eventually(t, bridgetest.Soon, "its workflow is signalled to end", func() bool { return b.ends(d) == 1 })
	t.Logf("signalled after %s", time.Since(began))
	for range 5 { // changes of its chaos pods signal nothing
		chaos.Labels["touched"] = time.Now().Format("150405.000000000")
		b.Must(b.Kube.Update(t.Context(), chaos))
	}
	b.handledPods()
	if n := b.ends(d); n != 1 {
		t.Errorf("it is signalled to end %d times, want once", n)
	}
	if n := b.Temporal.Starts(d); n != 1 {
		t.Errorf("starts = %d, want no second workflow beside the one that runs", n)
	}
}

func TestADisruptionWithoutChaosPodsThatWasRippedOffIsEndedToo(t *testing.T) {
	b := newBridge(t).start()
	d := b.Disrupt("waits-for-targets")
	b.Informed(d)
	b.ripOff(d)
	bridgetest.Eventually(t, bridgetest.Soon, "its workflow is signalled to end", func() bool { return b.ends(d) == 1 })
}

func TestADisruptionThatWasRippedOffWhileNoBridgeRanIsEnded(t *testing.T) {
	b := newBridge(t).start()
	d, _ := b.held("unseen")
	b.Must(b.Stop())
	b.ripOff(d)
	b.start()
	bridgetest.Eventually(t, bridgetest.Soon, "its chaos pod gives it away", func() bool { return b.ends(d) == 1 })
}

func TestARippedOffDisruptionWithoutItsWorkflowIsCleanedByAnotherOne(t *testing.T) {
	b := newBridge(t).start()
	d, _ := b.held("lost")
	b.Temporal.Answers(func(_ context.Context, call string) error {
		if call != "start" {
			return serviceerror.NewNotFound("workflow execution already completed")
		}
		return nil
	})
	b.ripOff(d)
	bridgetest.Eventually(t, bridgetest.Soon, "one is started", func() bool { return b.Temporal.Starts(d) == 2 })
	system := &corev1.Namespace{}
	b.Must(b.Kube.Get(t.Context(), client.ObjectKey{Name: "kube-system"}, system))
	ref := d.Ref()
	ref.Cluster = system.UID // rule S4
	b.Temporal.Mu.Lock()
	defer b.Temporal.Mu.Unlock()
	if in := b.Temporal.Inputs[contract.WorkflowID(ref)]; in.Disruption != ref {
		t.Errorf("input = %+v, want %+v", in, ref)
	}
}

func TestAFinalizedDisruptionIsNotEndedAgain(t *testing.T) {
	b := newBridge(t).start()
	d, chaos := b.held("in-order")
	b.Must(b.Kube.Delete(t.Context(), d))
	bridgetest.Eventually(t, bridgetest.Soon, "it is signalled to end", func() bool { return b.ends(d) == 1 })
	for _, o := range []client.Object{chaos, d} { // the deletions of the workflow, in its order
		if o == d {
			b.SetStatus(d, func(s *v1beta1.DisruptionStatus) { s.Phase = v1beta1.PhaseFinished })
		}
		b.Must(b.Kube.Patch(t.Context(), o, client.RawPatch(bridgetest.MergePatch, []byte(`{"metadata":{"finalizers":null}}`))))
		b.Must(client.IgnoreNotFound(b.Kube.Delete(t.Context(), o, client.GracePeriodSeconds(0))))
	}
	later := b.Disrupt("later")
	b.Informed(later)
	b.ripOff(later) // is handled after d, by the one worker
	bridgetest.Eventually(t, bridgetest.Soon, "the later one is signalled to end", func() bool { return b.ends(later) > 0 })
	if n := b.ends(d); n != 1 {
		t.Errorf("it is signalled to end %d times, want once", n)
	}
}

// A bridge whose cache lags behind must not end a disruption that it has not seen begin.
func TestADisruptionThatTheCacheLacksIsNotEnded(t *testing.T) {
	b := newBridge(t)
	cut := bridgetest.NewCut("disruptions")
	b.Traffic.Before, b.Traffic.After = cut.Before, cut.After
	b.start()
	b.Informed(b.Disrupt("first")) // the caches are full
	cut.Down()
	target := b.Pod(b.Namespace, "shop", map[string]string{"app": "shop"})
	d := b.Disrupt("unseen")
	b.Traffic.Reset()
	b.ChaosPod(d, "chaos", target)
	bridgetest.Eventually(t, bridgetest.Soon, "it is looked for live", func() bool { return b.Traffic.Count("GET disruptions") > 0 })
	b.handledPods()
	if n := b.ends(d); n > 0 {
		t.Errorf("its workflow is signalled to end %d times, want never", n)
	}
	cut.Up()
}

// rule I7
func TestADisruptionThatWasRippedOffUnseenIsEnded(t *testing.T) {
	for name, replaced := range map[string]bool{
		"it is gone when the watch is back":           false,
		"another has its name when the watch is back": true,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBridge(t)
			cut := bridgetest.NewCut("disruptions")
			b.Traffic.Before, b.Traffic.After = cut.Before, cut.After
			b.start()
			d := b.Disrupt("unseen") // it has no chaos pod that could show it
			b.Informed(d)
			b.Quiet()

			cut.Down()
			b.Must(b.Kube.Patch(t.Context(), d, client.RawPatch(bridgetest.MergePatch, []byte(`{"metadata":{"finalizers":null}}`))))
			b.Must(b.Kube.Delete(t.Context(), d))
			var other *v1beta1.Disruption
			if replaced {
				other = b.Disrupt("unseen")
			}
			cut.Up()
			bridgetest.Eventually(t, bridgetest.Soon, "its workflow is signalled to end", func() bool { return b.ends(d) == 1 })
			if !cut.ListedAgain() {
				t.Error("the watch went on where it was: nothing was missed")
			}
			if replaced {
				b.Informed(other)
				if n := b.ends(other); n > 0 {
					t.Errorf("the workflow of the one that has its name now was signalled to end %d times", n)
				}
			}
		})
	}
}
