package temporal

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Health knows whether Temporal can be reached even while there is nothing to
// tell it.
type Health struct {
	client   Client
	interval time.Duration
	// Changed has an event whenever Temporal went away or came back. Every
	// Disruption is looked at then: those that wait in silence say so too, and
	// those that are tried rarely are tried at once.
	Changed chan event.GenericEvent

	mu   sync.Mutex
	away error
}

func newHealth(c Client, interval time.Duration) *Health {
	return &Health{client: c, interval: interval, Changed: make(chan event.GenericEvent, 1)}
}

// Start asks until ctx ends. Only the bridge that leads asks.
func (h *Health) Start(ctx context.Context) error {
	every(ctx, h.interval, h.check)
	return nil
}

// Err is why Temporal could not be reached when it was last asked, or nil.
func (h *Health) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.away
}

// check takes any answer for a sign of life: a proxy may know no health checks.
func (h *Health) check(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	_, err := h.client.CheckHealth(call, &client.CheckHealthRequest{})
	if ctx.Err() == nil {
		h.set(err)
	}
}

// set notes an answer, or that there was none. An event that is sent while
// another waits would add nothing.
func (h *Health) set(err error) {
	if !Unreachable(err) {
		err = nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	changed := (err == nil) != (h.away == nil)
	h.away = err
	if !changed {
		return
	}
	select {
	case h.Changed <- event.GenericEvent{Object: &v1beta1.Disruption{}}:
	default:
	}
}

// timeout of a call. It is short while nobody answers, so that one disruption
// after the other can say so; a call that succeeds all the same proves that
// somebody does.
func (h *Health) timeout() time.Duration {
	if h.Err() != nil {
		return awayTimeout
	}
	return CallTimeout
}
