package informers

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"
)

func informer() cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(cachetesting.NewFakeControllerSource(), &corev1.Pod{}, 0, cache.Indexers{})
}

func within(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatalf("not within a minute: %s", what)
	}
}

func TestInformersEndWithTheirGroup(t *testing.T) {
	g := NewGroup()
	bridge, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		_ = g.Start(bridge)
		close(ended)
	}()
	stopped, staying := informer(), informer()
	ctx, stop := g.Context()
	listed := make(chan struct{})
	g.Run(ctx, func() { close(listed) }, stopped)
	within(t, "the first is listed", listed)
	stop()

	ctx, _ = g.Context()
	listed = make(chan struct{})
	g.Run(ctx, func() { close(listed) }, staying)
	within(t, "the second is listed", listed)
	end()
	within(t, "the group has ended", ended)
	if !stopped.IsStopped() || !staying.IsStopped() {
		t.Error("the group has ended before its informers")
	}
	late := informer()
	ctx, _ = g.Context()
	g.Run(ctx, func() { t.Error("an informer began after the group's end") }, late)
	g.done.Wait()
	if late.IsStopped() { // it has run
		t.Error("an informer began after the group's end")
	}
}
