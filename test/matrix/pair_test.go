package matrix

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/squall-chaos/squall/test/poll"
)

// secondBridge is the other one of a slot with two. Points name both alike: which of
// them leads is up to them.
const secondBridge = "bridge-2"

// role is what points call a program.
func role(program string) string { return strings.TrimSuffix(program, "-2") }

// lease is how long a bridge that was killed keeps the other from acting.
const lease = 2 * time.Second

// lives are the bridges of a slot that has two. Only one acts; when it is killed it is
// started again once the other one does. A bridge that loses its lease, because the machine
// is too busy to renew it in time, ends and is started again, as by a kubelet.
type lives struct {
	// leader has written the lease last.
	leader string
	// down are those that a fault keeps from running.
	down map[string]bool
}

// lost is what a bridge logs when it ends because it could not renew its lease.
const lost = "leader election lost"

// fit gives the slot one bridge, or two that elect a leader, and waits until there is
// one.
func (s *slot) fit(pair bool) error {
	if pair == (s.pair != nil) {
		return nil
	}
	s.mu.Lock()
	stop := s.stopKeeping
	s.pair, s.stopKeeping = nil, func() {}
	s.mu.Unlock()
	stop()
	first, second := s.programs[bridge], s.programs[secondBridge]
	first.Kill()
	if !pair {
		second.Kill()
		delete(s.programs, secondBridge)
		first.Env = append(first.Env, "SQUALL_LEADER_ELECTION=false")
		first.Start()
		return nil
	}
	elect := []string{"SQUALL_LEADER_ELECTION=true", "SQUALL_LEADER_ELECTION_NAMESPACE=" + s.chaos, "SQUALL_LEADER_ELECTION_LEASE=" + lease.String()}
	first.Env = append(first.Env, elect...)
	second = s.newBridge(secondBridge)
	second.Env = append(second.Env, elect...)
	ctx, stop := context.WithCancel(s.world.Context())
	s.mu.Lock()
	s.programs[secondBridge] = second
	s.pair, s.stopKeeping = &lives{down: map[string]bool{}}, stop
	s.mu.Unlock()
	first.Start()
	second.Start()
	go s.keep(ctx)
	return s.untilLeads(bridge, secondBridge)
}

// keep starts bridges again that have ended by themselves, and notes what was wrong
// with an end that was not for the lease.
func (s *slot) keep(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
		s.mu.Lock()
		for _, name := range []string{bridge, secondBridge} {
			p := s.programs[name]
			if ctx.Err() != nil || s.pair.down[name] || !p.Over() {
				continue
			}
			if output := p.Output(); !strings.Contains(output[max(0, len(output)-500):], lost) {
				s.ended = errors.Join(s.ended, fmt.Errorf("%s ended by itself:\n%s", name, output[max(0, len(output)-2000):]))
			}
			p.Start()
		}
		s.mu.Unlock()
	}
}

// untilLeads waits until one of these bridges acts.
func (s *slot) untilLeads(any ...string) error {
	err := poll.Until(s.world.Context(), patience, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.Contains(any, s.pair.leader)
	})
	if err != nil {
		return fmt.Errorf("%w: %s acts", err, strings.Join(any, " or "))
	}
	return nil
}

// leads notes who has written the lease; a bridge that ends well takes its name off it.
func (s *slot) leads(program string, written runtime.Object) {
	l, ok := written.(*coordinationv1.Lease)
	s.mu.Lock()
	defer s.mu.Unlock()
	if ok && s.pair != nil && l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity != "" {
		s.pair.leader = program
	}
}

// acts is false for a bridge that waits until the other one ends.
func (s *slot) acts(program string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pair == nil || program == worker || program == s.pair.leader
}
