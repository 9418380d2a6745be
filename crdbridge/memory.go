package main

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// told is what the workflow of one disruption was told. All of it may be lost:
// then the workflow is asked for once more and hears the same thing twice.
type told struct {
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
	// looked is when the caches were last looked through.
	looked time.Time
	// short is since when chaos pods are missing that status does not list.
	short time.Time
}

// misses says whether chaos pods have been missing for so long that the count
// in status is not just late, and otherwise how long it is too early to say.
func (t *told) misses(missing int, now time.Time) (sure bool, wait time.Duration) {
	if missing == 0 {
		t.short = time.Time{}
		return false, recheck
	}
	if t.short.IsZero() {
		t.short = now
	}
	left := statusLate - now.Sub(t.short)
	return left <= 0, max(left, 0)
}

// wait is how long it is too early to look again.
func (t *told) wait(now time.Time) time.Duration {
	return max(lookGap-now.Sub(t.looked), t.pause-now.Sub(t.at))
}

// sent notes an observation. While one follows another as soon as it may, the
// pauses grow up to longest, so that a change of thousands of pods is told in a
// few signals.
func (t *told) sent(hash string, now time.Time, longest time.Duration) {
	if now.Sub(t.at) < 2*t.pause {
		t.pause = min(2*t.pause, longest)
	} else {
		t.pause = gap
	}
	t.hash, t.at = hash, now
}

// memory holds what was told, by name. The queue never works on a name twice
// at once, so a value that was read may be written back.
type memory struct {
	mu     sync.Mutex
	byName map[types.NamespacedName]told
	// lost are those whose workflow is known to run no longer.
	lost map[types.NamespacedName]bool
}

func newMemory() *memory {
	return &memory{byName: make(map[types.NamespacedName]told), lost: make(map[types.NamespacedName]bool)}
}

// recall is empty for a disruption of that name with another UID, and once
// after its workflow was lost.
func (m *memory) recall(d *v1beta1.Disruption) told {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lost[nameOf(d)] {
		delete(m.lost, nameOf(d))
		return told{uid: d.UID}
	}
	if t, found := m.byName[nameOf(d)]; found && t.uid == d.UID {
		return t
	}
	return told{uid: d.UID}
}

func (m *memory) keep(d *v1beta1.Disruption, t told) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.byName[nameOf(d)] = t
}

func (m *memory) forget(name types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byName, name)
	delete(m.lost, name)
}

// lose notes that what the workflow of ref was told is lost with it. It is
// false when nobody was told anything. The value itself is left alone: somebody
// may be working on it and write it back.
func (m *memory) lose(ref v1beta1.DisruptionRef) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	t, found := m.byName[name]
	if !found || t.uid != ref.UID {
		return false
	}
	m.lost[name] = true
	return true
}

func nameOf(d *v1beta1.Disruption) types.NamespacedName {
	return types.NamespacedName{Namespace: d.Namespace, Name: d.Name}
}
