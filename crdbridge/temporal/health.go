package temporal

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Health knows whether Temporal can be reached, also while there is nothing to send.
type Health struct {
	client   Client
	interval time.Duration
	// Changed has an event whenever Temporal becomes unreachable or reachable. Every
	// Disruption is reconciled then: those that wait without calls report it too, and those
	// with long pauses retry at once.
	Changed chan event.GenericEvent

	mu   sync.Mutex
	away error
}

func newHealth(c Client, interval time.Duration) *Health {
	return &Health{client: c, interval: interval, Changed: make(chan event.GenericEvent, 1)}
}

// Start polls until ctx ends. Only the bridge that leads polls.
func (h *Health) Start(ctx context.Context) error {
	every(ctx, h.interval, h.check)
	return nil
}

// Err is why the last check could not reach Temporal, or nil.
func (h *Health) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.away
}

// check accepts any answer: a proxy may know no health checks.
func (h *Health) check(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	_, err := h.client.CheckHealth(call, &client.CheckHealthRequest{})
	if ctx.Err() == nil {
		h.set(err)
	}
}

// set records an answer, or that there was none. It drops an event while another one waits.
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

// timeout bounds a call. It is short while Temporal does not answer, so that one disruption
// after the other can report it. A call that still succeeds proves that Temporal answers.
func (h *Health) timeout() time.Duration {
	if h.Err() != nil {
		return awayTimeout
	}
	return CallTimeout
}
