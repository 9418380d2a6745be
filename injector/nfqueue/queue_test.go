//go:build linux

package nfqueue

import (
	"slices"
	"testing"
	"time"
)

func TestPacketsGoWhenTheyAreDue(t *testing.T) {
	now := time.Now()
	q := &queue{wake: make(chan struct{}, 1)}
	for id, after := range []time.Duration{30, 10, 20, 50, 40} {
		q.add(packet{now.Add(after * time.Millisecond), uint32(id)})
	}
	select {
	case <-q.wake:
	default:
		t.Error("nobody is told that the first to go has changed")
	}
	due, next := q.take(now.Add(25 * time.Millisecond))
	if got := ids(due); !slices.Equal(got, []uint32{1, 2}) || next != 5*time.Millisecond {
		t.Errorf("after 25 ms: %v, the next in %s, want 1 and 2, and 5 ms", got, next)
	}
	due, _ = q.take(now.Add(time.Second))
	if got := ids(due); !slices.Equal(got, []uint32{0, 4, 3}) {
		t.Errorf("in the end: %v, want the others in order", got)
	}
	for id := range uint32(3 * mostVerdicts) {
		q.add(packet{now, id})
	}
	if due, _ = q.take(now); len(due) != mostVerdicts {
		t.Errorf("%d packets at once, want at most %d", len(due), mostVerdicts)
	}
}

func ids(packets []packet) []uint32 {
	var found []uint32
	for _, p := range packets {
		found = append(found, p.id)
	}
	return found
}

func TestWaitIsSpreadEvenlyAroundTheDelay(t *testing.T) {
	const times = 20000
	q := &queue{delay: 100 * time.Millisecond, jitter: 30 * time.Millisecond}
	tenths := make([]int, 10)
	for range times {
		wait := q.wait()
		if wait < 70*time.Millisecond || wait > 130*time.Millisecond {
			t.Fatalf("a packet waits %s, want 70 to 130 ms", wait)
		}
		tenths[min(int((wait-70*time.Millisecond)/(6*time.Millisecond)), 9)]++
	}
	for tenth, got := range tenths {
		if got < times/10*8/10 || got > times/10*12/10 {
			t.Errorf("%d of %d packets are in tenth %d, want about %d", got, times, tenth, times/10)
		}
	}
	for range 100 {
		if wait := (&queue{delay: time.Millisecond, jitter: 2 * time.Millisecond}).wait(); wait < 0 {
			t.Fatalf("a packet waits %s", wait)
		}
	}
}
