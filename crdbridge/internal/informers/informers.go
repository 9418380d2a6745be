// Package informers runs informers that begin and end at any time while the bridge runs,
// and end at the latest with the bridge.
package informers

import (
	"context"
	"sync"

	"k8s.io/client-go/tools/cache"
)

// Group is a set of informers that end together at the latest. It is safe for concurrent
// use.
type Group struct {
	all  context.Context
	stop context.CancelFunc
	mu   sync.Mutex // held while an informer begins, and while Start ends all
	done sync.WaitGroup
}

// NewGroup returns an empty group.
func NewGroup() *Group {
	g := &Group{}
	g.all, g.stop = context.WithCancel(context.Background())
	return g
}

// Context is for informers of the group: it ends with the group, or by stop.
func (g *Group) Context() (ctx context.Context, stop context.CancelFunc) {
	return context.WithCancel(g.all)
}

// Run runs informers until ctx ends, and calls listed once all have listed their objects.
// It does not wait. Once the group has ended Run starts nothing, because Start would not
// wait for it.
func (g *Group) Run(ctx context.Context, listed func(), all ...cache.SharedIndexInformer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all.Err() != nil {
		return
	}
	var synced []cache.InformerSynced
	for _, informer := range all {
		synced = append(synced, informer.HasSynced)
		g.done.Go(func() { informer.RunWithContext(ctx) })
	}
	g.done.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), synced...) {
			listed()
		}
	})
}

// Start ends all informers when ctx does, and returns when they have ended.
func (g *Group) Start(ctx context.Context) error {
	<-ctx.Done()
	g.mu.Lock()
	g.stop()
	g.mu.Unlock()
	g.done.Wait()
	return nil
}
