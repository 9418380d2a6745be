// Package patience bounds how long a test waits by the time that the machine gave
// it, not by the clock. A test that waits 5 s while other programs had the
// processors for 4 s has waited 1 s. It promises that a slow machine alone neither
// fails a test nor hides a failure: a test that failed while the machine lost much
// of its time prints
//
//	MACHINE: lost 41 of 60 s
//
// and the suite runs it again, alone.
//
// Lost time is defined in lost.go. Do not use this package inside a bubble of
// testing/synctest: time is fake there, and the machine's is not.
package patience

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/squall-chaos/squall/test/poll"
)

const (
	// clockLimit bounds a wait by the clock, as a multiple of its time: the loss may
	// come from the program under test, if that keeps all processors busy.
	clockLimit = 5
	// starved is the percentage of a test's time that the machine may lose before a
	// failure of the test may be the machine's.
	starved = 30
	// tries is how often Measure measures at most.
	tries = 5
)

// Within fails the test unless holds returns true, or nil, within d. Lost time
// does not count, up to four times d. A check that begins within the time counts,
// however long it takes. The failure has what, the last error, the time and the
// lost time.
func Within[H func() bool | func() error](t testing.TB, d time.Duration, what string, holds H) {
	t.Helper()
	if w := watch(t).await(d, errorOf(holds)); w.err != nil {
		t.Fatalf("not within %s: %s%s", d, what, w)
	}
}

// Promise is Within for a bound that the documents promise by a rule, such as
// E2. It prints
//
//	promise E2: held after 3.1s of 5s (lost 400ms)
//
// where the time is that of the clock without the lost time.
func Promise[H func() bool | func() error](t testing.TB, rule string, d time.Duration, what string, holds H) {
	t.Helper()
	w := watch(t).await(d, errorOf(holds))
	if w.err != nil {
		t.Fatalf("promise %s: not within %s: %s%s", rule, d, what, w)
	}
	kept(t, rule, d, w.took(), w.lost)
}

// Kept is Promise for something that the test measured itself, with a Stopwatch.
func Kept(t testing.TB, rule string, d time.Duration, what string, took, lost time.Duration) {
	t.Helper()
	if took > d {
		t.Errorf("promise %s: %s took %s, want %s at most (lost %s besides)", rule, what, took.Round(time.Millisecond), d, lost.Round(time.Millisecond))
		return
	}
	kept(t, rule, d, took, lost)
}

func kept(t testing.TB, rule string, d, took, lost time.Duration) {
	t.Helper()
	t.Logf("promise %s: held after %s of %s (lost %s)", rule, took.Round(time.Millisecond), d, lost.Round(time.Millisecond))
}

// errorOf returns a condition as a function that returns an error while it does not
// hold.
func errorOf(holds any) func() error {
	if fails, ok := holds.(func() error); ok {
		return fails
	}
	return func() error {
		if !holds.(func() bool)() {
			return errDoesNotHold
		}
		return nil
	}
}

// errDoesNotHold is for conditions that give no reason; it is not printed.
var errDoesNotHold = fmt.Errorf("it does not hold")

// Measure measures until the machine allowed for what is wanted, five times at
// most: what is wrong is wrong each time. It prints how many tries it took. An
// upper bound that no slow machine excuses belongs before the error that is
// returned, as a Fatal.
func Measure(t testing.TB, what string, measure func() error) {
	t.Helper()
	Watch(t)
	for try := 1; ; try++ {
		err := measure()
		if err == nil {
			if try > 1 {
				t.Logf("%s: measured in try %d of %d", what, try, tries)
			}
			return
		}
		t.Logf("%s: try %d of %d: %v", what, try, tries, err)
		if try == tries {
			t.Errorf("%s: not in %d tries: %v", what, tries, err)
			return
		}
	}
}

// Blame prints a line MACHINE with a reason of the test's own, such as a slow disk:
// if the test fails, the suite runs it again, alone.
func Blame(t testing.TB, format string, args ...any) {
	t.Helper()
	t.Logf("MACHINE: "+format, args...)
}

// Stopwatch starts to measure and returns what has passed since: the time on the
// clock without the lost time, and the lost time.
func Stopwatch(t testing.TB) func() (took, lost time.Duration) {
	t.Helper()
	m := watch(t)
	began, before := m.now(), m.lost()
	return func() (took, lost time.Duration) {
		now := m.now()
		lost = m.lost() - before
		return now.Sub(began) - lost, lost
	}
}

// Watch measures lost time from now to the end of the test, and prints the line
// MACHINE if the test fails while it lost more than 30 % of that. All functions of
// this package watch their test from their first call on; a test that calls Watch
// first is judged by all of its time.
func Watch(t testing.TB) {
	t.Helper()
	watch(t)
}

// meters are those of the tests that are watched.
var meters sync.Map

func watch(t testing.TB) *meter {
	if m, watched := meters.Load(t); watched {
		return m.(*meter)
	}
	m := newMeter(time.Now, readUsage)
	if other, watched := meters.LoadOrStore(t, m); watched {
		return other.(*meter)
	}
	stop := m.start()
	t.Cleanup(func() {
		stop()
		meters.Delete(t)
		if line := verdict(t.Failed(), time.Since(m.began), m.lost()); line != "" {
			t.Log(line)
		}
	})
	return m
}

// verdict is the line about a test that has ended, empty if there is nothing to
// report.
func verdict(failed bool, took, lost time.Duration) string {
	if !failed || lost*100 <= took*starved {
		return ""
	}
	return fmt.Sprintf("MACHINE: lost %s of %s s", seconds(lost), seconds(took))
}

func seconds(d time.Duration) string {
	if d >= 10*time.Second {
		return fmt.Sprintf("%.0f", d.Seconds())
	}
	return fmt.Sprintf("%.1f", d.Seconds())
}

// waited is how a wait ended. err is nil if the condition held.
type waited struct {
	clock, lost time.Duration
	err         error
}

func (w waited) took() time.Duration { return w.clock - w.lost }

// String continues a message that names the condition.
func (w waited) String() string {
	reason := ""
	if w.err != errDoesNotHold {
		reason = fmt.Sprintf(": %v", w.err)
	}
	return fmt.Sprintf("%s (%s on the clock, lost %s)", reason, w.clock.Round(time.Millisecond), w.lost.Round(time.Millisecond))
}

// await calls holds until it returns nil, or d is over.
func (m *meter) await(d time.Duration, holds func() error) waited {
	began, before := m.now(), m.lost()
	for {
		looked := m.now()
		err := holds()
		now := m.now()
		w := waited{clock: now.Sub(began), err: err}
		if err == nil || w.clock >= d {
			w.lost = m.lost() - before
		}
		if err == nil || w.took() >= d || w.clock >= clockLimit*d {
			return w
		}
		m.sleep(min(poll.Rest(w.clock, now.Sub(looked)), d-w.took()))
	}
}
