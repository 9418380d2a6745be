package main

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/internal/bridgetest"
)

// rule I15
func TestAPanicCostsOneDisruptionItsTurn(t *testing.T) {
	b := newBridge(t)
	var panics atomic.Int32
	b.Temporal.Answers(func(_ context.Context, call string) error {
		if call == "start" && panics.Add(1) == 1 {
			panic("a defect that one disruption meets")
		}
		return nil
	})
	b.start()
	first := b.Create("first")
	bridgetest.Eventually(t, bridgetest.Soon, "the first one's start panics", func() bool { return panics.Load() > 0 })
	second := b.Create("second")
	bridgetest.Eventually(t, bridgetest.Soon, "the other one is started", func() bool { return b.Temporal.Starts(second) == 1 })
	bridgetest.Eventually(t, bridgetest.Soon, "the first one has its turn again", func() bool { return b.Temporal.Starts(first) == 1 })
}

// rule I16
func TestTheCacheHoldsWhatAHandlerReceives(t *testing.T) {
	b := newBridge(t).start()
	informer, err := b.Manager.GetCache().GetInformer(t.Context(), &v1beta1.Disruption{})
	b.Must(err)
	var received, behind atomic.Int32
	look := func(object any) {
		d, ok := object.(*v1beta1.Disruption)
		if !ok || d.Namespace != b.Namespace {
			return
		}
		received.Add(1)
		var held v1beta1.Disruption
		err := b.Manager.GetClient().Get(context.Background(), client.ObjectKeyFromObject(d), &held)
		if err != nil || version(held) < version(*d) {
			behind.Add(1)
		}
	}
	registered, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: look, UpdateFunc: func(_, now any) { look(now) }})
	b.Must(err)
	defer func() { _ = informer.RemoveEventHandler(registered) }()
	const many = 20
	for i := range many {
		d := b.Create(fmt.Sprint("received-", i))
		b.Must(b.Kube.Patch(t.Context(), d, client.RawPatch(bridgetest.MergePatch, []byte(`{"metadata":{"labels":{"edit":"1"}}}`))))
	}
	bridgetest.Eventually(t, bridgetest.Soon, "all are received", func() bool { return received.Load() >= 2*many })
	if n := behind.Load(); n != 0 {
		t.Errorf("the cache was behind its events in %d of %d cases", n, received.Load())
	}
}

// version is an object's version as a number: this API server only counts up.
func version(d v1beta1.Disruption) int {
	n, _ := strconv.Atoi(d.ResourceVersion) // 0 if it is none
	return n
}
