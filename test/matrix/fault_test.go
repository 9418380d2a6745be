package matrix

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// how a run is disturbed at a point.
type how string

const (
	before how = "before"
	after  how = "after"
	stop   how = "stop"
	stale  how = "stale"
	drop   how = "drop"
)

// fault is one disturbance of one run. Its text is the flag that repeats it.
type fault struct {
	how how
	// victim is the program that is disturbed.
	victim string
	// point is the call, or the watch event, at which it happens.
	point string
}

func (f fault) String() string { return fmt.Sprintf("%s %s at %s", f.how, f.victim, f.point) }

// parseFault is the inverse of String.
func parseFault(text string) (fault, error) {
	head, point, found := strings.Cut(text, " at ")
	kind, victim, two := strings.Cut(head, " ")
	f := fault{how(kind), victim, point}
	if !found || !two || f.how != before && f.how != after && f.how != stop && f.how != stale && f.how != drop {
		return fault{}, fmt.Errorf("point %q: want HOW PROGRAM at POINT, as the report names it", text)
	}
	return f, nil
}

// recorder knows what happened in the run that is under way, and disturbs it.
type recorder struct {
	mu     sync.Mutex
	names  *names
	counts map[string]int
	// calls and events are the points in the order they were reached; cached
	// has the programs that hold in a cache what a call changed.
	calls, events []string
	cached        map[string][]string
	// early has the points reached before the disruption rested.
	early  map[string]bool
	rested bool
	fault  *fault
	fired  time.Time
	// over is true when the run's end has been looked at: what follows takes
	// away its targets and is no part of it.
	over bool
}

func newRecorder(f *fault) *recorder {
	return &recorder{names: newNames(), counts: map[string]int{}, cached: map[string][]string{}, early: map[string]bool{}, fault: f}
}

// call notes a call and returns what is to be done at it, nil for nothing.
func (r *recorder) call(program, name string) (point string, f *fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return "", nil
	}
	point = r.count(program + " " + name)
	if repeats(name) && !strings.HasSuffix(point, " #1") {
		return "", nil
	}
	r.calls = append(r.calls, point)
	return point, r.hit(point)
}

// repeats is true for what is done again and again while time passes: the lease is
// renewed, and it is looked whether a run may begin or is over. Only the first is a point.
func repeats(name string) bool {
	return strings.Contains(name, " leases") || name == "fails BeginRun" || name == "fails AwaitRun"
}

// changed notes which programs have in a cache what a call has changed.
func (r *recorder) changed(point string, seenBy []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cached[point] = seenBy
}

// event records a watch event; it returns true for one that is to be dropped. Of each
// kind only the first is a point.
func (r *recorder) event(program, name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	point := r.count(program + " sees " + name)
	if r.over || !strings.HasSuffix(point, " #1") {
		return false
	}
	r.events = append(r.events, point)
	return r.hit(point) != nil
}

// rest marks that all is injected and recorded, and nothing happens any more.
func (r *recorder) rest() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rested = true
}

// stop ends the run.
func (r *recorder) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
}

func (r *recorder) count(name string) string {
	r.counts[name]++
	point := fmt.Sprintf("%s #%d", name, r.counts[name])
	r.early[point] = !r.rested
	return point
}

func (r *recorder) hit(point string) *fault {
	if r.fault == nil || !r.fired.IsZero() || r.fault.point != point {
		return nil
	}
	r.fired = time.Now()
	return r.fault
}

// total is how many calls and kinds of events there were so far.
func (r *recorder) total() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.calls) + len(r.events)
}

// reached is when the fault happened; zero if it did not.
func (r *recorder) reached() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fired
}

// faults are all that can be done to a run that went as this one did.
func (r *recorder) faults() (all []fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, point := range r.calls {
		program, _, _ := strings.Cut(point, " ")
		if program != person {
			all = append(all, fault{before, program, point}, fault{after, program, point}, fault{stop, program, point})
		}
		for _, victim := range r.cached[point] {
			all = append(all, fault{stale, victim, point})
		}
	}
	for _, point := range r.events {
		program, _, _ := strings.Cut(point, " ")
		all = append(all, fault{drop, program, point})
	}
	return all
}
