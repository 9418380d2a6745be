package disruption

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/activities/clean"
	"github.com/squall-chaos/squall/activities/prepare"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// scene is a disruption of the model.
type scene struct {
	name string
	// pods is how many pods match the selector, wanted how many of them to disrupt.
	pods, wanted int
	static       bool
	delay        time.Duration
	rejected     string
	// ends is how injectors end without another choice: see endInjector.
	ends int
	// stopsAtOnce is true when a worker stops at once when its activity is cancelled; else
	// it completes the activity.
	stopsAtOnce bool
	// happens is the event after 40 seconds.
	happens string
	// probes is true when a probe guards the disruption; lasts is its duration, 0 for that
	// of all others.
	probes bool
	lasts  time.Duration
	// operates is true for an operation on its targets; held for one whose targets the
	// driver never gives.
	operates, held bool
	// bug is planted into the workflow; nil for none.
	bug *bug
}

const (
	lasts = 2 * time.Minute
	// calmAfter is when the cluster and its people begin to behave: nothing fails any more,
	// and people decide what has to be decided.
	calmAfter = 12 * time.Minute
	// healsWithin is how long Squall may take from then on if nodes are repaired.
	// askedWithin is how long it may take to ask for a person's decision if not.
	healsWithin, askedWithin = 40 * time.Minute, 40 * time.Minute
	step                     = 20 * time.Second
)

// target is a pod that matches the selector.
type target struct {
	name, node string
	gone       bool
	operation  operation
}

// claimed is a target in a shard's record.
type claimed struct {
	*target
	released bool
	state    recorded
	run      int
}

// exit is how an injector ended.
type exit int

const (
	neverStarted exit = iota
	cleanAndSearched
	cleanByItsWord // it reports clean without a search
	failedToClean
	unknown
)

// chaosPod is a chaos pod, with its kubelet and its injector.
type chaosPod struct {
	name             string
	target           *target
	shard            int
	made, deletedAt  time.Time
	started, ready   bool
	ended, finalizer bool
	exit             exit
	// takes is how long its injector needs to end; chosen once.
	takes   time.Duration
	decided bool
	willBe  exit
	// endedAt is when it ended.
	endedAt time.Time
	// pending is what its kubelet does with it when it is deleted while Pending.
	pending pendingEnd
	// cleaner is since when a cleaner works.
	cleaner time.Time
	// late is true when a worker made it after Temporal had timed out its activity.
	late bool
}

// pendingEnd is how a chaos pod ends that is deleted while it is Pending.
type pendingEnd int

const (
	notDecided      pendingEnd = iota
	dropped                    // its kubelet reports at once that it will not run
	droppedLate                // its kubelet reports so after a minute
	startedAfterAll            // its kubelet had begun to start it
)

// graceOfChaosPods is the grace period of the pods that the activities make.
var graceOfChaosPods = sync.OnceValue(func() time.Duration {
	for _, template := range []string{"../../activities/chaospod/chaospod.yaml", "../activities/chaospod.yaml"} {
		text, err := os.ReadFile(template)
		if err != nil {
			continue
		}
		if found := regexp.MustCompile(`terminationGracePeriodSeconds: (\d+)`).FindSubmatch(text); found != nil {
			seconds, _ := strconv.Atoi(string(found[1]))
			return time.Duration(seconds) * time.Second
		}
	}
	return 0
})

// failedAt is when it ended, or should have.
func (pod *chaosPod) failedAt() time.Time {
	if pod.ended {
		return pod.endedAt
	}
	return pod.deletedAt.Add(graceOfChaosPods())
}

// lateWrite is a write by a worker whose activity has timed out.
type lateWrite struct {
	at   time.Time
	what string
	do   func(late bool)
}

// cluster is the model: the API, the nodes and the people.
type cluster struct {
	scene
	faults *faults
	env    *testsuite.TestWorkflowEnvironment
	time   workflow.Context
	fixed  time.Time
	began  time.Time
	// heartbeats are the heartbeat timeouts of all activities that were started, by name.
	heartbeats map[string][]time.Duration

	// The Disruption's object.
	there, deleting, finalizer bool
	status                     status.Report
	verified                   bool
	// cleanedAt is when the last status was first written.
	cleanedAt time.Time
	// The records: spec is the run that wrote it.
	spec   string
	shards [][]claimed
	// forgotten are the nodes of earlier targets of the first shard.
	forgotten []string

	targets []*target
	pods    map[string]*chaosPod
	// marks are what is on nodes, by the chaos pod that made it.
	marks map[string]*chaosPod
	// tries is how often a cleaner still fails there; below 0 it always does.
	tries map[string]int
	// released are the chaos pods that a person released.
	released map[string]bool
	// byHand are those whose finalizer a person removed: Squall trusts that.
	byHand map[string]bool
	late   []lateWrite
	// named are the chaos pods that a last status has named as left.
	named []string

	run        int // of the workflow, by the bridge or a sweep
	terminated bool
	awayUntil  time.Time
	calm       bool
	calmSince  time.Time
	repairs    bool // once it is calm nodes are repaired; else a person releases
	cleaning   bool // it has begun
	endedBy    string
	stuckShown bool
	observed   string
	people     int
	wrong      []string
	// unsteady is true once the shop stops answering. It answers again after the end of the
	// disruption, once nothing of that is on any node.
	unsteady bool
}

func newCluster(s scene, c *faults) *cluster {
	m := &cluster{
		scene: s, faults: c, there: true, finalizer: true, run: 1, began: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC),
		pods: map[string]*chaosPod{}, marks: map[string]*chaosPod{}, tries: map[string]int{}, released: map[string]bool{}, byHand: map[string]bool{},
		heartbeats: map[string][]time.Duration{},
	}
	for i := range s.pods {
		m.targets = append(m.targets, &target{name: fmt.Sprintf("web-%d", i), node: fmt.Sprintf("n%d", i%2)})
	}
	return m
}

// violated notes that the promise is broken.
func (c *cluster) violated(format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

// now is the time of the workflow that runs, or fixed when none does.
func (c *cluster) now() time.Time {
	if !c.fixed.IsZero() {
		return c.fixed
	}
	return workflow.Now(c.time)
}

func (c *cluster) pick(what string, options ...string) int {
	if c.calm {
		return 0
	}
	return c.faults.pick(what, options)
}

// faultPoint is a moment at which a component may fail or a person may act: it returns
// the number of the fault, 0 for none.
func (c *cluster) faultPoint(ctx workflow.Context, what string, faults ...string) int {
	for {
		now := c.possible()
		options := append([]string{"all is well"}, faults...)
		for _, one := range now {
			options = append(options, one.name)
		}
		taken := c.pick(what, options...)
		if taken <= len(faults) {
			return taken
		}
		now[taken-len(faults)-1].do()
		c.sleep(ctx, time.Millisecond) // until the signals have arrived
	}
}

func (c *cluster) sleep(ctx workflow.Context, t time.Duration) {
	_ = workflow.Sleep(ctx, t) // ctx is never cancelled
	c.pass()
}

// live is the cluster's own life: time passes, and the bridge reports observations.
func (c *cluster) live(ctx workflow.Context) {
	for {
		c.sleep(ctx, step)
		c.observe()
		for _, one := range c.possible() {
			if one.name == c.happens && c.now().Sub(c.began) >= 40*time.Second {
				c.happens = ""
				one.do()
			}
		}
		if !c.calm && c.now().Sub(c.began) > calmAfter {
			c.repairs = c.pick("from here on all is well, and", "nodes are mended", "people release what is stuck") == 0
			c.calm, c.calmSince = true, c.now()
		}
		if !c.calm {
			c.faultPoint(ctx, "time passes")
			continue
		}
		c.endTrial(ctx)
	}
}

// endTrial waits for the end of the disruption, or reports that it does not end.
func (c *cluster) endTrial(ctx workflow.Context) {
	since := c.now().Sub(c.calmSince)
	switch {
	case c.repairs:
		clear(c.tries)
		if since > healsWithin {
			c.violated("all is well for %s and it has not ended: %s", healsWithin, c.account())
			c.terminated = true
		}
	case since > askedWithin+healsWithin:
		c.violated("all that was stuck is released and it has not ended: %s", c.account())
		c.terminated = true
	case since > askedWithin && c.state().Phase != v1beta1.PhaseCleaning: // it retries
		left := c.state().Left
		s := c.status
		if s.Phase != v1beta1.PhaseStuck || len(s.Left) == 0 || s.Left[0].Why == "" || s.Left[0].Pod == "" || !c.stuckShown {
			c.violated("nobody is told that it is stuck: status %+v, search attribute %t, %s", s, c.stuckShown, c.account())
		}
		if len(left) > 0 {
			c.resume(contract.Resume{Action: contract.ActionRelease}, true)
		}
		c.sleep(ctx, 5*time.Minute)
	}
}

// account describes the cluster for a person.
func (c *cluster) account() string {
	var pods []string
	for _, pod := range c.sorted() {
		pods = append(pods, fmt.Sprintf("%s started %t ended %t exit %d finalizer %t", pod.name, pod.started, pod.ended, pod.exit, pod.finalizer))
	}
	return fmt.Sprintf("finalizer %t, chaos pods %v, marks %v, operations %v, records %q %d, workflow %+v",
		c.finalizer, pods, slices.Sorted(maps.Keys(c.marks)), c.operated(), c.spec, len(c.shards), c.state())
}

// state is the answer to the query of status.
func (c *cluster) state() (s State) {
	if answer, err := c.env.QueryWorkflow(contract.QueryStatus); err == nil {
		_ = answer.Get(&s)
	}
	return s
}

func (c *cluster) sorted() (all []*chaosPod) {
	for _, name := range slices.Sorted(maps.Keys(c.pods)) {
		all = append(all, c.pods[name])
	}
	return all
}

// observe is the bridge: it signals each change to the workflow, once.
func (c *cluster) observe() {
	o := contract.Observation{}
	for _, pod := range c.sorted() {
		if pod.ended || !pod.deletedAt.IsZero() {
			o.Ended++
			o.Hash += pod.name
		}
		if pod.target.gone {
			o.TargetsLost++
			o.Hash += pod.target.name
		}
	}
	for _, t := range c.targets {
		if c.operates && t.operation.isBegun() {
			o.Operations++
			o.Hash += fmt.Sprintf("%s operation %t", t.name, t.operation.given)
		}
	}
	if o.Hash != c.observed {
		c.observed = o.Hash
		c.env.SignalWorkflow(contract.SignalObserved, o)
	}
}

// pass advances late writes, kubelets and injectors.
func (c *cluster) pass() {
	for len(c.late) > 0 {
		soonest := slices.MinFunc(c.late, func(a, b lateWrite) int { return a.at.Compare(b.at) })
		if soonest.at.After(c.now()) {
			break
		}
		i := slices.IndexFunc(c.late, func(w lateWrite) bool { return w.at.Equal(soonest.at) })
		soonest = c.late[i]
		c.late = slices.Delete(c.late, i, i+1)
		soonest.do(true)
	}
	for _, pod := range c.sorted() {
		c.kubelet(pod)
	}
	for _, t := range c.targets {
		c.drive(t)
	}
}

// kubelet advances one chaos pod as far as its node does.
func (c *cluster) kubelet(pod *chaosPod) {
	now := c.now()
	asked := !pod.deletedAt.IsZero()
	if expiry := c.plan().ExpireAt.Add(2 * time.Second); !asked && pod.started && now.After(expiry) {
		pod.deletedAt, asked = time.Time{}, true // its own deadline
	}
	switch {
	case !pod.started && !pod.ended && asked:
		c.endPending(pod)
	case !pod.started && !pod.ended && now.Sub(pod.made) >= time.Second:
		pod.started = true
		c.marks[pod.name] = pod
		pod.ready = c.pick(pod.name+" injects", "all of it", "half of it, and waits") == 0
	case pod.started && !pod.ended && asked:
		c.endInjector(pod)
	}
	if pod.ended && !pod.deletedAt.IsZero() && !pod.finalizer && c.pods[pod.name] == pod {
		delete(c.pods, pod.name)
	}
}

// endPending is a kubelet with a chaos pod that was deleted before it ran.
func (c *cluster) endPending(pod *chaosPod) {
	if pod.pending == notDecided {
		way := c.pick(pod.name+" is deleted while it is Pending", "its kubelet drops it",
			"its kubelet says so after a minute", "its kubelet starts it 3 seconds later, all the same")
		pod.pending = dropped + pendingEnd(way)
	}
	since := c.now().Sub(pod.deletedAt)
	switch {
	case pod.pending == startedAfterAll && since >= 3*time.Second:
		pod.started = true
		c.marks[pod.name] = pod
	case pod.pending == dropped, pod.pending == droppedLate && since >= time.Minute:
		pod.ended, pod.endedAt, pod.exit = true, c.now(), neverStarted
	}
}

// endInjector ends an injector that was asked to end, or has reached its deadline.
func (c *cluster) endInjector(pod *chaosPod) {
	if !pod.decided {
		pod.decided, pod.willBe, pod.takes = true, cleanAndSearched, 0
		way := c.pick(pod.name+" ends", "as the others", "clean, and nobody has searched", "it says clean, and something is left",
			"not clean; a cleaner mends it", "not clean; the third cleaner mends it", "not clean; no cleaner mends it",
			"clean, after 90 seconds", "clean, after 6 minutes", "evicted, clean", "evicted, not clean")
		if way == 0 && !c.calm {
			way = c.ends
		}
		switch way {
		case 1:
			pod.willBe = cleanByItsWord
			delete(c.marks, pod.name)
		case 2:
			pod.willBe = cleanByItsWord
		case 3:
			pod.willBe = failedToClean
		case 4:
			pod.willBe, c.tries[pod.name] = failedToClean, 2
		case 5:
			pod.willBe, c.tries[pod.name] = failedToClean, -1
		case 6:
			pod.takes = 90 * time.Second
		case 7:
			pod.takes = 6 * time.Minute
		case 8:
			pod.willBe = unknown
			delete(c.marks, pod.name)
		case 9:
			pod.willBe = unknown
		}
	}
	asked := pod.deletedAt
	if asked.IsZero() {
		asked = c.plan().ExpireAt
	}
	if c.now().Before(asked.Add(pod.takes)) && !c.calm {
		return
	}
	pod.ended, pod.endedAt, pod.exit = true, c.now(), pod.willBe
	if pod.exit == cleanAndSearched {
		delete(c.marks, pod.name)
	}
}

// cleanNode is a running cleaner: it removes what a chaos pod left, if it can.
func (c *cluster) cleanNode(pod *chaosPod) (clean bool) {
	if c.tries[pod.name] != 0 {
		c.tries[pod.name]--
		return false
	}
	delete(c.marks, pod.name)
	return true
}

// possible is what may happen now.
func (c *cluster) possible() (all []happening) {
	add := func(can bool, name string, do func()) {
		if can {
			all = append(all, happening{name, do})
		}
	}
	add(!c.deleting, "a person deletes the disruption", func() {
		c.deleting = true
		c.vanish()
		c.env.SignalWorkflow(contract.SignalEnd, nil)
	})
	add(c.probes && !c.unsteady, shopIsLost, func() { c.unsteady = true })
	add(true, "a person cancels the workflow", func() { c.env.CancelWorkflow() })
	add(true, "the workflow is terminated", func() { c.terminated = true })
	add(true, "the history is long: a new run is due", func() { c.env.SetContinueAsNewSuggested(true) })
	add(true, "the API server is away for 20 minutes", func() { c.awayUntil = c.now().Add(20 * time.Minute) })
	add(true, "the bridge tells of nothing new", func() { c.env.SignalWorkflow(contract.SignalObserved, contract.Observation{Hash: "again"}) })
	add(true, "the spec is edited", func() {
		c.env.SignalWorkflow(contract.SignalObserved, contract.Observation{Hash: "edit", SpecChanged: true})
	})
	add(c.deleting && c.finalizer, "a person takes the finalizer off the disruption", func() { c.finalizer = false; c.vanish() })
	add(true, "a person resumes: nonsense", func() { c.resume(contract.Resume{Action: "skip"}, true) })
	add(true, "a person resumes: retry", func() { c.resume(contract.Resume{Action: contract.ActionRetry}, true) })
	add(true, "a person resumes: release", func() { c.resume(contract.Resume{Action: contract.ActionRelease}, true) })
	add(true, "a person resumes, by signal: release web-0", func() {
		c.resume(contract.Resume{Action: contract.ActionRelease, Targets: []string{"web-0"}}, false)
	})
	for _, pod := range c.sorted() {
		add(!pod.target.gone, pod.target.name+" vanishes, and takes along what was injected", func() { pod.target.gone = true; delete(c.marks, pod.name) })
		add(!pod.target.gone, pod.target.name+" vanishes, and leaves something on its node", func() { pod.target.gone = true })
		add(pod.deletedAt.IsZero(), "a person deletes chaos pod of "+pod.target.name, func() { pod.deletedAt = c.now() })
		add(pod.started && !pod.ended, "the injector of "+pod.target.name+" is killed", func() {
			pod.ended, pod.endedAt, pod.exit = true, c.now(), failedToClean
			if c.ends == 5 {
				c.tries[pod.name] = -1
			}
		})
		add(pod.finalizer && pod.exit == failedToClean && pod.ended, "a person takes the finalizer off the chaos pod of "+pod.target.name, func() {
			pod.finalizer = false
			c.byHand[pod.name] = true
		})
		break // of the first: the others are like it
	}
	return all
}

// happening is an act of a person, or an event in the cluster.
type happening struct {
	name string
	do   func()
}

// vanish is the API server: a deleted object is removed with its last finalizer.
func (c *cluster) vanish() { c.there = c.there && !(c.deleting && !c.finalizer) }

// resume is a person's decision. A release of all targets is about what is left when it
// is accepted.
func (c *cluster) resume(r contract.Resume, update bool) {
	c.people++
	r.By, r.Reason = fmt.Sprintf("person %d", c.people), "it is scrap"
	release := func() {
		if r.Action != contract.ActionRelease {
			return
		}
		for _, pod := range c.state().Left {
			if len(r.Targets) == 0 || slices.Contains(r.Targets, pod.Target) {
				c.released[pod.Pod] = true
			}
		}
	}
	if update {
		c.env.UpdateWorkflow(contract.UpdateResume, "", &onAccept{do: release}, r)
		return
	}
	if checkResume(c.state().Left, r) == nil {
		release()
	}
	c.env.SignalWorkflow(contract.SignalResume, r)
}

// onAccept does something when an update is accepted.
type onAccept struct {
	answer
	do func()
}

func (o *onAccept) Accept() { o.do() }

// asked records the start of an activity.
func (c *cluster) asked(name string, arg any) {
	switch name {
	case "CleanChaosPods":
		c.cleaning = c.cleaning || !arg.(clean.Input).OnlyEnded
	case "CreateChaosPods", "SelectTargets", "OperateTargets":
		if c.cleaning {
			c.violated("%s is asked for after the cleaning began", name)
		}
	}
}

func (c *cluster) plan() prepare.Plan {
	create := c.began.Add(c.delay)
	plan := prepare.Plan{
		Kinds: []v1beta1.Kind{v1beta1.KindCPUPressure}, CreateAt: create, ExpireAt: create.Add(cmp.Or(c.lasts, lasts)), Static: c.static, SpecHash: "h",
		Rejected: c.rejected,
	}
	if c.operates {
		plan.Operations = &prepare.Operations{OperatingTimeout: time.Minute, AvailableTimeout: time.Minute}
	}
	if c.probes {
		steady := v1beta1.SteadyState{Probes: []v1beta1.Probe{{Name: "shop"}}}.WithDefaults()
		plan.SteadyState, plan.ProbeRules = &steady, prepare.ProbeRulesNow
	}
	return plan
}

// unexplained are the marks on nodes that no last status names. Exempt are the marks of a
// chaos pod whose finalizer a person removed, and of one that a worker made after
// Temporal had timed out its activity.
func (c *cluster) unexplained(reports []string) (all []string) {
	for name, pod := range c.marks {
		if !c.byHand[name] && !pod.late && !strings.Contains(strings.Join(append(c.named, reports...), " "), pod.target.node+":") {
			all = append(all, fmt.Sprintf("%s left something on %s", name, pod.target.node))
		}
	}
	slices.Sort(all)
	return all
}
