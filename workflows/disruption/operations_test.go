package disruption

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/clean"
	"github.com/squall-chaos/squall/activities/operate"
	"github.com/squall-chaos/squall/activities/prepare"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// rule L2
func TestPlacesAreKept(t *testing.T) {
	kept := targets.Selection{Desired: 2, Selected: 1, Matching: 2, Added: []int{0}, Kept: 1}
	keeps := func(t *testing.T) *world {
		w := newWorld(t)
		until := w.plan.CreateAt.Add(5 * time.Minute)
		w.plan.Static, w.plan.BusyUntil = true, &until
		return w
	}
	t.Run("the pod is free: it is taken, though targeting is static", func(t *testing.T) {
		w := keeps(t)
		w.selections = []targets.Selection{kept, {Desired: 2, Selected: 2, Added: []int{1}}}
		w.after(time.Minute, func() { w.observe(contract.Observation{Hash: "1", Candidates: 2}) })
		w.after(2*time.Minute, func() { w.observe(contract.Observation{Hash: "2", Candidates: 3}) })
		w.run(t)
		w.want(t, "prepare", "select", "create", "select", "create", "clean", "clean", "finish")
	})
	t.Run("the time is over: targets are chosen once more, and not again", func(t *testing.T) {
		w := keeps(t)
		var at []time.Time
		w.selections = []targets.Selection{kept, {Desired: 2, Selected: 1}}
		w.after(4*time.Minute+59*time.Second, func() { at = append(at, time.Time{}); w.want(t, "prepare", "select", "create") })
		w.after(5*time.Minute+10*time.Second, func() {
			at = append(at, time.Time{})
			w.want(t, "prepare", "select", "create", "clean ended", "select")
		})
		w.run(t)
		if len(at) != 2 {
			t.Errorf("it ended before it was looked at: %v", at)
		}
		w.want(t, "prepare", "select", "create", "clean ended", "select", "clean", "finish")
	})
	t.Run("the worker's clock is behind: it is asked every second", func(t *testing.T) {
		w := keeps(t)
		still := kept
		still.Added = nil
		w.selections = []targets.Selection{kept, still, still, {Desired: 2, Selected: 1}}
		w.run(t)
		w.want(t, "prepare", "select", "create", "clean ended", "select", "clean ended", "select", "clean ended", "select", "clean", "finish")
	})
}

// A target whose injection failed is retried when its pause is over, also when nothing is
// observed.
func TestTargetsThatFailedAreTriedAgain(t *testing.T) {
	w := newWorld(t)
	next := w.plan.CreateAt.Add(30 * time.Second)
	w.selections = []targets.Selection{
		{Desired: 1, Selected: 1, Matching: 1, Added: []int{0}},
		{Desired: 1, Matching: 1, RetryAt: &next},
		{Desired: 1, Selected: 1, Matching: 1, Added: []int{1}},
	}
	w.after(10*time.Second, func() { w.observe(contract.Observation{Hash: "1", Ended: 1}) })
	w.after(29*time.Second, func() { w.want(t, "prepare", "select", "create", "clean ended", "select") })
	w.after(32*time.Second, func() {
		w.want(t, "prepare", "select", "create", "clean ended", "select", "clean ended", "select", "create")
	})
	w.run(t)
	w.want(t, "prepare", "select", "create", "clean ended", "select", "clean ended", "select", "create", "clean", "clean", "finish")
}

// N4: targets that are chosen later get places in known shards, whatever carries the
// disruption out. A shard whose targets are waited for gets none.
func TestLaterTargetsFillShardsOfAllDisruptions(t *testing.T) {
	first := targets.Selection{Desired: 2, Selected: 1, Matching: 1, Added: []int{0}, Shards: 1}
	later := targets.Selection{Desired: 2, Selected: 2, Matching: 2, Added: []int{1}, Shards: 2, Run: 1}
	filled := targets.Selection{Desired: 2, Selected: 2, Matching: 2, Added: []int{0}, Shards: 2, Run: 2}
	for name, c := range map[string]struct {
		prepare func(w *world)
		closed  [][]int
	}{
		"the worker replaces pods": {func(w *world) { w.plan.Kinds = []v1beta1.Kind{v1beta1.KindPodReplacement} }, [][]int{nil, nil, nil}},
		"it participates": {func(w *world) {
			w.plan.Operations = &prepare.Operations{OperatingTimeout: 5 * time.Minute, AvailableTimeout: 5 * time.Minute}
			w.operations = []operate.Result{waiting, waiting, {Given: []int{0, 1}}, given}
		}, [][]int{nil, {0}, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.prepare(w)
			w.selections = []targets.Selection{first, later, filled}
			w.after(time.Minute, func() { w.observe(contract.Observation{Hash: "1", Candidates: 1}) })
			w.after(2*time.Minute, func() { w.observe(contract.Observation{Hash: "2", Candidates: 2}) })
			w.after(3*time.Minute, w.end)
			w.run(t)
			var closed [][]int
			for _, in := range w.chosenBy {
				if !in.Fill {
					t.Errorf("choice %d fills no places: %+v", in.Run, in)
				}
				closed = append(closed, in.Closed)
			}
			if diff := cmp.Diff(c.closed, closed); diff != "" {
				t.Errorf("closed shards, by choice (-want +got):\n%s", diff)
			}
		})
	}
}

// operates is a world with a disruption that is an operation on its targets.
func operates(t *testing.T, first ...operate.Result) *world {
	w := newWorld(t)
	w.plan.Static = true
	w.plan.Operations = &prepare.Operations{OperatingTimeout: 5 * time.Minute, AvailableTimeout: 5 * time.Minute}
	w.operations = first
	return w
}

var (
	waiting = operate.Result{Waiting: []int{0}}
	given   = operate.Result{Given: []int{0}}
)

// rules L4, L6, L7, L8
func TestOperationsOnTargets(t *testing.T) {
	t.Run("it injects when the targets are given, and gives them back when they are clean", func(t *testing.T) {
		w := operates(t, waiting, given)
		w.after(time.Minute, func() { w.want(t, "prepare", "select", "operate [0] over []") })
		w.after(2*time.Minute, func() { w.observe(contract.Observation{Hash: "1", Operations: 2}) })
		w.run(t)
		w.want(t, "prepare", "select", "operate [0] over []", "operate [0] over []", "create", "clean", "give back", "finish")
		if !w.finished.Operated || len(w.finished.NotInService) > 0 {
			t.Errorf("finished = %+v", w.finished)
		}
	})
	t.Run("they are not given in time: they are let go, and nothing is injected", func(t *testing.T) {
		w := operates(t, waiting, operate.Result{Lost: 2})
		w.run(t)
		w.want(t, "prepare", "select", "operate [0] over []", "clean ended", "give back what ended", "operate [0] over [0]", "clean", "give back", "finish")
	})
	t.Run("some are given late: the others are injected at once", func(t *testing.T) {
		w := operates(t, operate.Result{Given: []int{0}, Waiting: []int{0}}, given)
		w.after(time.Minute, func() { w.observe(contract.Observation{Hash: "1", Operations: 2}) })
		w.run(t)
		w.want(t, "prepare", "select", "operate [0] over []", "create", "operate [0] over []", "create", "clean", "give back", "finish")
	})
	t.Run("it is deleted while they are waited for", func(t *testing.T) {
		w := operates(t, waiting)
		w.after(time.Minute, w.end)
		w.run(t)
		w.want(t, "prepare", "select", "operate [0] over []", "clean", "give back", "finish")
	})
	t.Run("an emergency stop meets it before it has asked", func(t *testing.T) {
		w := operates(t, operate.Result{Waiting: []int{0}, Stopped: "emergency stop fire"})
		if result := w.run(t); result.Ending != "emergency stop fire" {
			t.Errorf("ending = %q", result.Ending)
		}
		w.want(t, "prepare", "select", "operate [0] over []", "clean", "give back", "finish")
	})
	t.Run("a pod could not be asked for: it is asked again", func(t *testing.T) {
		w := operates(t, operate.Result{Waiting: []int{0}, Again: "pod web-1: 500"}, given)
		w.after(askAgainPeriod-time.Second, func() { w.want(t, "prepare", "select", "operate [0] over []") })
		w.after(askAgainPeriod+time.Second, w.end)
		w.run(t)
		w.want(t, "prepare", "select", "operate [0] over []", "clean ended", "give back what ended", "operate [0] over []", "create", "clean", "give back", "finish")
	})
	t.Run("a target is lost: its operation ends while the others go on", func(t *testing.T) {
		w := operates(t, given)
		w.after(time.Minute, func() { w.observe(contract.Observation{Hash: "1", TargetsLost: 1}) })
		w.run(t)
		w.want(t, "prepare", "select", "operate [0] over []", "create", "clean ended", "give back what ended", "clean", "give back", "finish")
	})
	t.Run("one chaos pod is stuck: what is clean is given back, and the rest when it is", func(t *testing.T) {
		w := operates(t, given)
		hangs := clean.Result{Remaining: 1, Left: []chaospod.LeftPod{failedPod}}
		w.cleans = []clean.Result{hangs, hangs, hangs, {}}
		w.run(t)
		w.want(t, "prepare", "select", "operate [0] over []", "create", "clean", "give back", "clean", "give back", "clean", "give back", "clean", "give back", "finish")
	})
	t.Run("an earlier workflow began it: what it asked for is given back", func(t *testing.T) {
		w := operates(t)
		w.plan.CleanOnly = "an earlier workflow began it"
		w.run(t)
		w.want(t, "prepare", "clean", "give back", "finish")
	})
}

// rule L9
func TestTargetsAreGivenBack(t *testing.T) {
	away := operate.EndResult{Unavailable: 1, Pods: []string{"web-1: it lacks a label"}}
	t.Run("it waits until they are in service", func(t *testing.T) {
		w := operates(t, given)
		w.endings = []operate.EndResult{{Left: 1}, away, {}}
		w.after(time.Hour+time.Minute, func() { w.observe(contract.Observation{Hash: "1"}) })
		w.after(time.Hour+2*time.Minute, func() { w.observe(contract.Observation{Hash: "2"}) })
		w.run(t)
		w.want(t, "prepare", "select", "operate [0] over []", "create", "clean", "give back", "give back", "give back", "finish")
		if len(w.finished.NotInService) > 0 {
			t.Errorf("not in service: %v", w.finished.NotInService)
		}
	})
	t.Run("they do not come back: it ends all the same, and says so", func(t *testing.T) {
		w := operates(t, given)
		w.endings = []operate.EndResult{away}
		result := w.run(t)
		w.want(t, "prepare", "select", "operate [0] over []", "create", "clean", "give back", "give back at last", "finish")
		if len(w.finished.NotInService) != 1 || !strings.Contains(result.Summary, "web-1: it lacks a label") {
			t.Errorf("finished = %+v, result %+v", w.finished, result)
		}
	})
	t.Run("one cannot be written to: it is tried again, for as long as the spec says, and left to the bridge", func(t *testing.T) {
		w := operates(t, given)
		w.plan.Operations.AvailableTimeout = 40 * time.Second
		w.endings = []operate.EndResult{{Left: 1, Again: true, Pods: []string{"web-1: 500"}}}
		var began time.Time
		w.after(time.Minute, func() { began = w.env.Now(); w.end() })
		w.run(t)
		w.want(t, "prepare", "select", "operate [0] over []", "create", "clean", "give back", "give back", "give back",
			"give back at last", "give back at last", "give back at last", "give back at last", "finish")
		if took := w.finishedAt.Sub(began); took < 46*time.Second || took > 50*time.Second || !w.finished.NotEnded || len(w.finished.NotInService) != 1 {
			t.Errorf("after %s: finished = %+v", took, w.finished)
		}
	})
	t.Run("one call of the last fails: the next one ends it", func(t *testing.T) {
		w := operates(t, given)
		w.plan.Operations.AvailableTimeout = time.Second
		w.endings = []operate.EndResult{{Left: 1}, {Left: 1, Again: true}, {}}
		w.run(t)
		w.want(t, "prepare", "select", "operate [0] over []", "create", "clean", "give back", "give back at last", "give back at last", "finish")
		if w.finished.NotEnded {
			t.Errorf("finished = %+v", w.finished)
		}
	})
	t.Run("it is deleted, and the driver takes its time: status says that it is being cleaned", func(t *testing.T) {
		w := operates(t, given)
		w.endings = []operate.EndResult{{Left: 1}, {Left: 1}, {}}
		w.after(time.Minute, w.end)
		w.after(2*time.Minute, func() {
			last := w.reports[len(w.reports)-1]
			if last.Phase != v1beta1.PhaseCleaning || last.Ending != v1beta1.EndingDeleted {
				t.Errorf("the last report is %+v, want phase Cleaning", last)
			}
			w.observe(contract.Observation{Hash: "1"})
		})
		w.after(3*time.Minute, func() { w.observe(contract.Observation{Hash: "2"}) })
		w.run(t)
		cleaning := 0
		for _, report := range w.reports {
			if report.Phase == v1beta1.PhaseCleaning {
				cleaning++
			}
		}
		if cleaning != 1 {
			t.Errorf("phase Cleaning was reported %d times, want once: %+v", cleaning, w.reports)
		}
	})
	t.Run("it is deleted: nobody waits for their service, and somebody for their labels", func(t *testing.T) {
		w := operates(t, given)
		w.endings = []operate.EndResult{{Left: 1}, away}
		w.after(time.Minute, w.end)
		w.after(2*time.Minute, func() {
			w.want(t, "prepare", "select", "operate [0] over []", "create", "clean", "give back")
			w.observe(contract.Observation{Hash: "1"})
		})
		w.run(t)
		w.want(t, "prepare", "select", "operate [0] over []", "create", "clean", "give back", "give back", "finish")
	})
}
