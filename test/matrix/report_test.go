package matrix

import (
	"fmt"
	"os"
	"time"
)

// print writes a line at once; the log of a test appears at its end.
func (m *matrix) print(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%6.0fs  %s\n", time.Since(m.began).Seconds(), fmt.Sprintf(format, args...))
}

// progress shows that something happens, and differences at once.
func (m *matrix) progress(p *plan, t *trial) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done++
	if m.done%20 == 0 {
		m.print("%d points, of %d that are known", m.done, m.wanted)
	}
	if t.wrong != "" {
		m.print("DIFFERENCE in %s, %s\n%s\nagain: go test ./test/matrix -run TestCrashMatrix -workload %q -point %q",
			p.work.name, t.fault, t.wrong, p.work.name, t.fault)
	}
}

// report is the result, a line for each workload. A point is tried when a run
// came to it; too many to which none came make the test fail.
func (m *matrix) report(plans []*plan) {
	var points, tried, missed, differ, runs, repeated int
	var trials []*trial
	for _, p := range plans {
		lost, wrong := m.reportOne(p)
		points, tried = points+len(p.faults), tried+len(p.trials)-lost
		missed, differ = missed+lost, differ+wrong
		trials = append(trials, p.trials...)
		made, again := p.made()
		runs, repeated = runs+made, repeated+again
	}
	m.Logf("together: %d points, %d tried, %d not reached, %d differences, %d of %d runs repeated because of lost events, in %.0fs with %d slots",
		points, tried, missed, differ, repeated, runs, time.Since(m.began).Seconds(), *slots)
	if wrong := repeatedTooOften(repeated, runs); wrong != "" {
		m.Error(wrong)
	}
	for _, wrong := range unreached(trials) {
		m.Error(wrong)
	}
	if tried == 0 && !*list {
		m.Errorf("nothing was tried: -share %d -workload %q -point %q", *share, *workload, *only)
	}
}

func (m *matrix) reportOne(p *plan) (missed, differ int) {
	for _, t := range p.trials {
		if t.wrong != "" {
			m.Errorf("%s, %s: see above", p.work.name, t.fault)
		} else if !t.tried() {
			m.Logf("%s: not reached in %d runs: %s", p.work.name, attempts, t.fault)
		}
		if t.repeated != "" {
			m.Logf("%s, %s: repeated, as the worker gave up events:\n%s", p.work.name, t.fault, t.repeated)
		}
	}
	if *list {
		for _, f := range p.faults {
			fmt.Printf("%s: %s\n", p.work.name, f)
		}
	}
	m.Log(p)
	return p.count()
}

// count is how many trials did not come to their point, and after how many something
// was not as in the reference.
func (p *plan) count() (missed, differ int) {
	for _, t := range p.trials {
		if t.wrong != "" {
			differ++
		} else if !t.tried() {
			missed++
		}
	}
	return missed, differ
}

// made is how many disturbed runs were made, and how many of them repeat one whose
// worker gave up events.
func (p *plan) made() (runs, repeated int) {
	for _, t := range p.trials {
		runs += t.runs
		if t.repeated != "" {
			repeated++
		}
	}
	return runs, repeated
}

func (p *plan) String() string {
	slowest := &trial{took: p.took}
	for _, t := range p.trials {
		if t.took > slowest.took {
			slowest = t
		}
	}
	missed, differ := p.count()
	_, repeated := p.made()
	return fmt.Sprintf("%-17s %3d points, %3d tried, %d not reached, %d differences, %d repeated; undisturbed %.0fs, slowest recovery %.0fs more (%s)",
		p.work.name, len(p.faults), len(p.trials)-missed, missed, differ, repeated, p.took.Seconds(), (slowest.took - p.took).Seconds(), slowest.fault)
}
