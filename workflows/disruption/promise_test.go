package disruption

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/sample"
	"github.com/squall-chaos/squall/workflows/contract"
)

// The promise
//
// After its end, deletion or expiry, eventually nothing with our mark remains
// of a disruption on any node or in the API, and it stays so.
//
// The test checks that on the real workflow code, with a model of the cluster
// in which everything may go wrong:
//
//  1. Once the cleaning has begun nothing is created, nor chosen.
//  2. The Disruption's finalizer is removed only when no chaos pod is left.
//  3. A chaos pod that failed to clean is finalized only when a cleaner has
//     cleaned, when its target is gone, or for a person who saw it.
//  4. At the end nothing is left on a node except for what a person released,
//     and what the last status names.
//  5. The disruption ends. Or it is stuck: status and search attribute show that,
//     with the chaos pod and the reason, and it ends when a person releases that.
//  6. A new run knows of an end and a decision that the run before has received.
//  7. A disruption that a probe must abort ends without a person, long before its
//     duration is over, and reports the probe as the reason.
//  8. If a worker whose activity has timed out creates something after the end, a
//     sweep finds it, and the same workflow cleans it.
//  9. A disruption that is an operation on its targets disrupts only targets that
//     the driver gave. It ends no operation while the target has a chaos pod, and
//     leaves no label and no finalizer on any.
//  10. A disrupted target stays claimed: another disruption would take it.
//
// At every write of every activity, and while time passes, this may go wrong:
//
//   - A call fails, or the API server is away.
//   - A worker dies before the call, or before its answer arrives, so that the
//     activity is carried out again.
//   - A worker hangs, its activity times out, and it continues later.
//   - A disruption is deleted, cancelled or edited. Its workflow is terminated and
//     started again, or continues in a new run.
//   - People resume, rightly and wrongly.
//   - Probes are lost, and their prober dies.
//   - Targets vanish and chaos pods are deleted.
//   - Injectors and cleaners are killed, report wrongly, hang and fail to clean.
//
// The test makes all trials in which one thing goes wrong, and some at random in
// which several do. A failure names what went wrong in the smallest such trial,
// and how to repeat that trial.
func TestPromise(t *testing.T) {
	if graceOfChaosPods() == 0 {
		t.Fatal("the template of chaos pods says no grace period: the model cannot do what the activities do")
	}
	if *onlyTrial != "" {
		again(t, *onlyTrial)
		return
	}
	began := time.Now()
	e := &explorer{T: t, slots: make(chan struct{}, runtime.NumCPU()), failed: map[string]bool{}}
	for _, s := range scenes {
		e.exhaust(s, *depth)
	}
	single, first := e.trials, uint64(sample.Of(t, *randomSeed))
	for i := range *randomTrials {
		seed := first + uint64(i)
		s := scenes[i%len(scenes)]
		e.try(s, fmt.Sprintf("seed %d", seed), func() *faults {
			random := rand.New(rand.NewPCG(seed, 1))
			return &faults{random: random, burst: random.IntN(60)}
		}, func(*faults) {})
	}
	e.group.Wait()
	if atRandom := e.trials - single; single <= len(scenes) || atRandom != *randomTrials {
		t.Errorf("%d trials one after the other, %d at random, want more than %d and %d", single, atRandom, len(scenes), *randomTrials)
	}
	t.Logf("%d trials with at most %d deviations, %d at random, in %.1fs", single, *depth, e.trials-single, time.Since(began).Seconds())
}

// again makes one trial, as a failure names it: scenario, colon, deviations.
func again(t *testing.T, trial string) {
	name, text, _ := strings.Cut(trial, ":")
	d, err := parseDeviations(text)
	i := slices.IndexFunc(scenes, func(s scene) bool { return s.name == name })
	if err != nil || i < 0 {
		t.Fatalf("-trial %q: no such scenario, or %v", trial, err)
	}
	made, wrong := attemptTrial(scenes[i], &faults{forced: d})
	t.Logf("%s", made.list())
	for _, what := range wrong {
		t.Error(what)
	}
}

var (
	onlyTrial    = flag.String("trial", "", "make one trial of the promise again, as a failure names it")
	depth        = flag.Int("deviations", 1, "make all trials of the promise in which at most so many things go wrong")
	randomTrials = flag.Int("random", 500, "how many trials of the promise are made at random")
	randomSeed   = flag.Uint64("seed", 0, "of the first of them, each has the next; 0: the commit")
)

var scenes = []scene{
	{name: "one target", pods: 1, wanted: 1},
	{name: "two of three", pods: 3, wanted: 2},
	{name: "two, static, later", pods: 2, wanted: 2, static: true, delay: 40 * time.Second},
	{name: "rejected", rejected: "count: must be positive"},
	{name: "injectors leave something and do not say so", pods: 3, wanted: 2, ends: 2, stopsAtOnce: true, happens: "a person deletes chaos pod of web-0"},
	{name: "a probe is lost", pods: 2, wanted: 2, probes: true, lasts: 24 * time.Hour, happens: shopIsLost},
	{name: "an operation", pods: 2, wanted: 1, operates: true},
	{name: "an operation that is undone", pods: 1, wanted: 1, operates: true, held: true},
	{name: "a target goes, and another is taken", pods: 3, wanted: 2, lasts: 10 * time.Minute, happens: "web-0 vanishes, and takes along what was injected"},
	{name: "injectors fail", pods: 2, wanted: 2, ends: 5, happens: "the injector of web-0 is killed"},
}

// attemptTrial is one trial from its first step to its last trace.
func attemptTrial(s scene, c *faults) (*faults, []string) {
	m := newCluster(s, c)
	m.all()
	return c, m.wrong
}

// all is a disruption's whole life: every run of its workflow, and the time after.
func (c *cluster) all() {
	clock := c.began
	in := fresh()
	for range 30 {
		var next *Input
		clock, next = c.runOnce(clock, in)
		if next == nil {
			break
		}
		in = *next
	}
	if c.finalizer && len(c.wrong) == 0 {
		c.violated("no workflow runs any more, and the finalizer is there")
	}
	c.afterwards(clock)
}

func fresh() Input { return Input{Input: contract.Input{Disruption: ref}} }

// runOnce is one run of the workflow; next begins the one after it.
func (c *cluster) runOnce(clock time.Time, in Input) (end time.Time, next *Input) {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(silentLog{})
	c.env = suite.NewTestWorkflowEnvironment()
	c.env.SetWorkerOptions(worker.Options{
		Interceptors: []interceptor.WorkerInterceptor{&playedTemporal{c: c}}, DeadlockDetectionTimeout: time.Minute,
	})
	c.env.SetStartTime(clock)
	c.env.SetTestTimeout(time.Minute)
	c.env.RegisterWorkflowWithOptions(Workflow, workflow.RegisterOptions{Name: contract.WorkflowType})
	c.terminated = false
	c.env.ExecuteWorkflow(contract.WorkflowType, in)
	err := c.env.GetWorkflowError()
	var again *workflow.ContinueAsNewError
	switch {
	case err == nil:
		c.checkResult()
	case errors.As(err, &again):
		next = c.carriedOver(again)
	case c.terminated && len(c.wrong) > 0: // the trial was abandoned
	case c.terminated && c.finalizer: // the bridge starts it again
		c.run++
		c.endedBy, c.stuckShown = "", false
		f := fresh()
		next = &f
	case c.terminated: // only a sweep knows of it
	default:
		c.violated("the workflow failed: %v", err)
	}
	return c.env.Now(), next
}

// carriedOver checks the state that a run passes to the next.
func (c *cluster) carriedOver(again *workflow.ContinueAsNewError) *Input {
	var in Input
	if err := converter.GetDefaultDataConverter().FromPayloads(again.Input, &in); err != nil || in.Carried == nil {
		c.violated("a new run is given %+v, %v", in, err)
		return nil
	}
	if c.endedBy != "" && in.Carried.Ending == "" {
		c.violated("a new run does not know of %s", c.endedBy)
	}
	return &in
}

// checkResult compares the result of the workflow with the cluster.
func (c *cluster) checkResult() {
	var r Result
	if err := c.env.GetWorkflowResult(&r); err != nil {
		c.violated("the result cannot be read: %v", err)
	}
	if wrong := c.unexplained(r.NotVerified); len(wrong) > 0 {
		c.violated("the result is %+v, and does not say that %v", r, wrong)
	}
	if c.endedBy == "the lost probe" && !strings.HasPrefix(r.Ending, v1beta1.EndingAborted) {
		c.violated("a probe was lost, and the result says %q", r.Ending)
	}
	if c.finalizer {
		c.violated("it has ended, and the finalizer is there")
	}
}

// afterwards lets workers whose activities timed out finish their writes. It expects two
// sweeps to leave nothing, for good.
func (c *cluster) afterwards(clock time.Time) {
	c.calm, c.repairs, c.awayUntil, c.endedBy = true, true, time.Time{}, ""
	clear(c.tries)
	for range 20 {
		clock = clock.Add(time.Minute)
		c.fixed = clock
		c.pass()
	}
	for range 2 {
		if len(c.pods)+len(c.shards) > 0 || c.spec != "" {
			c.run++
			c.calmSince, c.fixed = clock, time.Time{}
			clock, _ = c.runOnce(clock, fresh())
		}
	}
	c.sweepNodes()
	if len(c.wrong) == 0 && (len(c.pods)+len(c.shards)+len(c.late)+len(c.marks)+len(c.operated()) > 0 || c.spec != "" || c.finalizer) {
		c.fixed = clock
		c.violated("two sweeps have left something: %s", c.account())
	}
}

// explorer makes trials, several at once, and reports those that fail.
type explorer struct {
	*testing.T
	mu     sync.Mutex
	group  sync.WaitGroup
	slots  chan struct{}
	trials int
	failed map[string]bool
}

// exhaust makes all trials of a scenario with at most so many deviations.
func (e *explorer) exhaust(s scene, deviationsAtMost int) {
	level := []deviations{{}}
	for range deviationsAtMost + 1 {
		var mu sync.Mutex
		var next []deviations
		for _, d := range level {
			e.try(s, "one after the other", func() *faults { return &faults{forced: d} }, func(made *faults) {
				mu.Lock()
				defer mu.Unlock()
				next = append(next, made.neighbours()...)
			})
		}
		e.group.Wait()
		level = next
	}
}

// try makes one trial, in the background.
func (e *explorer) try(s scene, name string, with func() *faults, then func(*faults)) {
	e.slots <- struct{}{}
	e.trials++
	e.group.Go(func() {
		defer func() { <-e.slots }()
		made, wrong := attemptTrial(s, with())
		if len(wrong) > 0 {
			e.report(s, name, made)
		}
		then(made)
	})
}

// report makes a failure as small as it can be. Of failures with the same text one is
// enough.
func (e *explorer) report(s scene, name string, made *faults) {
	least := shrunk(made.deviations(), func(d deviations) bool {
		_, wrong := attemptTrial(s, &faults{forced: d})
		return len(wrong) > 0
	})
	made, wrong := attemptTrial(s, &faults{forced: least})
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failed[least.String()] || len(e.failed) >= 5 {
		e.Fail()
		return
	}
	e.failed[least.String()] = true
	e.Errorf("%s, %s:\n%s\n%s\nagain: go test ./workflows -run TestPromise -trial %q",
		s.name, name, made.list(), strings.Join(wrong, "\n"), s.name+":"+least.String())
}

// silentLog keeps the workflow's log out of the test's output.
type silentLog struct{}

func (silentLog) Debug(string, ...any) {}
func (silentLog) Info(string, ...any)  {}
func (silentLog) Warn(string, ...any)  {}
func (silentLog) Error(string, ...any) {}

var _ log.Logger = silentLog{}
