//go:build linux

package network

import (
	"context"
	"fmt"
	"strings"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// enoughMatched is how many packets must have matched before zero effects count as no
// effect. A share of one percent leaves all of as many alone once in 20,000 times.
const enoughMatched = 1000

// counted has the counts of the programs and queues of all namespaces.
type counted struct {
	matched, taken uint64 // dropped, corrupted or duplicated
	queued         uint64 // sent through a queue
}

// Prove counts the packets that were taken since Inject.
func (i *Injector) Prove(context.Context) (v1beta1.EffectState, string, error) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	var all counted
	for _, n := range i.namespaces {
		matched, taken, err := n.counts.Read()
		if err != nil {
			return "", "", err
		}
		all.matched, all.taken = all.matched+matched, all.taken+taken
		queued, err := n.queue.taken()
		if err != nil {
			return "", "", err
		}
		all.queued += queued
	}
	state, evidence := all.proof()
	return state, evidence, nil
}

// taken counts the packets that were sent through the queue.
func (q *queue) taken() (uint64, error) {
	if q == nil {
		return 0, nil
	}
	var held uint64
	if q.delayer != nil {
		held = q.delayer.Taken()
	}
	if q.counts == nil {
		return held, nil
	}
	_, taken, err := q.counts.Read()
	return held + taken, err
}

// proof returns the state of the effect for the counts.
func (c counted) proof() (v1beta1.EffectState, string) {
	var done []string
	if c.matched > 0 {
		done = append(done, fmt.Sprintf("%d of %d matching packets dropped, corrupted or duplicated", c.taken, c.matched))
	}
	if c.queued > 0 {
		done = append(done, fmt.Sprintf("%d packets delayed or queued", c.queued))
	}
	evidence := strings.Join(done, "; ")
	switch {
	case c.taken+c.queued > 0:
		return v1beta1.EffectProven, evidence
	case c.matched >= enoughMatched:
		return v1beta1.EffectIneffective, evidence
	case c.matched > 0:
		return v1beta1.EffectNothingMatchedYet, evidence
	}
	return v1beta1.EffectNothingMatchedYet, "no packet has matched"
}
