package main

import (
	"context"
	"sync"
	"time"

	temporalclient "go.temporal.io/sdk/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// pulseEvery is how often Temporal is asked whether it is there.
const pulseEvery = 5 * time.Second

// pulse knows whether Temporal can be reached even while there is nothing to
// tell it. When that changes every Disruption is looked at: those that wait in
// silence say so too, and those that are tried rarely are tried at once.
type pulse struct {
	temporal orchestrator
	changed  chan event.GenericEvent

	mu   sync.Mutex
	away error
}

func newPulse(temporal orchestrator) *pulse {
	return &pulse{temporal: temporal, changed: make(chan event.GenericEvent, 1)}
}

// Start asks until ctx ends. Only the bridge that leads asks.
func (p *pulse) Start(ctx context.Context) error {
	ticker := time.NewTicker(pulseEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			p.beat(ctx)
		}
	}
}

// err is why Temporal could not be reached when it was last asked, or nil.
func (p *pulse) err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.away
}

// beat takes any answer for a sign of life: a proxy may know no health checks.
func (p *pulse) beat(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := p.temporal.CheckHealth(call, &temporalclient.CheckHealthRequest{})
	if ctx.Err() == nil {
		p.set(err)
	}
}

// set notes an answer, or that there was none. When that is news, it has every
// Disruption looked at; a second notice while the first waits would add nothing.
func (p *pulse) set(err error) {
	if !unreachable(err) {
		err = nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	turned := (err == nil) != (p.away == nil)
	p.away = err
	if !turned {
		return
	}
	select {
	case p.changed <- event.GenericEvent{Object: &v1beta1.Disruption{}}:
	default:
	}
}

// timeout of a call. It is short while nobody answers, so that one look after
// the other can say so; a call that succeeds all the same proves that somebody does.
func (p *pulse) timeout() time.Duration {
	if p.err() != nil {
		return awayTimeout
	}
	return callTimeout
}
