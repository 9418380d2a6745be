package nodecommand

import (
	"context"
	"sync"
	"testing"
	"time"
)

// Many searches of a node that begin at once run two at a time; those of another node
// run beside them.
func TestCommandsTakeTurnsOnANode(t *testing.T) {
	turns := turns{most: 2, busy: map[string]chan struct{}{}}
	var guard sync.Mutex
	var all sync.WaitGroup
	now, most := map[string]int{}, map[string]int{}
	count := func(node string, by int) {
		guard.Lock()
		defer guard.Unlock()
		now[node] += by
		most[node] = max(most[node], now[node])
	}
	for range 20 {
		for _, node := range []string{"one", "two"} {
			all.Go(func() {
				leave, err := turns.enter(t.Context(), node)
				if err != nil {
					t.Error(err)
					return
				}
				defer leave()
				count(node, 1)
				time.Sleep(time.Millisecond) // long enough for the others to arrive
				count(node, -1)
			})
		}
	}
	all.Wait()
	if most["one"] != 2 || most["two"] != 2 {
		t.Errorf("at the same time: %v, want 2 on each node", most)
	}
	leave, err := turns.enter(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	second, err := turns.enter(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	defer second()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := turns.enter(ctx, "one"); err == nil {
		t.Error("a third one has a turn, although the first two go on")
	}
}
