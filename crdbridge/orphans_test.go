package main

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// ripOff takes the finalizer off and deletes d before the bridge can put it
// back on: its writes are held up meanwhile.
func (b *bridge) ripOff(d *v1beta1.Disruption) {
	b.t.Helper()
	b.holdWrites(true)
	defer b.holdWrites(false)
	b.must(b.kube.Patch(b.t.Context(), d, client.RawPatch(mergePatch, []byte(`{"metadata":{"finalizers":null}}`))))
	b.must(b.kube.Delete(b.t.Context(), d))
}

func (b *bridge) holdWrites(hold bool) {
	b.traffic.mu.Lock()
	defer b.traffic.mu.Unlock()
	b.traffic.before = nil
	if hold {
		b.traffic.before = func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPatch {
				return nil, errors.New("held up by the test")
			}
			return nil, nil
		}
	}
}

func (b *bridge) ends(d *v1beta1.Disruption) int {
	return len(b.temporal.signals(d, contract.SignalEnd))
}

// held is a Disruption with a chaos pod, of which all is told.
func (b *bridge) held(name string) (*v1beta1.Disruption, *corev1.Pod) {
	b.t.Helper()
	target := b.pod(b.namespace, "shop", map[string]string{"app": "shop"})
	d := b.disrupt(name)
	chaos := b.chaosPod(d, name+"-chaos", target)
	b.told(d)
	b.setStatus(d, func(s *v1beta1.DisruptionStatus) { s.Phase = v1beta1.PhaseHolding })
	b.quiet(d)
	return d, chaos
}

func TestADisruptionThatWasRippedOffIsEndedAtOnce(t *testing.T) {
	b := newBridge(t).start()
	d, chaos := b.held("ripped")
	b.ripOff(d)
	began := time.Now()
	eventually(t, soon, "its workflow is told to end", func() bool { return b.ends(d) == 1 })
	t.Logf("told after %s", time.Since(began))
	for range 5 { // what becomes of its chaos pods is no news
		chaos.Labels["touched"] = time.Now().Format("150405.000000000")
		b.must(b.kube.Update(t.Context(), chaos))
	}
	never(t, 500*time.Millisecond, "it is told again", func() bool { return b.ends(d) > 1 })
	if n := b.temporal.starts(d); n != 1 {
		t.Errorf("starts = %d, want no second workflow beside the one that runs", n)
	}
}

func TestADisruptionWithoutChaosPodsThatWasRippedOffIsEndedToo(t *testing.T) {
	b := newBridge(t).start()
	d := b.disrupt("waits-for-targets")
	b.told(d)
	b.ripOff(d)
	eventually(t, soon, "its workflow is told to end", func() bool { return b.ends(d) == 1 })
}

func TestADisruptionThatWasRippedOffWhileNoBridgeRanIsEnded(t *testing.T) {
	b := newBridge(t).start()
	d, _ := b.held("unseen")
	b.must(b.stop())
	b.ripOff(d)
	b.start()
	eventually(t, soon, "its chaos pod gives it away", func() bool { return b.ends(d) == 1 })
}

func TestARippedOffDisruptionWhoseWorkflowIsLostIsCleanedByANewOne(t *testing.T) {
	b := newBridge(t).start()
	d, _ := b.held("lost")
	b.temporal.answers(func(_ context.Context, call string) error {
		if call != "start" {
			return serviceerror.NewNotFound("workflow execution already completed")
		}
		return nil
	})
	b.ripOff(d)
	eventually(t, soon, "one is started", func() bool { return b.temporal.starts(d) == 2 })
	b.temporal.mu.Lock()
	defer b.temporal.mu.Unlock()
	if in := b.temporal.inputs[contract.WorkflowID(d.Ref())]; in.Disruption != d.Ref() {
		t.Errorf("input = %+v, want %+v", in, d.Ref())
	}
}

func TestADisruptionThatWasLetGoIsNotEndedAgain(t *testing.T) {
	b := newBridge(t).start()
	d, chaos := b.held("in-order")
	b.must(b.kube.Delete(t.Context(), d))
	eventually(t, soon, "it is told to end", func() bool { return b.ends(d) == 1 })
	for _, o := range []client.Object{chaos, d} { // what the workflow does, in its order
		if o == d {
			b.setStatus(d, func(s *v1beta1.DisruptionStatus) { s.Phase = v1beta1.PhaseFinished })
		}
		b.must(b.kube.Patch(t.Context(), o, client.RawPatch(mergePatch, []byte(`{"metadata":{"finalizers":null}}`))))
		b.must(client.IgnoreNotFound(b.kube.Delete(t.Context(), o, client.GracePeriodSeconds(0))))
	}
	never(t, time.Second, "it is told to end once more", func() bool { return b.ends(d) != 1 })
}

// A bridge whose cache lags behind must not end what it has not seen begin.
func TestADisruptionThatTheCacheLacksIsNotEnded(t *testing.T) {
	b := newBridge(t)
	cut := newCut("disruptions")
	b.traffic.before, b.traffic.after = cut.before, cut.after
	b.start()
	b.told(b.disrupt("first")) // the caches are full
	cut.down()
	target := b.pod(b.namespace, "shop", map[string]string{"app": "shop"})
	d := b.disrupt("unseen")
	b.traffic.reset()
	b.chaosPod(d, "chaos", target)
	eventually(t, soon, "it is looked for live", func() bool { return b.traffic.count("GET disruptions") > 0 })
	never(t, 500*time.Millisecond, "its workflow is told to end", func() bool { return b.ends(d) > 0 })
	cut.up()
}
