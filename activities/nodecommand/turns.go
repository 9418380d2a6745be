package nodecommand

import (
	"context"
	"sync"
)

// perNode bounds how many commands of this worker run on one node at the same time.
// When many disruptions end at once, each has its nodes searched. Without the bound,
// all their pods together would start so slowly that none is ready in time, and be
// created again.
const perNode = 2

// commands are the turns of all commands of this process.
var commands = turns{most: perNode, busy: map[string]chan struct{}{}}

// turns bounds how many callers act on a node at once.
type turns struct {
	most  int
	guard sync.Mutex
	busy  map[string]chan struct{}
}

// enter waits for a turn on the node; leave ends it. It fails when ctx ends first.
func (t *turns) enter(ctx context.Context, node string) (leave func(), err error) {
	t.guard.Lock()
	slots := t.busy[node]
	if slots == nil {
		slots = make(chan struct{}, t.most)
		t.busy[node] = slots
	}
	t.guard.Unlock()
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
