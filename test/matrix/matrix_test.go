package matrix

import (
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/squall-chaos/squall/test/apiserver"
	"github.com/squall-chaos/squall/test/world"
)

func TestMain(m *testing.M) { os.Exit(apiserver.Run(m)) }

var (
	share    = flag.Int("share", 5, "percent of the points to try, chosen by the hash of their names")
	only     = flag.String("point", "", "try this point only, as the report names it")
	workOnly = flag.String("workload", "", "try this workload only")
	list     = flag.Bool("list", false, "only list the points")
	slots    = flag.Int("slots", 16, "how many runs are under way at once")
)

// references is how often a workload runs undisturbed: its points are all that
// any of these runs reached.
const references = 3

// attempts is how often a run is made again that did not reach its point.
const attempts = 3

// TestCrashMatrix kills worker and bridge at every step they take, and keeps
// from them what they watch (T1, T5, I2, I7).
func TestCrashMatrix(t *testing.T) {
	m := &matrix{T: t, world: world.Start(t), began: time.Now()}
	m.saw = newWitness(m.world)
	m.openSlots()
	plans := m.reference()
	if *list {
		m.list(plans)
		return
	}
	var trials []*trial
	for _, w := range m.workloads() {
		trials = append(trials, m.choose(plans[w.name])...)
	}
	if len(trials) == 0 {
		t.Fatalf("no point is chosen: -share %d, -workload %q, -point %q", *share, *workOnly, *only)
	}
	m.each(trials, m.try)
	m.report(plans, trials)
}

// matrix is the whole of the test.
type matrix struct {
	*testing.T
	world *world.World
	saw   *witness
	began time.Time
	free  chan *slot
	mu    sync.Mutex
	// done counts runs, replaced the slots in which one did not come to its end.
	done, replaced int
}

// plan is what the reference runs of a workload showed.
type plan struct {
	workload workload
	faults   []fault
	outcome  string
	longest  time.Duration
}

// trial is one disturbed run.
type trial struct {
	plan  *plan
	fault fault
	// reached is false when the run never came to the point.
	reached bool
	took    time.Duration
	// wrong says what went otherwise than in the reference.
	wrong string
}

func (m *matrix) workloads() (chosen []workload) {
	for _, w := range workloads {
		if *workOnly == "" || w.name == *workOnly {
			chosen = append(chosen, w)
		}
	}
	return chosen
}

func (m *matrix) openSlots() {
	m.free = make(chan *slot, *slots)
	var group errgroup.Group
	spaces := make([]space, *slots)
	for i := range spaces {
		group.Go(func() (err error) { spaces[i], err = newSpace(m.world, i); return err })
	}
	m.world.Must(group.Wait())
	for _, made := range spaces {
		m.free <- newSlot(m.world, made)
	}
	m.Logf("%d slots after %.0fs", *slots, time.Since(m.began).Seconds())
}

// another is a slot in the place of one that cannot be used any more.
func (m *matrix) another() *slot {
	m.replaced++
	made, err := newSpace(m.world, *slots+m.replaced)
	m.world.Must(err)
	return newSlot(m.world, made)
}

// each does all trials, as many at once as there are slots.
func (m *matrix) each(trials []*trial, do func(*slot, *trial)) {
	var group sync.WaitGroup
	for _, t := range trials {
		s := <-m.free
		if s.broken {
			s.close()
			s = m.another()
		}
		group.Go(func() {
			do(s, t)
			m.progress(len(trials), t)
			m.free <- s
		})
	}
	group.Wait()
}

// reference learns what undisturbed runs do and how they end.
func (m *matrix) reference() map[string]*plan {
	var runs []*trial
	plans := map[string]*plan{}
	for _, w := range m.workloads() {
		plans[w.name] = &plan{workload: w}
		for range references {
			runs = append(runs, &trial{plan: plans[w.name]})
		}
	}
	m.each(runs, func(s *slot, t *trial) {
		r := m.newRun(s, t.plan.workload, nil)
		got, err := m.do(r)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.learn(t, r, got, err)
	})
	m.done = 0
	if m.Failed() {
		m.FailNow()
	}
	return plans
}

func (m *matrix) learn(t *trial, r *run, got string, err error) {
	switch {
	case err != nil:
		m.Errorf("%s, undisturbed: %v", t.plan.workload.name, err)
		return
	case t.plan.outcome == "":
		t.plan.outcome = got
	case t.plan.outcome != got:
		m.Errorf("%s ends differently when nothing disturbs it:\n%s", t.plan.workload.name, cmp.Diff(t.plan.outcome, got))
	}
	t.plan.longest = max(t.plan.longest, t.took)
	for _, f := range r.current.faults() {
		if !slices.Contains(t.plan.faults, f) {
			t.plan.faults = append(t.plan.faults, f)
		}
	}
}

func (m *matrix) list(plans map[string]*plan) {
	for _, w := range m.workloads() {
		for _, f := range plans[w.name].faults {
			fmt.Printf("%s: %s\n", w.name, f)
		}
	}
}

// choose takes the share of a plan's points that this test tries.
func (m *matrix) choose(p *plan) (trials []*trial) {
	if *only != "" {
		f, err := parseFault(*only)
		if err != nil {
			m.Fatal(err)
		}
		return []*trial{{plan: p, fault: f}}
	}
	for _, f := range p.faults {
		sum := fnv.New32a()
		_, _ = fmt.Fprint(sum, p.workload.name, f)
		if int(sum.Sum32()%100) < *share {
			trials = append(trials, &trial{plan: p, fault: f})
		}
	}
	return trials
}

// try makes a disturbed run and compares its end.
func (m *matrix) try(s *slot, t *trial) {
	for range attempts {
		r := m.newRun(s, t.plan.workload, &t.fault)
		began := time.Now()
		got, err := m.do(r)
		t.took = time.Since(began)
		t.reached = !r.current.reached().IsZero() && (t.fault.how != stale || s.sawPast(t.fault.victim))
		switch {
		case err != nil:
			t.wrong = err.Error()
		case got != t.plan.outcome:
			t.wrong = cmp.Diff(t.plan.outcome, got)
		}
		if t.reached || t.wrong != "" || s.broken {
			return
		}
	}
}

func (m *matrix) newRun(s *slot, w workload, f *fault) *run {
	m.saw.failing(s.chaos, w.fails)
	s.begin(f)
	return &run{slot: s, workload: w, ctx: m.Context()}
}

// do makes a run, looks at its end and empties the slot.
func (m *matrix) do(r *run) (got string, err error) {
	r.broken = true // until all of it went well
	if err := r.whole(); err != nil {
		return "", err
	}
	if got, err = r.outcome(m.saw); err != nil {
		return "", err
	}
	r.current.stop()
	if err := r.leave(); err != nil {
		return "", err
	}
	r.broken = false
	return got, nil
}

// progress shows that something happens.
func (m *matrix) progress(all int, t *trial) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done++
	switch {
	case t.wrong != "":
		fmt.Fprintf(os.Stderr, "%4d/%d %s: DIFFERENCE, %s\n%s\n", m.done, all, t.plan.workload.name, t.fault, t.wrong)
	case m.done%20 == 0 || m.done == all:
		fmt.Fprintf(os.Stderr, "%4d/%d after %.0fs\n", m.done, all, time.Since(m.began).Seconds())
	}
}

// report is the result, one line for each workload.
func (m *matrix) report(plans map[string]*plan, trials []*trial) {
	for _, name := range slices.Sorted(maps.Keys(plans)) {
		p := plans[name]
		var tried, missed, differ int
		slowest := &trial{}
		for _, t := range trials {
			if t.plan != p {
				continue
			}
			tried++
			if t.wrong != "" {
				differ++
				m.Errorf("%s, %s:\n%s\nagain: go test ./test/matrix -run TestCrashMatrix -workload %q -point %q",
					name, t.fault, t.wrong, name, t.fault)
			}
			if !t.reached {
				missed++
				m.Logf("%s: never reached in %d runs: %s", name, attempts, t.fault)
			}
			if t.took > slowest.took {
				slowest = t
			}
		}
		m.Logf("%-18s %3d points, %3d tried, %d not reached, %d differences; slowest run %.0fs (%s)",
			name, len(p.faults), tried, missed, differ, slowest.took.Seconds(), slowest.fault)
	}
	m.Logf("%d runs in %.0fs with %d slots", len(trials), time.Since(m.began).Seconds(), *slots)
}
