package patience

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestLostIn(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name                                          string
		window, overslept, ran, delayed, stolen, want time.Duration
	}{
		{"an idle machine", 100 * ms, 0, 10 * ms, 0, 0, 0},
		{"the sleeper alone", 100 * ms, 40 * ms, 0, 0, 0, 40 * ms},
		{"a thread that runs little and waits", 100 * ms, 0, 5 * ms, 30 * ms, 0, 30 * ms},
		{"the same loss seen three times counts once", 100 * ms, 40 * ms, 50 * ms, 30 * ms, 35 * ms, 40 * ms},
		{"four threads that want to run, on two processors", 100 * ms, 0, 200 * ms, 200 * ms, 0, 50 * ms},
		{"two threads, each with half a processor", 100 * ms, 0, 100 * ms, 100 * ms, 0, 50 * ms},
		{"a thread that waits since before the window", 100 * ms, 0, 0, 900 * ms, 0, 100 * ms},
		{"steal alone", 100 * ms, 0, 100 * ms, 0, 60 * ms, 60 * ms},
		{"never more than the window", 100 * ms, 300 * ms, 0, 0, 200 * ms, 100 * ms},
		{"an empty window", 0, 0, 0, 10 * ms, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := lostIn(c.window, c.overslept, c.ran, c.delayed, c.stolen); got != c.want {
				t.Errorf("lostIn = %s, want %s", got, c.want)
			}
		})
	}
}

func TestUsageSince(t *testing.T) {
	before := usage{stolen: 5, threads: map[string]thread{"1": {10, 20}, "2": {100, 100}, "3": {50, 50}}}
	after := usage{stolen: 9, threads: map[string]thread{"1": {13, 27}, "3": {4, 6}, "4": {1000, 2000}}}
	ran, delayed, stolen := after.since(before)
	if ran != 3+4+1000 || delayed != 7+6+2000 || stolen != 4 {
		t.Errorf("since = %d, %d, %d, want what 1 did, all of 4, and of 3, which is another thread now; not 2, which ended", ran, delayed, stolen)
	}
}

func TestStolen(t *testing.T) {
	const text = "cpu  1 2 3 4 5 6 7 300 9 10\ncpu0 0 0 0 0 0 0 0 100 0 0\ncpu1 0 0 0 0 0 0 0 200 0 0\nintr 1 2 3 4 5 6 7 8 9\n"
	if got := stolen(text); got != 1500*time.Millisecond {
		t.Errorf("stolen = %s, want 300 hundredths from two processors", got)
	}
	for _, text := range []string{"", "cpu  1 2 3\n"} {
		if got := stolen(text); got != 0 {
			t.Errorf("stolen(%q) = %s, want 0", text, got)
		}
	}
}

// machine is a clock that moves when the test or the meter sleeps, and what its kernel
// has counted.
type machine struct {
	clock time.Time
	usage usage
}

func newMachine() (*machine, *meter) {
	m := &machine{clock: time.Unix(0, 0)}
	meter := newMeter(func() time.Time { return m.clock }, func() usage { return m.usage })
	meter.sleep = func(d time.Duration) { m.pass(d) }
	return m, meter
}

func (m *machine) pass(d time.Duration) { m.clock = m.clock.Add(d) }

// nap is a sleep of the meter's goroutine that ends late.
func (m *machine) nap(meter *meter, late time.Duration) {
	m.pass(meter.lieDown() + late)
	meter.wake()
}

func TestMeterCountsWhatTheSleeperOversleeps(t *testing.T) {
	m, meter := newMachine()
	for range 50 {
		m.nap(meter, 0)
	}
	if got := meter.lost(); got != 0 {
		t.Errorf("lost = %s on an idle machine", got)
	}
	m.nap(meter, exact)
	if got := meter.lost(); got != 0 {
		t.Errorf("lost = %s, want a millisecond of a timer ignored", got)
	}
	m.nap(meter, 41*time.Millisecond)
	m.nap(meter, 0)
	if got := meter.lost(); got != 40*time.Millisecond {
		t.Errorf("lost = %s, want 40ms", got)
	}
}

// All of the process stood still, and the test looks before the sleeper does.
func TestMeterKnowsOfAStandstillBeforeTheSleeperWakes(t *testing.T) {
	m, meter := newMachine()
	asleep := meter.lieDown()
	m.pass(asleep + 5*time.Second)
	early := meter.lost()
	meter.wake()
	if want := 5*time.Second - exact; early != want || meter.lost() != want {
		t.Errorf("lost = %s, and %s when the sleeper is awake, want %s once", early, meter.lost(), want)
	}
}

func TestMeterEndsWindows(t *testing.T) {
	m, meter := newMachine()
	run := thread{}
	for range 100 { // one second, half of which one thread waits
		run = thread{run.ran + 5*time.Millisecond, run.delayed + 5*time.Millisecond}
		m.usage.threads = map[string]thread{"1": run}
		m.nap(meter, 0)
	}
	m.nap(meter, 301*time.Millisecond) // in a window of its own
	if got := meter.lost(); got != 800*time.Millisecond {
		t.Errorf("lost = %s, want half of the second and 300ms: losses at other times add up", got)
	}
}

func TestAwait(t *testing.T) {
	const d = time.Second
	m, meter := newMachine()
	holdsAt := func(at time.Duration) func() error {
		begin := m.clock
		return func() error {
			if m.clock.Sub(begin) >= at {
				return nil
			}
			return errors.New("not yet")
		}
	}
	for _, c := range []struct {
		name     string
		at       time.Duration // when it holds, on the clock
		share    float64       // of the clock is lost
		held     bool
		min, max time.Duration // on the clock
	}{
		{"at once", 0, 0, true, 0, 0},
		{"at the end", d, 0, true, d, d},
		{"too late", 2 * d, 0, false, d, d},
		{"too late on the clock, half of which is lost", 2*d - time.Millisecond, 0.5, true, 2*d - time.Millisecond, 2 * d},
		{"too late also without what is lost", 3 * d, 0.5, false, 2*d - time.Microsecond, 2*d + time.Millisecond},
		{"nothing is given: not for ever", 100 * d, 1, false, clockLimit * d, clockLimit*d + 20*time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			meter.sleep = func(s time.Duration) {
				m.pass(s)
				m.usage.stolen += time.Duration(c.share * float64(s))
				meter.due = m.clock // the sleeper is never late
			}
			begin := m.clock
			w := meter.await(d, holdsAt(c.at))
			took := m.clock.Sub(begin)
			if (w.err == nil) != c.held || took < c.min || took > c.max || w.clock != took {
				t.Errorf("await = %+v after %s, want held: %t, within %s to %s", w, took, c.held, c.min, c.max)
			}
			if got, want := w.lost.Seconds(), c.share*took.Seconds(); got < 0.99*want || got > 1.01*want {
				t.Errorf("lost %s of %s, want %.2f of it", w.lost, took, c.share)
			}
		})
	}
}

// recorder is a test whose failure is looked at.
type recorder struct {
	testing.TB
	log      []string
	failed   bool
	cleanups []func()
}

func (r *recorder) Helper()                 {}
func (r *recorder) Failed() bool            { return r.failed }
func (r *recorder) Cleanup(f func())        { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Log(args ...any)         { r.log = append(r.log, fmt.Sprint(args...)) }
func (r *recorder) Logf(f string, a ...any) { r.log = append(r.log, fmt.Sprintf(f, a...)) }
func (r *recorder) Errorf(f string, a ...any) {
	r.Logf(f, a...)
	r.failed = true
}
func (r *recorder) Fatalf(f string, a ...any) {
	r.Errorf(f, a...)
	runtime.Goexit()
}

// record runs a test and returns what it printed and whether it failed.
func record(test func(testing.TB)) (log string, failed bool) {
	r := &recorder{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(r)
	}()
	<-done
	for _, cleanup := range r.cleanups {
		cleanup()
	}
	return strings.Join(r.log, "\n"), r.failed
}

func TestWithinAndPromise(t *testing.T) {
	for _, c := range []struct {
		name   string
		test   func(testing.TB)
		failed bool
		prints string
	}{
		{"holds", func(t testing.TB) { Within(t, time.Minute, "sky", func() bool { return true }) }, false, ""},
		{"does not hold", func(t testing.TB) { Within(t, 0, "sky", func() bool { return false }) }, true, "not within 0s: sky (0s on the clock, lost 0s)"},
		{"does not hold, and why", func(t testing.TB) { Within(t, 0, "sky", func() error { return errors.New("grey") }) }, true, "not within 0s: sky: grey (0s on the clock, lost 0s)"},
		{"a promise that holds", func(t testing.TB) { Promise(t, "E2", time.Minute, "sky", func() error { return nil }) }, false, "promise E2: held after 0s of 1m0s (lost 0s)"},
		{"a promise that does not", func(t testing.TB) { Promise(t, "E2", 0, "sky", func() bool { return false }) }, true, "promise E2: not within 0s: sky (0s on the clock, lost 0s)"},
		{"a promise that was measured", func(t testing.TB) { Kept(t, "E2", time.Second, "sky", time.Second, 2*time.Second) }, false, "promise E2: held after 1s of 1s (lost 2s)"},
		{"one that took too long", func(t testing.TB) { Kept(t, "E2", time.Second, "sky", 1001*time.Millisecond, 0) }, true, "promise E2: sky took 1.001s, want 1s at most (lost 0s besides)"},
		{"a slow disk", func(t testing.TB) { Blame(t, "the disk does %d", 7) }, false, "MACHINE: the disk does 7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			log, failed := record(func(t testing.TB) {
				meters.Store(t, idle()) // a loaded machine is not to show in the text
				defer meters.Delete(t)
				c.test(t)
			})
			if failed != c.failed || log != c.prints {
				t.Errorf("failed: %t, printed %q, want %t, %q", failed, log, c.failed, c.prints)
			}
		})
	}
}

// idle is a meter of a machine that does nothing and whose clock stands.
func idle() *meter {
	_, meter := newMachine()
	return meter
}

func TestMeasure(t *testing.T) {
	for _, c := range []struct {
		name   string
		good   int // the first measurement that is; 0 for none
		failed bool
		prints string
	}{
		{"at once", 1, false, ""},
		{"at the fifth", 5, false, "rate: try 1 of 5: too little\nrate: try 2 of 5: too little\nrate: try 3 of 5: too little\nrate: try 4 of 5: too little\nrate: measured in try 5 of 5"},
		{"not in five", 6, true, "rate: try 1 of 5: too little\nrate: try 2 of 5: too little\nrate: try 3 of 5: too little\nrate: try 4 of 5: too little\nrate: try 5 of 5: too little\nrate: not in 5 tries: too little"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := 0
			log, failed := record(func(t testing.TB) {
				meters.Store(t, idle())
				defer meters.Delete(t)
				Measure(t, "rate", func() error {
					if n++; n < c.good {
						return errors.New("too little")
					}
					return nil
				})
			})
			if failed != c.failed || log != c.prints {
				t.Errorf("failed: %t, printed %q, want %t, %q", failed, log, c.failed, c.prints)
			}
		})
	}
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		failed     bool
		took, lost time.Duration
		want       string
	}{
		{true, time.Minute, 41 * time.Second, "MACHINE: lost 41 of 60 s"},
		{true, 5 * time.Second, 1600 * time.Millisecond, "MACHINE: lost 1.6 of 5.0 s"},
		{true, time.Minute, 18 * time.Second, ""},
		{false, time.Minute, 41 * time.Second, ""},
	} {
		if got := verdict(c.failed, c.took, c.lost); got != c.want {
			t.Errorf("verdict(%t, %s, %s) = %q, want %q", c.failed, c.took, c.lost, got, c.want)
		}
	}
}

// burn keeps more threads than there are processors busy, on the real machine.
func burn(d time.Duration) {
	threads := 4 * runtime.NumCPU()
	before := runtime.GOMAXPROCS(threads)
	defer runtime.GOMAXPROCS(before)
	end := time.Now().Add(d)
	done := make(chan struct{})
	for range threads {
		go func() {
			for time.Now().Before(end) {
			}
			done <- struct{}{}
		}()
	}
	for range threads {
		<-done
	}
}

func TestThreadsThatWaitForAProcessorLoseTime(t *testing.T) {
	took := Stopwatch(t)
	log, failed := record(func(t testing.TB) {
		Watch(t)
		burn(time.Second)
		t.Errorf("it fails")
	})
	_, lost := took()
	if _, err := os.Stat("/proc/self/schedstat"); err == nil && lost < 400*time.Millisecond {
		t.Errorf("lost %s in a second in which four threads shared each processor, want about 750ms", lost)
	}
	if lost <= 0 {
		t.Error("lost nothing, want that the sleeper woke late")
	}
	if !failed || !strings.Contains(log, "MACHINE: lost ") {
		t.Errorf("a starved test that fails printed %q, want MACHINE in it", log)
	}
	if _, watched := meters.Load(t); !watched {
		t.Error("the test is not watched")
	}
}
