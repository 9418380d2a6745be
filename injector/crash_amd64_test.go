//go:build linux

package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/sample"
)

// The crash matrix of the injector follows Sieve (OSDI'22). A reference run enumerates
// every step that changes anything. Then a run for each step kills the program by SIGKILL
// right before it. A kill before the first and before each next step covers every place.
var (
	share  = flag.Int("share", 4, "percent of the crash matrix's points to try, chosen by the seed, and of each workload one; make test-long tries all")
	listed = flag.Bool("list", false, "list the points of the crash matrix")
	seed   = flag.Uint64("seed", 0, "what the choice of points follows from; 0: the commit")
	point  = flag.String("point", "", "try only this point of the crash matrix, as the report names it")
)

const (
	// references is how many undisturbed runs collect points; a sample makes one. attempts is
	// how often a run is repeated that did not reach its point.
	references = 2
	attempts   = 3
	// selfHeal bounds how long an effect that reverts itself may stay after the SIGKILL. Only
	// the kernel removes it, at once unless the machine is busy.
	selfHeal = 30 * time.Second
	// readyWithin is how long an injector that is traced may take.
	readyWithin = 2 * time.Minute
)

// rule 58
func TestInjectorKilledBeforeEachStep(t *testing.T) {
	seed := sample.Of(t, *seed)
	for _, w := range half(seed, false) {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			m := matrix{T: t, seed: seed, arena: newArena(t, w)}
			m.run(func(a *arena, before stepFunc) { a.injectTraced(syscall.SIGTERM, before) })
		})
	}
}

// rule 58: a cleaner may be killed as well, and the next one continues.
func TestCleanerKilledBeforeEachStep(t *testing.T) {
	seed := sample.Of(t, *seed)
	for _, w := range half(seed, true) {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			m := matrix{T: t, seed: seed, arena: newArena(t, w)}
			m.run(func(a *arena, before stepFunc) {
				a.injectTraced(syscall.SIGKILL, func(string) verdict { return permit })
				a.trace(func(int) {}, before, "clean", "--disruption", a.uid())
			})
		})
	}
}

// sampled is true unless all points are tried, or a single given one.
func sampled() bool { return *point == "" && *share < 100 }

// half returns the workloads whose cleaner a sample kills, or the others, whose injector it
// kills. When all points are tried it returns all workloads.
func half(seed sample.Seed, cleaner bool) []workload {
	if !sampled() {
		return workloads()
	}
	return halfOf(workloads(), seed, cleaner)
}

func halfOf(all []workload, seed sample.Seed, cleaner bool) []workload {
	return slices.DeleteFunc(slices.Clone(all), func(w workload) bool { return seed.Chosen("the cleaner of "+w.name, 50) != cleaner })
}

// Over many commits a sample kills the injector of each workload, and the cleaner of each.
func TestHalfOf(t *testing.T) {
	const seeds = 200
	injector, cleaner := map[string]int{}, map[string]int{}
	for seed := sample.Seed(1); seed <= seeds; seed++ {
		for _, w := range halfOf(workloads(), seed, false) {
			injector[w.name]++
		}
		for _, w := range halfOf(workloads(), seed, true) {
			cleaner[w.name]++
		}
	}
	for _, w := range workloads() {
		if n := injector[w.name]; n < seeds/4 || n+cleaner[w.name] != seeds {
			t.Errorf("%s: the injector is killed for %d seeds of %d, the cleaner for %d, want about half of them each", w.name, n, seeds, cleaner[w.name])
		}
	}
}

// stepFunc decides about the next step of the traced program.
type stepFunc func(step string) verdict

// matrix tries every point of one program in one arena.
type matrix struct {
	*testing.T
	seed  sample.Seed
	arena *arena
	// reverted is the longest time from the SIGKILL until effects that revert themselves were
	// gone. healed is the longest run of a cleaner.
	reverted, healed time.Duration
	// missed counts the points that no run reached: a burner may have ended before its kill.
	// differed counts the points after which the state differed from the original.
	missed, differed int
}

func (m *matrix) run(program func(*arena, stepFunc)) {
	points := m.points(program)
	if *listed {
		m.Logf("%d points:\n%s", len(points), strings.Join(points, "\n"))
	}
	// A sample has at least one point of each workload.
	nearest := slices.MinFunc(points, func(a, b string) int { return cmp.Compare(m.rank(a), m.rank(b)) })
	tried := 0
	for _, p := range points {
		if !chosen(m.seed, m.Name(), p, *share) && (*point != "" || p != nearest) {
			continue
		}
		tried++
		m.try(p, program)
		if m.Failed() {
			m.differed++
			m.Errorf("try it alone: go test ./injector -run '%s' -point '%s'", m.Name(), p)
			break // the next run would start from a wrong state
		}
	}
	if m.missed > 3 && 5*m.missed > tried {
		m.Errorf("%d of %d points were not reached: the matrix proves little", m.missed, tried)
	}
	m.Logf("%d of %d points tried, %d not reached, differences after %d; what reverts itself was gone after %s, the cleaner took %s, at most",
		tried, len(points), m.missed, m.differed, m.reverted.Round(time.Millisecond), m.healed.Round(time.Millisecond))
}

// chosen is true if a point of a test is in the percentage to try.
func chosen(seed sample.Seed, test, p string, percent int) bool {
	if *point != "" {
		return p == *point
	}
	return seed.Chosen(test+" "+p, percent)
}

func (m *matrix) rank(p string) uint64 { return m.seed.Rank(m.Name() + " " + p) }

// points lists the steps of undisturbed runs, with a number that distinguishes equal ones.
// The order of threads may differ from run to run.
func (m *matrix) points(program func(*arena, stepFunc)) []string {
	m.Helper()
	var points []string
	runs := references
	if sampled() {
		runs = 1
	}
	for range runs {
		count := counter{}
		before := m.arena.state()
		program(m.arena, func(step string) verdict {
			if p := count.next(step); !slices.Contains(points, p) {
				points = append(points, p)
			}
			return permit
		})
		m.arena.expectClean(m.T, before)
	}
	if len(points) < 5 {
		m.Fatalf("the run has only the steps %q: the matrix would prove nothing", points)
	}
	return points
}

// counter numbers equal steps.
type counter map[string]int

func (c counter) next(step string) string {
	c[step]++
	return fmt.Sprintf("%s #%d", step, c[step])
}

// try makes a run that is killed at a point, and compares its final state.
func (m *matrix) try(p string, program func(*arena, stepFunc)) {
	for range attempts {
		before := m.arena.state()
		count, reached := counter{}, false
		program(m.arena, func(step string) verdict {
			if count.next(step) == p {
				reached = true
				return kill
			}
			return permit
		})
		if reached && m.arena.workload.reverts {
			m.reverted = max(m.reverted, m.arena.reverted(m.T, p))
		}
		m.healed = max(m.healed, m.arena.heal(m.T, p))
		m.arena.expectClean(m.T, before)
		if reached || m.Failed() {
			return
		}
	}
	m.missed++
	m.Logf("no run of %d reached %q", attempts, p)
}

// Cleaners may run at the same time, and beside an injector that is just ending. They do
// each other no harm, and after the last one the original state is back.
func TestCleanersAtTheSameTime(t *testing.T) {
	for _, w := range workloads() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			a := newArena(t, w)
			before := a.state()
			a.injectTraced(syscall.SIGKILL, func(string) verdict { return permit })
			var cleaners []*process
			for range 4 {
				cleaners = append(cleaners, a.start("", "clean", "--disruption", a.uid()))
			}
			for _, c := range cleaners {
				if code := c.exit(); code != 0 && !strings.Contains(c.stdout.String(), "running injector") {
					t.Errorf("clean = %d, %s, want 0, or that another one is at it", code, c.stdout)
				}
			}
			a.heal(t, "nothing")
			a.expectClean(t, before)

			removeStale(a.file("ready"))
			injector := a.inject(a.injection)
			injector.awaitReady()
			injector.signal(syscall.SIGTERM)
			for injector.running() {
				a.run("clean", "--disruption", a.uid())
			}
			if code := injector.exit(); code != 0 || !strings.Contains(injector.stdout.String(), `"audited":true`) {
				t.Errorf("injector = %d, want 0 and audited, whoever cleaned", code)
			}
			a.heal(t, "nothing")
			a.expectClean(t, before)
		})
	}
}

// heal runs what the cleaner's pod runs, and returns how long it took.
func (a *arena) heal(t *testing.T, p string) time.Duration {
	t.Helper()
	began := time.Now()
	code, output := a.run("clean", "--disruption", a.uid())
	if code != 0 || !strings.Contains(output, `"audited": true`) {
		t.Errorf("killed before %q: clean = %d, %s, want 0 and audited", p, code, output)
	}
	return time.Since(began)
}

// expectClean wants no mark, and the original state byte for byte.
func (a *arena) expectClean(t *testing.T, before string) {
	t.Helper()
	if audit := a.audit("--disruption", a.uid()); len(audit.Marks) > 0 || audit.Error != "" {
		t.Errorf("audit after cleaning = %+v, want nothing", audit)
	}
	a.renew(t)
	// A killed process stays in its cgroup until the kernel has removed it, though it has no
	// command line any more.
	diff := ""
	for began := time.Now(); time.Since(began) < selfHeal; <-time.After(10 * time.Millisecond) {
		if diff = gocmp.Diff(lines(before), lines(a.state())); diff == "" {
			return
		}
	}
	t.Errorf("the world (-before +after):\n%s", diff)
}

func lines(text string) []string { return strings.Split(text, "\n") }

// reverted waits until everything but journals is gone, and returns how long
// it took.
func (a *arena) reverted(t *testing.T, p string) time.Duration {
	t.Helper()
	began := time.Now()
	for {
		left := a.marks(t)
		if len(left) == 0 {
			return time.Since(began)
		}
		if time.Since(began) > selfHeal {
			t.Errorf("killed before %q: after %s there is still %q", p, selfHeal, left)
			return time.Since(began)
		}
	}
}

// injectTraced runs the injector under trace, and sends it a signal when it is ready.
func (a *arena) injectTraced(end syscall.Signal, before stepFunc) {
	a.t.Helper()
	document, err := json.Marshal(a.injection)
	if err != nil {
		a.t.Fatal(err)
	}
	a.killed.Store(false)
	removeStale(a.file("ready"), a.file("reason"), a.file("termination"))
	a.env = slices.DeleteFunc(a.env, func(line string) bool { return strings.HasPrefix(line, v1beta1.InjectionEnv+"=") })
	a.env = append(a.env, v1beta1.InjectionEnv+"="+string(document))
	var waiting sync.WaitGroup
	ended := make(chan struct{})
	a.trace(func(pid int) {
		if a.launched != nil {
			a.launched(pid)
		}
		waiting.Go(func() {
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for late := time.After(readyWithin); !a.exists("ready"); {
				select {
				case <-ended:
					return
				case <-late:
					reason, _ := os.ReadFile(a.file("reason"))
					a.t.Errorf("the injector is not ready: %s", reason)
					end = syscall.SIGKILL
					_ = unix.Kill(pid, end)
					return
				case <-tick.C:
				}
			}
			if a.held != nil {
				a.held()
			}
			_ = unix.Kill(pid, end) // or it is being killed
		})
	}, func(step string) verdict {
		if step == a.workload.refused {
			return refuse
		}
		decided := before(step)
		if decided == kill {
			a.killed.Store(true)
		}
		return decided
	}, string(a.workload.kind))
	close(ended)
	waiting.Wait()
}

// trace runs a subcommand under trace. It names the steps without the parts that differ
// from arena to arena.
func (a *arena) trace(started func(pid int), before stepFunc, args ...string) {
	a.t.Helper()
	output, err := os.Create(a.file("output"))
	if err != nil {
		a.t.Fatal(err)
	}
	defer output.Close()
	command := exec.Command(a.binary, args...)
	command.Env, command.Stdout, command.Stderr = a.env, output, output
	names := strings.NewReplacer(a.dir, "~", a.uid(), "UID", a.target.ID, "ID")
	status, err := trace(command, started, func(step string) verdict { return before(names.Replace(step)) })
	if err != nil || !status.Exited() && status.Signal() != unix.SIGKILL {
		output, _ := os.ReadFile(a.file("output"))
		a.t.Fatalf("%v ended with %v, %v: %s", args, status, err, output)
	}
}

func (a *arena) uid() string { return string(a.injection.Disruption.UID) }
