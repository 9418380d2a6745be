package disruption

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// sentState is what the bridge sent to the workflow of one disruption. If it is lost, the
// bridge starts the workflow again and sends the same things twice.
type sentState struct {
	uid types.UID
	// checked is when the workflow was last known to run.
	checked time.Time
	// end is true once the signal end was sent.
	end bool
	// hash is that of the last observation sent, at the time it was sent, and
	// pause the shortest time until the next.
	hash  string
	at    time.Time
	pause time.Duration
	// lostAt is when an observation was last sent of chaos pods that ended or targets that
	// were lost, and changedAt when a change was first seen that was not sent yet.
	lostAt, changedAt time.Time
	// debt grows by spareGap with each observation, and shrinks as time passes.
	debt time.Duration
	// readAt is when the caches were last read, and readTook how long that took.
	readAt   time.Time
	readTook time.Duration
	// missingSince is when unlisted chaos pods were first found missing; zero if
	// none are.
	missingSince time.Time
	// differsSince is when status was first found to count other targets than the last
	// observation; zero if it counts the same. repeated is true once that was sent again.
	differsSince time.Time
	repeated     bool
}

// repeats is true once status has counted other targets than the last observation for
// repeatAfter. Targets then left and came back, or came and left, between two observations,
// and the workflow chose in between. It is sent the same observation again, once. Until then
// wait is the time that remains.
func (t *sentState) repeats(differs bool, now time.Time) (due bool, wait time.Duration) {
	t.repeated = t.repeated && differs
	due, wait = sustained(differs, &t.differsSince, repeatAfter, now)
	if t.repeated {
		return false, recheck
	}
	return due, wait
}

// misses is sure once chaos pods have been missing for so long that the count in status is
// not just late. Until then wait is the time that remains.
func (t *sentState) misses(missing int, now time.Time) (sure bool, wait time.Duration) {
	return sustained(missing > 0, &t.missingSince, statusLate, now)
}

// sustained is true once something has been wrong for so long. since is when that was first
// found; zero if nothing is wrong. Until then wait is the time that remains.
func sustained(wrong bool, since *time.Time, long time.Duration, now time.Time) (sure bool, wait time.Duration) {
	if !wrong {
		*since = time.Time{}
		return false, recheck
	}
	if since.IsZero() {
		*since = now
	}
	left := long - now.Sub(*since)
	return left <= 0, max(left, 0)
}

// wait is the time until the caches may be read again.
func (t *sentState) wait(now time.Time) time.Duration {
	between := max(readGap, min(readShare*t.readTook, longestReadGap))
	return max(between-now.Sub(t.readAt), t.pause-now.Sub(t.at), t.owed(now)-burst*spareGap)
}

// gather is how long it is too early to send a change. While targets come and go, a lost
// target and its replacement are sent together.
func (t *sentState) gather(now time.Time) time.Duration {
	if t.lostAt.IsZero() || now.Sub(t.lostAt) >= churnMemory {
		return 0
	}
	if t.changedAt.IsZero() {
		t.changedAt = now
	}
	return max(gatherGap-now.Sub(t.changedAt), 0)
}

func (t *sentState) owed(now time.Time) time.Duration { return max(t.debt-now.Sub(t.at), 0) }

// sent records an observation. While one observation follows another as soon as it may, the
// pauses grow up to longest. So a change of thousands of pods is sent in a few signals.
func (t *sentState) sent(hash string, now time.Time, longest time.Duration) {
	if now.Sub(t.at) < 2*t.pause {
		t.pause = min(2*t.pause, longest)
	} else {
		t.pause = gap
	}
	t.debt = t.owed(now) + spareGap
	t.repeated = hash == t.hash
	if !t.repeated {
		t.differsSince = time.Time{}
	}
	t.hash, t.at, t.changedAt = hash, now, time.Time{}
}

// sentStates holds the state of each disruption, by name. The queue never works on a name
// twice at once, so a caller may write back a value that it read.
type sentStates struct {
	mu     sync.Mutex
	byName map[types.NamespacedName]sentState
	// lost has the disruptions whose workflow no longer runs.
	lost map[types.NamespacedName]bool
}

func newSentStates() *sentStates {
	return &sentStates{byName: make(map[types.NamespacedName]sentState), lost: make(map[types.NamespacedName]bool)}
}

// recall is empty for a disruption of that name with another UID, and once after its
// workflow was lost.
func (s *sentStates) recall(d *v1beta1.Disruption) sentState {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost[nameOf(d)] {
		delete(s.lost, nameOf(d))
		return sentState{uid: d.UID}
	}
	if t, found := s.byName[nameOf(d)]; found && t.uid == d.UID {
		return t
	}
	return sentState{uid: d.UID}
}

func (s *sentStates) keep(d *v1beta1.Disruption, t sentState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byName[nameOf(d)] = t
}

func (s *sentStates) forget(name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byName, name)
	delete(s.lost, name)
}

// lose records that the workflow of ref no longer runs, and with it what it was sent. It
// returns false when nothing was sent. It leaves the value itself alone, because a
// reconcile may be working on it and write it back.
func (s *sentStates) lose(ref v1beta1.DisruptionRef) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	t, found := s.byName[name]
	if !found || t.uid != ref.UID {
		return false
	}
	s.lost[name] = true
	return true
}

func nameOf(d *v1beta1.Disruption) types.NamespacedName {
	return types.NamespacedName{Namespace: d.Namespace, Name: d.Name}
}
