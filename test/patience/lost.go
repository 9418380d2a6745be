package patience

import (
	"sync"
	"time"
)

// Lost time of a process is counted in windows of about 100 ms. In each it is the
// largest of
//
//   - what a goroutine overslept that sleeps 10 ms at a time,
//   - how long a thread of the process waited for a processor, on average over the
//     threads that wanted one (run delay of schedstat; Linux alone),
//   - what the host of a virtual machine took from each processor, on average
//     (steal of /proc/stat; Linux alone),
//
// and never more than the window. The three are not added: a stolen processor also
// makes threads wait and sleepers late, so a sum would count a loss up to three
// times. The largest is at most what was lost, which makes a bound stricter and
// never looser.

const (
	nap = 10 * time.Millisecond
	// exact is what a timer may be late on an idle machine: the runtime rounds to
	// milliseconds.
	exact = time.Millisecond
	// window is how long run delay and steal are counted together. Steal is counted
	// in hundredths of a second.
	window = 100 * time.Millisecond
)

// lostIn is the lost time of a window. The threads of the process together ran, and
// were delayed while they could have run.
func lostIn(window, overslept, ran, delayed, stolen time.Duration) time.Duration {
	if wanted := ran + delayed; wanted > window {
		// wanted/window threads wanted to run at a time: each lost its part.
		delayed = time.Duration(float64(delayed) * float64(window) / float64(wanted))
	}
	return min(window, max(overslept, delayed, stolen))
}

// usage is what the kernel has counted so far.
type usage struct {
	threads map[string]thread // of this process, by ID
	stolen  time.Duration     // from each processor, on average
}

// thread is how long a thread ran, and waited for a processor while it could run.
type thread struct{ ran, delayed time.Duration }

// since returns what was counted after before. Threads that have ended since are
// left out.
func (u usage) since(before usage) (ran, delayed, stolen time.Duration) {
	for id, now := range u.threads {
		then := before.threads[id] // nothing for a new one
		if now.ran < then.ran {
			then = thread{} // another thread with the same ID
		}
		ran += now.ran - then.ran
		delayed += max(0, now.delayed-then.delayed)
	}
	return ran, delayed, max(0, u.stolen-before.stolen)
}

// meter adds lost time up.
type meter struct {
	now   func() time.Time
	sleep func(time.Duration)
	usage func() usage
	began time.Time

	mu        sync.Mutex
	opened    time.Time // of the window
	due       time.Time // when the sleeper is to wake; what is later is lost
	overslept time.Duration
	counted   usage // at the window's begin
	total     time.Duration
}

func newMeter(now func() time.Time, read func() usage) *meter {
	began := now()
	return &meter{now: now, sleep: time.Sleep, usage: read, began: began, opened: began, due: began.Add(nap), counted: read()}
}

// start has a goroutine sleep until stop is called, which waits for its end.
func (m *meter) start() (stop func()) {
	ask, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			timer := time.NewTimer(m.lieDown())
			select {
			case <-ask:
				timer.Stop()
				return
			case <-timer.C:
				m.wake()
			}
		}
	}()
	return func() { close(ask); <-ended }
}

// lieDown returns how long to sleep.
func (m *meter) lieDown() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.due = m.now().Add(nap)
	return nap
}

// wake counts what was overslept, and ends the window when it is time.
func (m *meter) wake() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	m.late(now)
	if now.Sub(m.opened) >= window {
		m.settle(now)
	}
}

// lost is all lost time up to now, also if the sleeper itself has not had its turn.
func (m *meter) lost() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	m.late(now)
	m.settle(now)
	return m.total
}

// late counts what the sleeper overslept until now.
func (m *meter) late(now time.Time) {
	if over := now.Sub(m.due) - exact; over > 0 {
		m.overslept += over
		m.due = now.Add(-exact)
	}
}

// settle ends a window.
func (m *meter) settle(now time.Time) {
	counted := m.usage()
	ran, delayed, stolen := counted.since(m.counted)
	m.total += lostIn(now.Sub(m.opened), m.overslept, ran, delayed, stolen)
	m.opened, m.overslept, m.counted = now, 0, counted
}
