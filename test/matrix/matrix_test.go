package matrix

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/squall-chaos/squall/test/apiserver"
	"github.com/squall-chaos/squall/test/sample"
	"github.com/squall-chaos/squall/test/world"
)

func TestMain(m *testing.M) { os.Exit(apiserver.Run(m)) }

var (
	share    = flag.Int("share", 2, "percent of the points to try, chosen by the seed among those that every undisturbed run reaches; with 100 all are tried, as make test-long does")
	only     = flag.String("point", "", "try this point only, as the report names it")
	workload = flag.String("workload", "", "try these workloads only, separated by commas")
	sort     = flag.String("how", "", "try only the points at which this happens: before, after, stop, stale or drop")
	list     = flag.Bool("list", false, "list the points and try none")
	slots    = flag.Int("slots", 8, "how many runs are under way at once")
	seed     = flag.Uint64("seed", 0, "what the choice of points follows from; 0: the commit")
)

const (
	// references is how often a workload runs undisturbed: its points are all
	// that any of these runs reached. For a sample fewer are enough.
	references, fewReferences = 3, 2
	// attempts is how often a run is made that does not reach its point.
	attempts = 12
	// whole is the share with which all points are tried: also those that not every
	// undisturbed run reaches, which a disturbed one may have to be made for again and again.
	whole = 100
)

// TestCrashMatrix kills worker and bridge at every step they take, and keeps
// from them what they watch (T1, T5, I2, I7).
func TestCrashMatrix(t *testing.T) {
	m := &matrix{T: t, world: world.Start(t), began: time.Now(), seed: sample.Of(t, *seed)}
	if *only == "" {
		m.world = m.world.In(quiet{t})
	}
	makeNode(m.world)
	makeDriver(m.world)
	m.saw = newWitness(m.world)
	m.openSlots()
	var plans []*plan
	var group sync.WaitGroup
	for _, w := range m.chosen() {
		p := &plan{work: w, early: map[string]bool{}, runs: map[fault]int{}}
		plans = append(plans, p)
		group.Go(func() { m.carryOut(p) })
	}
	group.Wait()
	m.report(plans)
}

// quiet keeps the programs' output out of the log, in which a difference would be hard to
// find. A run of a single point logs the output.
type quiet struct{ testing.TB }

func (quiet) Failed() bool { return false }

// matrix is the whole of the test.
type matrix struct {
	*testing.T
	world *world.World
	saw   *witness
	began time.Time
	free  chan *slot
	seed  sample.Seed

	mu sync.Mutex
	// wanted counts the trials of all workloads whose points are known, done those that
	// were made, replaced the slots in which one did not come to its end.
	wanted, done, replaced int
}

// plan is what undisturbed runs of a workload showed, and what became of the
// disturbed ones.
type plan struct {
	work    work
	faults  []fault
	outcome account
	took    time.Duration
	// unsteady is true when undisturbed runs differ: then there is nothing to
	// compare with.
	unsteady bool
	// early has the points that come before the disruption rests.
	early map[string]bool
	// runs is how many undisturbed runs reached a point.
	runs   map[fault]int
	trials []*trial
	// known is true when outcome is that of an undisturbed run.
	known bool
}

// trial is one disturbed run.
type trial struct {
	fault fault
	// reached is false when no attempt came to the point.
	reached bool
	// took is for the whole run, but for what its disruption was to last longer than
	// that of the reference.
	took time.Duration
	// wrong is the difference from the reference; empty for none.
	wrong string
	// runs is how many runs were made of it, repeated the difference of the one that
	// was repeated because its worker gave up events, empty if none was.
	runs     int
	repeated string
}

// chosen are the workloads that are run: that of the flag, or all, of those that
// are long one where a share of the points is tried.
func (m *matrix) chosen() []work {
	if *workload != "" {
		names := strings.Split(*workload, ",")
		return slices.DeleteFunc(slices.Clone(workloads), func(w work) bool { return !slices.Contains(names, w.name) })
	}
	if *share >= whole {
		return workloads
	}
	return withOneLong(workloads, m.seed)
}

// withOneLong are the workloads that are not long and one that is.
func withOneLong(all []work, seed sample.Seed) []work {
	long := slices.DeleteFunc(slices.Clone(all), func(w work) bool { return !w.long })
	one := slices.MinFunc(long, func(a, b work) int { return cmp.Compare(seed.Rank(a.name), seed.Rank(b.name)) })
	return slices.DeleteFunc(slices.Clone(all), func(w work) bool { return w.long && w.name != one.name })
}

// openSlots makes all slots; most of the time Temporal's namespaces take.
func (m *matrix) openSlots() {
	m.free = make(chan *slot, *slots)
	spaces := make([]space, *slots)
	var group errgroup.Group
	for i := range spaces {
		group.Go(func() (err error) { spaces[i], err = newSpace(m.world, i); return err })
	}
	m.world.Must(group.Wait())
	for _, made := range spaces {
		m.free <- newSlot(m.world, made)
	}
	m.print("%d slots", *slots)
}

// take waits for a free slot. One in which a run did not come to its end is
// replaced.
func (m *matrix) take() *slot {
	s := <-m.free
	if !s.broken {
		return s
	}
	s.close()
	m.mu.Lock()
	m.replaced++
	number := *slots + m.replaced
	m.mu.Unlock()
	made, err := newSpace(m.world, number)
	m.world.Must(err)
	return newSlot(m.world, made)
}

// carryOut does all runs of a workload.
func (m *matrix) carryOut(p *plan) {
	var group sync.WaitGroup
	for range undisturbed() {
		group.Go(func() { m.reference(p) })
	}
	group.Wait()
	if p.unsteady || *list {
		return
	}
	p.choose(m.T, m.seed)
	m.mu.Lock()
	m.wanted += len(p.trials)
	m.mu.Unlock()
	for _, t := range p.trials {
		s := m.take()
		group.Go(func() {
			m.try(s, p, t)
			m.free <- s
			m.progress(p, t)
		})
	}
	group.Wait()
	m.print("%s", p)
}

// undisturbed is how many runs there are of a workload that nothing disturbs.
func undisturbed() int {
	switch {
	case *only != "":
		return 1
	case *share < whole:
		return fewReferences
	}
	return references
}

// reference learns what an undisturbed run does and how it ends. One whose worker
// gave up events shows less than the workload does, and is made again, once.
func (m *matrix) reference(p *plan) {
	s := m.take()
	began := time.Now()
	r := m.newRun(s, p, nil)
	got, err := m.do(r)
	if err == nil && len(r.lostEvents()) > 0 {
		m.Logf("%s, undisturbed: made again, as its worker gave up events: %v", p.work.name, r.lostEvents())
		began, r = time.Now(), m.newRun(s, p, nil)
		got, err = m.do(r)
	}
	if lost := r.lostEvents(); err == nil && len(lost) > 0 {
		err = fmt.Errorf("the worker gave up events: %v", lost)
	}
	took := time.Since(began)
	m.free <- s
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err != nil:
		p.unsteady = true
		m.Errorf("%s, undisturbed: %v", p.work.name, err)
		return
	case !p.known:
		p.outcome, p.took, p.known = got, took, true
	case !p.outcome.equal(got):
		p.unsteady = true
		m.Errorf("%s ends differently when nothing disturbs it:\n%s", p.work.name, got.against(p.outcome))
	}
	for point, early := range r.current.early {
		p.early[point] = p.early[point] || early
	}
	for _, f := range r.current.faults() {
		p.runs[f]++
		if !slices.Contains(p.faults, f) && r.counts(f) && !(r.rested && p.early[f.point]) {
			p.faults = append(p.faults, f)
		}
	}
}

// choose takes the share of the points that this test tries.
func (p *plan) choose(t *testing.T, seed sample.Seed) {
	if *only != "" {
		f, err := parseFault(*only)
		if err != nil {
			t.Error(err)
			return
		}
		p.trials = []*trial{{fault: f}}
		return
	}
	faults := p.faults
	if p.work.many {
		faults = sampled(faults, ofEach, seed)
	}
	for _, f := range faults {
		steady := p.runs[f] == undisturbed() || *share == whole
		if *sort != "" && f.how != how(*sort) {
			continue
		}
		if steady && seed.Chosen(p.work.name+", "+f.String(), *share) {
			p.trials = append(p.trials, &trial{fault: f})
		}
	}
}

// try makes a disturbed run and compares its end. Runs that did not come to their
// point are made again; one that differs fails at once, unless decide excuses it.
func (m *matrix) try(s *slot, p *plan, t *trial) {
	for range attempts {
		t.runs++
		r := m.newRun(s, p, &t.fault)
		began := time.Now()
		got, err := m.do(r)
		t.took = time.Since(began)
		if p.work.expires {
			t.took -= r.lasts - shortly
		}
		t.reached = !r.current.reached().IsZero() && (t.fault.how != stale || s.sawPast(t.fault.victim))
		found := decide(ending{err, t.reached, got, r.stableEvents(r.lostEvents())}, p.outcome, t.repeated != "")
		if found.excused {
			t.repeated = found.wrong
			m.print("REPEATED, as the worker gave up events: %s, %s\n%s", p.work.name, t.fault, found.wrong)
		}
		t.wrong = found.wrong
		if !found.again {
			return
		}
	}
}

func (m *matrix) newRun(s *slot, p *plan, f *fault) *run {
	m.saw.failing(s.chaos, p.work.fails)
	lasts := time.Hour
	if p.work.expires {
		lasts = shortly
	}
	if p.work.expires && f != nil && p.early[f.point] {
		lasts = longEnough
	}
	return &run{slot: s, work: p.work, saw: m.saw, ctx: m.Context(), fault: f, before: m.saw.known(s.shop), lasts: lasts, logged: len(s.programs[worker].Output())}
}

// do makes a run, looks at its end and empties the slot.
func (m *matrix) do(r *run) (got account, err error) {
	r.broken = true // until all of it went well
	if err := r.fit(r.twoBridges); err != nil {
		return got, err
	}
	r.begin(r.fault, r.many)
	if err := errors.Join(r.whole(), r.endedWell()); err != nil {
		return got, err
	}
	if got, err = r.outcome(); err != nil {
		return got, err
	}
	r.current.stop()
	if err := r.leave(); err != nil {
		return got, err
	}
	r.broken = false
	return got, nil
}
