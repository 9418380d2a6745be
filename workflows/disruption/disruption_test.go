package disruption

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities"
	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/choose"
	"github.com/squall-chaos/squall/activities/clean"
	"github.com/squall-chaos/squall/activities/inject"
	"github.com/squall-chaos/squall/activities/operate"
	"github.com/squall-chaos/squall/activities/prepare"
	"github.com/squall-chaos/squall/activities/replace"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/activities/verify"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

var ref = v1beta1.DisruptionRef{Namespace: "shop", Name: "calm", UID: "u1"}

const (
	fireStop   = "emergency stop fire: payment is down"
	earlierRun = "an earlier workflow began it"
)

// world plays the cluster: it answers activities and records the calls, in order.
type world struct {
	env   *testsuite.TestWorkflowEnvironment
	plan  prepare.Plan
	calls []string
	// selections answer each SelectTargets, the last one for good.
	selections []targets.Selection
	// cleans answer each final CleanChaosPods, the last one for good.
	cleans []clean.Result
	// endedCleans answer each CleanChaosPods while the disruption lasts.
	endedCleans []clean.Result
	released    [][]string
	// asked are the inputs of all cleanings.
	asked []clean.Input
	// chosenBy is what every choice of targets was asked for.
	chosenBy []choose.Input
	// cleaned are the shards that were cleaned at the end.
	cleaned []int
	// retried are the inputs of cleaners, sweep by sweep.
	retried [][]string
	reports []status.Report
	// reporting is called while a report is written.
	reporting func(status.Report)
	left      []int
	// found is what a search of nodes finds.
	found []string
	// created answers CreateChaosPods.
	created inject.CreateResult
	// createError is the error of every CreateChaosPods.
	createError error
	// creating is how long CreateChaosPods takes for many targets.
	creating time.Duration
	// injecting is how long AwaitInjection takes, watches its inputs, and watchedRun the
	// newest choice that it has seen.
	injecting  time.Duration
	watches    []inject.AwaitInput
	watchedRun int
	// unproven is how many effects AwaitInjection reports as unproven, looks how many reads
	// AwaitEffects then takes, finished the input of Finish.
	unproven, looks int
	// wasInjected is whether status has the time at which all targets were injected.
	wasInjected bool
	finished    status.FinishInput
	finishedAt  time.Time
	// unreachableUntil is when CleanChaosPods reaches the API server again, unreached how
	// often it did not.
	unreachableUntil time.Time
	unreached        int
	// cleaning is how long CleanChaosPods takes, slow how long it takes for shard 1 while
	// the disruption lasts.
	cleaning, slow time.Duration
	// operations answer each OperateTargets, endings each final EndOperations, the last of
	// both for good.
	operations []operate.Result
	endings    []operate.EndResult
	mu         sync.Mutex
}

func next[T any](answers *[]T) (answer T) {
	if len(*answers) > 0 {
		answer = (*answers)[0]
	}
	if len(*answers) > 1 {
		*answers = (*answers)[1:]
	}
	return answer
}

func newWorld(t *testing.T) *world {
	var suite testsuite.WorkflowTestSuite
	w := &world{env: suite.NewTestWorkflowEnvironment()}
	start := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	w.env.SetStartTime(start)
	w.env.SetTestTimeout(time.Minute)
	w.env.SetWorkerOptions(patientWorker())
	w.plan = prepare.Plan{Kinds: []v1beta1.Kind{v1beta1.KindCPUPressure}, CreateAt: start, ExpireAt: start.Add(time.Hour), SpecHash: "h"}
	w.selections = []targets.Selection{{Desired: 2, Selected: 2, Matching: 5, Added: []int{0}}, {Desired: 2, Selected: 2, Matching: 5}}
	w.env.RegisterActivity(&activities.Activities{})
	w.env.RegisterWorkflowWithOptions(Workflow, workflow.RegisterOptions{Name: contract.WorkflowType})
	on := func(activity any, answer any, args int) {
		w.env.OnActivity(activity, anything(args)...).Return(answer)
	}
	on(a.Prepare, func(context.Context, v1beta1.DisruptionRef) (prepare.Plan, error) { return w.plan, w.did("prepare") }, 2)
	on(a.SelectTargets, func(_ context.Context, in choose.Input) (targets.Selection, error) {
		w.chosenBy = append(w.chosenBy, in)
		return next(&w.selections), w.did("select")
	}, 2)
	w.env.OnActivity(a.CreateChaosPods, anything(2)...).AfterFn(func() time.Duration { return w.creating }).
		Return(func(context.Context, inject.CreateInput) (inject.CreateResult, error) {
			_ = w.did("create")
			return w.created, w.createError
		})
	cleans := func(_ context.Context, in clean.Input) (clean.Result, error) {
		if w.env.Now().Before(w.unreachableUntil) {
			w.unreached++
			return clean.Result{}, temporal.NewApplicationError("connect: connection refused", clean.ErrorUnreachable)
		}
		w.retried, w.asked = append(w.retried, in.Retry), append(w.asked, in)
		if in.OnlyEnded {
			return next(&w.endedCleans), w.did("clean ended")
		}
		w.released, w.cleaned = append(w.released, in.Release), append(w.cleaned, in.Shard.Number)
		return next(&w.cleans), w.did("clean")
	}
	slow := mock.MatchedBy(func(in clean.Input) bool { return w.slow > 0 && in.OnlyEnded && in.Shard.Number == 1 })
	w.env.OnActivity(a.CleanChaosPods, mock.Anything, slow).AfterFn(func() time.Duration { return w.slow }).Return(cleans)
	w.env.OnActivity(a.CleanChaosPods, anything(2)...).AfterFn(func() time.Duration { return w.cleaning }).Return(cleans)
	w.env.OnActivity(a.AwaitInjection, anything(2)...).AfterFn(func() time.Duration { return w.injecting }).
		Return(func(_ context.Context, in inject.AwaitInput) (inject.InjectionProgress, error) {
			w.watches = append(w.watches, in)
			return inject.InjectionProgress{Injected: 2, Total: 2, Unproven: w.unproven, Run: w.watchedRun}, nil
		})
	on(a.AwaitEffects, func(context.Context, v1beta1.DisruptionRef) (inject.EffectProgress, error) {
		if w.looks--; w.looks > 0 {
			return inject.EffectProgress{}, temporal.NewApplicationErrorWithOptions("nothing matched yet", "NotProven",
				temporal.ApplicationErrorOptions{NextRetryDelay: 10 * time.Second})
		}
		return inject.EffectProgress{}, w.did("effects")
	}, 2)
	on(a.ReportPhase, func(_ context.Context, r status.Report) error {
		w.reports = append(w.reports, r)
		if w.reporting != nil {
			w.reporting(r)
		}
		return nil
	}, 2)
	on(a.WarnSpecChanged, func(context.Context, v1beta1.DisruptionRef) error { return w.did("spec changed") }, 2)
	on(a.FollowServices, func(context.Context, v1beta1.DisruptionRef) error { return w.did("follow services") }, 2)
	on(a.OperateTargets, func(_ context.Context, in operate.Input) (operate.Result, error) {
		return next(&w.operations), w.did(fmt.Sprintf("operate %v over %v", in.Shards, in.Over))
	}, 2)
	on(a.ReplacePods, func(context.Context, v1beta1.DisruptionRef) (replace.Result, error) {
		return replace.Result{Replaced: 1, Total: 1}, w.did("replace")
	}, 2)
	on(a.EndOperations, func(_ context.Context, in operate.EndInput) (operate.EndResult, error) {
		switch {
		case in.OnlyEnded:
			return operate.EndResult{}, w.did("give back what ended")
		case in.Over:
			return next(&w.endings), w.did("give back at last")
		}
		return next(&w.endings), w.did("give back")
	}, 2)
	on(a.VerifyNodes, func(_ context.Context, in verify.Input) (verify.Result, error) {
		return verify.Result{Left: w.found}, w.did("verify " + strings.Join(in.Nodes, " "))
	}, 2)
	on(a.WasInjected, func(context.Context, v1beta1.DisruptionRef) (bool, error) { return w.wasInjected, nil }, 2)
	on(a.Finish, func(_ context.Context, in status.FinishInput) (int, error) {
		w.finished, w.finishedAt = in, w.env.Now()
		return next(&w.left), w.did("finish")
	}, 2)
	return w
}

// patientWorker takes no workflow for stuck because the machine is busy.
func patientWorker(interceptors ...interceptor.WorkerInterceptor) worker.Options {
	return worker.Options{DeadlockDetectionTimeout: time.Minute, Interceptors: interceptors}
}

func anything(n int) []any {
	args := make([]any, n)
	for i := range args {
		args[i] = mock.Anything
	}
	return args
}

func (w *world) did(what string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, what)
	return nil
}

func (w *world) after(d time.Duration, do func()) { w.env.RegisterDelayedCallback(do, d) }

func (w *world) end()                           { w.env.SignalWorkflow(contract.SignalEnd, nil) }
func (w *world) observe(o contract.Observation) { w.env.SignalWorkflow(contract.SignalObserved, o) }

func (w *world) run(t *testing.T) Result {
	t.Helper()
	w.env.ExecuteWorkflow(contract.WorkflowType, Input{Input: contract.Input{Disruption: ref}})
	if !w.env.IsWorkflowCompleted() {
		t.Fatal("workflow did not end")
	}
	if err := w.env.GetWorkflowError(); err != nil {
		t.Fatalf("workflow failed: %v", err)
	}
	var result Result
	if err := w.env.GetWorkflowResult(&result); err != nil {
		t.Fatal(err)
	}
	return result
}

// state is the answer to the query of status.
func (w *world) state(t *testing.T) (state State) {
	t.Helper()
	answer, err := w.env.QueryWorkflow(contract.QueryStatus)
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.Get(&state); err != nil {
		t.Fatal(err)
	}
	return state
}

func (w *world) want(t *testing.T, calls ...string) {
	t.Helper()
	if diff := cmp.Diff(calls, w.calls); diff != "" {
		t.Errorf("activities, in order (-want +got):\n%s", diff)
	}
}

// wantCleaned wants these shards cleaned at the end, each once.
func (w *world) wantCleaned(t *testing.T, shards ...int) {
	t.Helper()
	if diff := cmp.Diff(shards, slices.Sorted(slices.Values(w.cleaned))); diff != "" {
		t.Errorf("shards cleaned at the end (-want +got):\n%s", diff)
	}
}

var failedPod = chaospod.LeftPod{Pod: "chaos-1", UID: "uid-1", Node: "n1", Target: "web-1", Kind: v1beta1.KindCPUPressure, Outcome: chaospod.Failed, Why: "qdisc busy"}

func TestDisruption(t *testing.T) {
	t.Run("it expires: everything is taken off and let go", func(t *testing.T) {
		w := newWorld(t)
		result := w.run(t)
		// rules 1, 6
		w.want(t, "prepare", "select", "create", "clean", "finish")
		if result.Ending != v1beta1.EndingExpired || !strings.Contains(result.Summary, "nothing is left") {
			t.Errorf("result = %+v, want expired with nothing left", result)
		}
	})
	t.Run("it is deleted: cleaning starts at once", func(t *testing.T) {
		w := newWorld(t)
		w.after(10*time.Minute, w.end)
		started := w.env.Now()
		result := w.run(t)
		// rules 2, 34
		if result.Ending != "deleted" || w.env.Now().Sub(started) > 11*time.Minute {
			t.Errorf("ended %q after %s, want deleted after 10 minutes", result.Ending, w.env.Now().Sub(started))
		}
		w.want(t, "prepare", "select", "create", "clean", "finish")
	})
	for takes, reports := range map[time.Duration]int{cleaningStatusDelay / 2: 0, 2 * cleaningStatusDelay: 1} {
		t.Run(fmt.Sprintf("it is deleted and clean after %s: status says %d times that it is being cleaned", takes, reports), func(t *testing.T) {
			w := newWorld(t)
			w.cleaning = takes
			w.after(10*time.Minute, w.end)
			w.run(t)
			if len(w.reports) != reports {
				t.Errorf("reports = %+v, want %d", w.reports, reports)
			}
		})
	}
	t.Run("it is deleted while injecting: what was injected is cleaned", func(t *testing.T) {
		w := newWorld(t)
		w.injecting = 2 * time.Hour
		w.after(time.Minute, w.end)
		if result := w.run(t); result.Ending != "deleted" {
			t.Errorf("ending = %q, want deleted", result.Ending)
		}
		w.want(t, "prepare", "select", "create", "clean", "finish")
		w.wantCleaned(t, 0)
	})
	t.Run("it is deleted while chaos pods are made for many: every shard is cleaned", func(t *testing.T) {
		w := newWorld(t)
		w.selections = []targets.Selection{{Selected: 400, Added: []int{0, 1}}}
		w.creating, w.injecting = time.Minute, 2*time.Hour
		w.after(30*time.Second, w.end)
		if result := w.run(t); result.Ending != "deleted" {
			t.Errorf("ending = %q, want deleted", result.Ending)
		}
		w.want(t, "prepare", "select", "clean", "clean", "finish") // no creation has answered
		w.wantCleaned(t, 0, 1)
	})
	t.Run("it is cancelled in the Temporal UI: cleaned all the same", func(t *testing.T) {
		w := newWorld(t)
		w.after(time.Minute, w.env.CancelWorkflow)
		if result := w.run(t); result.Ending != "cancelled" {
			t.Errorf("ending = %q, want cancelled", result.Ending)
		}
		w.want(t, "prepare", "select", "create", "clean", "finish")
	})
	t.Run("nothing changes in between: nothing is done", func(t *testing.T) {
		w := newWorld(t)
		w.plan.Static = true
		w.run(t)
		// rules 3, T6: an hour of holding has no activity at all
		w.want(t, "prepare", "select", "create", "clean", "finish")
	})
	t.Run("nothing is told for hours: it looks every six, and does nothing else", func(t *testing.T) {
		w := newWorld(t)
		w.plan.ExpireAt = w.plan.CreateAt.Add(13 * time.Hour)
		var published, timers int
		w.env.SetOnTimerScheduledListener(func(string, time.Duration) { timers++ })
		w.env.OnUpsertTypedSearchAttributes(mock.Anything).Run(func(mock.Arguments) { published++ }).Return(nil)
		before := map[time.Duration][2]int{}
		for _, at := range []time.Duration{time.Hour, 5*time.Hour + 59*time.Minute, 6*time.Hour + time.Minute, 12*time.Hour + time.Minute} {
			w.after(at, func() { before[at] = [2]int{published, timers} })
		}
		w.run(t)
		// rules 3, T6
		w.want(t, "prepare", "select", "create", "clean ended", "select", "clean ended", "select", "clean", "finish")
		holding := before[time.Hour]
		want := map[time.Duration][2]int{
			time.Hour: holding, 5*time.Hour + 59*time.Minute: holding,
			6*time.Hour + time.Minute: {holding[0], holding[1] + 1}, 12*time.Hour + time.Minute: {holding[0], holding[1] + 2},
		}
		if diff := cmp.Diff(want, before); diff != "" {
			t.Errorf("search attributes published and timers started (-want +got):\n%s", diff)
		}
		if len(w.reports) != 1 || w.reports[0].Phase != v1beta1.PhaseCleaning {
			t.Errorf("reports = %+v, want none before the cleaning", w.reports)
		}
	})
	t.Run("the spec cannot run: nothing is injected", func(t *testing.T) {
		w := newWorld(t)
		w.plan.Rejected = "count: must be positive"
		result := w.run(t)
		if result.Ending != "rejected" || !strings.Contains(result.Summary, "count: must be positive") {
			t.Errorf("result = %+v, want rejected with the reason", result)
		}
		w.want(t, "prepare", "clean", "finish")
	})
	t.Run("an earlier workflow was terminated: only cleaned", func(t *testing.T) {
		w := newWorld(t)
		w.plan = prepare.Plan{CleanOnly: "an earlier workflow began it"}
		w.run(t)
		w.want(t, "prepare", "clean", "finish")
	})
	t.Run("the trigger is an hour away: no chaos pod before", func(t *testing.T) {
		w := newWorld(t)
		w.plan.CreateAt, w.plan.ExpireAt = w.plan.CreateAt.Add(time.Hour), w.plan.ExpireAt.Add(time.Hour)
		w.after(59*time.Minute, func() {
			if diff := cmp.Diff([]string{"prepare"}, w.calls); diff != "" {
				t.Errorf("before the trigger:\n%s", diff)
			}
		})
		w.run(t)
		w.want(t, "prepare", "select", "create", "clean", "finish")
	})
}

func TestTargetsComeAndGo(t *testing.T) {
	t.Run("a chaos pod ended: it is let go and another target is taken", func(t *testing.T) {
		w := newWorld(t)
		w.selections = []targets.Selection{{Selected: 2, Added: []int{0}}, {Selected: 2, Added: []int{1}}, {Selected: 2}}
		w.after(time.Minute, func() { w.observe(contract.Observation{Hash: "1", Ended: 1}) })
		w.run(t)
		// rules 36, 37
		w.want(t, "prepare", "select", "create", "clean ended", "select", "create", "clean", "clean", "finish")
	})
	t.Run("observed before targets are chosen: nothing is looked at twice", func(t *testing.T) {
		w := newWorld(t)
		w.after(0, func() { w.observe(contract.Observation{Hash: "1", Candidates: 5}) })
		w.run(t)
		w.want(t, "prepare", "select", "create", "clean", "finish")
	})
	t.Run("an edit observed before targets are chosen: told all the same", func(t *testing.T) {
		w := newWorld(t)
		w.plan.Static = true
		w.after(0, func() { w.observe(contract.Observation{Hash: "1", SpecChanged: true}) })
		w.run(t)
		w.want(t, "prepare", "select", "create", "spec changed", "clean", "finish")
	})
	t.Run("static targeting: no other target is taken", func(t *testing.T) {
		w := newWorld(t)
		w.plan.Static = true
		w.after(time.Minute, func() { w.observe(contract.Observation{Hash: "1", Ended: 1}) })
		w.run(t)
		w.want(t, "prepare", "select", "create", "clean ended", "clean", "finish")
	})
	t.Run("maxRuns 1: no second run", func(t *testing.T) {
		w := newWorld(t)
		w.plan.MaxRuns = 1
		w.after(time.Minute, func() { w.observe(contract.Observation{Hash: "1", Candidates: 9}) })
		w.run(t)
		w.want(t, "prepare", "select", "create", "clean", "finish")
	})
	t.Run("no target at first, one later: it is taken then", func(t *testing.T) {
		w := newWorld(t)
		w.plan.Static = true
		w.selections = []targets.Selection{{}, {Selected: 1, Added: []int{0}}}
		w.after(time.Minute, func() { w.observe(contract.Observation{Hash: "1", Candidates: 1}) })
		w.run(t)
		w.want(t, "prepare", "select", "select", "create", "clean", "finish")
	})
	t.Run("the spec was edited: told, and nothing else", func(t *testing.T) {
		w := newWorld(t)
		w.plan.Static = true
		w.after(time.Minute, func() { w.observe(contract.Observation{Hash: "1", SpecChanged: true}) })
		w.run(t)
		// rules 8, 9
		w.want(t, "prepare", "select", "create", "spec changed", "clean", "finish")
	})
	t.Run("services stand for something else: told once each time", func(t *testing.T) {
		w := newWorld(t)
		w.plan.Static, w.plan.Services = true, true
		for i, services := range []string{"first", "first", "", "second"} {
			w.after(time.Duration(i+1)*time.Minute, func() { w.observe(contract.Observation{Hash: fmt.Sprint(i), Services: services}) })
		}
		w.run(t)
		w.want(t, "prepare", "select", "create", "follow services", "follow services", "clean", "finish")
	})
	t.Run("nothing is told of services for hours: they are looked at with the rest", func(t *testing.T) {
		w := newWorld(t)
		w.plan.Static, w.plan.Services = true, true
		w.plan.ExpireAt = w.plan.CreateAt.Add(7 * time.Hour)
		w.run(t)
		w.want(t, "prepare", "select", "create", "follow services", "clean ended", "clean", "finish")
	})
	t.Run("a hundred observations at once are two looks at most", func(t *testing.T) {
		w := newWorld(t)
		w.plan.Static = true
		w.after(time.Minute, func() {
			for range 100 {
				w.observe(contract.Observation{Hash: "1", Ended: 1})
			}
		})
		w.run(t)
		cleanings := 0
		for _, call := range w.calls {
			if call == "clean ended" {
				cleanings++
			}
		}
		if cleanings < 1 || cleanings > 2 {
			t.Errorf("%d looks, want 1 or 2", cleanings)
		}
	})
}

// While a shard waits, such as for a cleaner on a slow node, chaos pods of other shards
// are cleaned when they end (rule 48a).
func TestMoreEndWhileAShardWaits(t *testing.T) {
	for name, c := range map[string]struct {
		second contract.Observation
		want   []int // shards, in the order in which they are clean
	}{
		"one more ended":                             {contract.Observation{Hash: "2", Ended: 2}, []int{0, 0, 1, 0, 1}},
		"a target was lost":                          {contract.Observation{Hash: "2", Ended: 1, TargetsLost: 1}, []int{0, 0, 1, 0, 1}},
		"only a candidate came":                      {contract.Observation{Hash: "2", Ended: 1, Candidates: 9}, []int{0, 1, 0, 1}},
		"nothing more is told":                       {contract.Observation{}, []int{0, 1}},
		"one more ended, in the shard that is clean": {contract.Observation{Hash: "2", Ended: 2, Shards: []int{0}}, []int{0, 0, 1, 0}},
		"one more ended, in the shard that waits":    {contract.Observation{Hash: "2", Ended: 2, Shards: []int{1}}, []int{0, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.plan.Static, w.slow = true, 30*time.Second
			w.selections = []targets.Selection{{Selected: 2, Added: []int{0, 1}}}
			w.after(time.Minute, func() { w.observe(contract.Observation{Hash: "1", Ended: 1}) })
			if c.second.Hash != "" {
				w.after(time.Minute+10*time.Second, func() { w.observe(c.second) })
			}
			w.run(t)
			w.wantEndedCleaned(t, c.want...)
		})
	}
	t.Run("one more ended in a shard that nobody has named before", func(t *testing.T) {
		w := newWorld(t)
		w.plan.Static, w.slow = true, 30*time.Second
		w.selections = []targets.Selection{{Selected: 3, Added: []int{0, 1, 2}}}
		w.after(time.Minute, func() { w.observe(contract.Observation{Hash: "1", Ended: 1, Shards: []int{1}}) })
		w.after(time.Minute+10*time.Second, func() { w.observe(contract.Observation{Hash: "2", Ended: 2, Shards: []int{1, 2}}) })
		w.run(t)
		w.wantEndedCleaned(t, 2, 1, 2, 1)
	})
	t.Run("a cleaner has just failed in a shard that is cleaned again", func(t *testing.T) {
		w := newWorld(t)
		w.plan.Static, w.slow = true, 30*time.Second
		w.selections = []targets.Selection{{Selected: 2, Added: []int{0, 1}}}
		pods := func(why string) clean.Result {
			pod := failedPod
			pod.Why = why
			return clean.Result{Remaining: 1, Left: []chaospod.LeftPod{pod}}
		}
		w.endedCleans = []clean.Result{pods("the cleaner failed too"), pods("the injector failed"), {}}
		w.after(time.Minute, func() { w.observe(contract.Observation{Hash: "1", Ended: 1}) })
		w.after(time.Minute+10*time.Second, func() { w.observe(contract.Observation{Hash: "2", Ended: 2}) })
		w.after(time.Minute+31*time.Second, func() {
			left := w.state(t).Left
			if len(left) != 1 || left[0].Why != "the cleaner failed too" || left[0].Tries != 1 {
				t.Errorf("left is %+v, want the chaos pod, with what its cleaner said, and one try", left)
			}
		})
		w.run(t)
		if diff := cmp.Diff([]string{failedPod.ID()}, w.asked[1].Exhausted); diff != "" {
			t.Errorf("chaos pods that no cleaner tries again (-want +got):\n%s", diff)
		}
	})
}

// wantEndedCleaned wants these shards cleaned while the disruption lasts, in this order.
func (w *world) wantEndedCleaned(t *testing.T, want ...int) {
	t.Helper()
	var got []int
	for _, in := range w.asked {
		if in.OnlyEnded {
			got = append(got, in.Shard.Number)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("shards cleaned while the disruption goes on (-want +got):\n%s", diff)
	}
}

// N4: only the shards that an observation names are cleaned, unless something is left in
// any shard, or the observation names none.
func TestOnlyNamedShardsAreCleaned(t *testing.T) {
	stuck := clean.Result{Remaining: 1, Left: []chaospod.LeftPod{failedPod}}
	for name, c := range map[string]struct {
		shards []int
		left   []clean.Result
		want   []int
	}{
		"one":                       {[]int{1}, nil, []int{1}},
		"two":                       {[]int{0, 2}, nil, []int{0, 2}},
		"none":                      {nil, nil, []int{0, 1, 2}},
		"one that nobody knows":     {[]int{7}, nil, []int{0, 1, 2}},
		"one, and something failed": {[]int{1}, []clean.Result{stuck, {}}, []int{0, 1, 1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.plan.Static = true
			w.selections = []targets.Selection{{Selected: 3, Added: []int{0, 1, 2}}}
			w.endedCleans = c.left
			w.after(time.Minute, func() { w.observe(contract.Observation{Hash: "1", Ended: 1, Shards: c.shards}) })
			w.run(t)
			slices.SortFunc(w.asked, func(a, b clean.Input) int { return a.Shard.Number - b.Shard.Number })
			w.wantEndedCleaned(t, c.want...)
		})
	}
}

func TestStuck(t *testing.T) {
	stuck := clean.Result{Remaining: 1, Left: []chaospod.LeftPod{failedPod}}
	resume := func(w *world, r contract.Resume) *answer {
		got := &answer{}
		w.env.UpdateWorkflow(contract.UpdateResume, "", got, r)
		return got
	}
	t.Run("it waits for a person, says what is wrong, and ends when resumed", func(t *testing.T) {
		w := newWorld(t)
		w.cleans = []clean.Result{stuck, stuck, stuck, {}}
		var retried *answer
		w.after(time.Hour+5*time.Minute, func() {
			last := w.reports[len(w.reports)-1]
			if last.Phase != v1beta1.PhaseStuck || len(last.Left) != 1 || last.Left[0].Why != "qdisc busy" {
				t.Errorf("report = %+v, want Stuck with the failed pod", last) // rule 45
			}
			retried = resume(w, contract.Resume{Action: "retry"})
		})
		w.run(t)
		if retried.rejected != nil {
			t.Errorf("retry refused: %v", retried.rejected)
		}
		// rule 46
		w.want(t, "prepare", "select", "create", "clean", "clean", "clean", "clean", "finish")
	})
	t.Run("an API server that is away for two hours is no reason to ask a person", func(t *testing.T) {
		w := newWorld(t)                                    // N15
		w.unreachableUntil = w.env.Now().Add(3 * time.Hour) // it expires after one
		result := w.run(t)
		for _, r := range w.reports {
			if r.Phase == v1beta1.PhaseStuck {
				t.Error("reported Stuck, want Cleaning until the API server answers")
			}
		}
		if late := w.finishedAt.Sub(w.unreachableUntil); w.unreached < 8 || late > 20*time.Minute {
			t.Errorf("%d attempts did not reach it, and it ended %s after it was back, want 8 at least, and within 20m", w.unreached, late)
		}
		if !strings.Contains(result.Summary, "nothing is left") {
			t.Errorf("result = %+v", result)
		}
	})
	t.Run("cleaners are tried a few times before a person is asked", func(t *testing.T) {
		w := newWorld(t)
		w.cleans = []clean.Result{stuck, stuck, {}}
		started := w.env.Now()
		w.run(t)
		for _, retried := range w.retried {
			if !cmp.Equal(retried, allTargets) {
				t.Errorf("cleaners were asked for %v, want all", retried)
			}
		}
		for _, r := range w.reports {
			if r.Phase == v1beta1.PhaseStuck {
				t.Error("stuck although a cleaner healed it")
			}
		}
		if took := w.env.Now().Sub(started) - time.Hour; len(w.retried) != 3 || took > 15*time.Second {
			t.Errorf("healed by try %d after %s, want the third within 15s", len(w.retried), took)
		}
	})
	t.Run("one that fails while the disruption goes on is cleaned, and told of when that fails too", func(t *testing.T) {
		w := newWorld(t)
		w.plan.Static = true
		w.endedCleans = []clean.Result{stuck, stuck, stuck, {}}
		w.after(time.Minute, func() { w.observe(contract.Observation{Hash: "1", Ended: 1}) })
		w.after(time.Minute+5*time.Second, func() {
			if n := len(w.reports); n != 0 {
				t.Errorf("%d reports after two tries, want none yet", n)
			}
		})
		w.after(2*time.Minute, func() {
			if n := len(w.reports); n != 1 || len(w.reports[0].Left) != 1 {
				t.Errorf("reports = %+v, want one that names the pod", w.reports)
			}
		})
		w.run(t)
		if got := w.reports[1]; len(got.Left) != 0 || len(w.retried) != 5 {
			t.Errorf("then %+v after %d rounds of cleaning, want it healed by the fourth", got, len(w.retried))
		}
	})
	t.Run("what a cleaner report is told once, and kept while none runs", func(t *testing.T) {
		w := newWorld(t)
		failed, plain := failedPod, failedPod
		failed.Why = "the cleaner failed too: qdisc busy"
		report := clean.Result{Remaining: 1, Left: []chaospod.LeftPod{failed}}
		w.cleans = []clean.Result{report, report, report, {Remaining: 1, Left: []chaospod.LeftPod{plain}}, {}}
		// A restarted bridge sends its observation again.
		w.after(time.Hour+time.Minute, func() { w.observe(contract.Observation{Hash: "2"}) })
		w.run(t)
		var rounds []int
		for _, r := range w.reports {
			if r.Phase == v1beta1.PhaseStuck {
				rounds = append(rounds, r.Round)
				if r.Left[0].Why != failed.Why {
					t.Errorf("told %q, want the cleaner's words", r.Left[0].Why)
				}
			}
		}
		if !cmp.Equal(rounds, []int{1, 1}) {
			t.Errorf("told as rounds %v, want the same round twice", rounds)
		}
	})
	t.Run("it tries again by itself", func(t *testing.T) {
		w := newWorld(t)
		w.cleans = []clean.Result{stuck, stuck, stuck, stuck, stuck, {}}
		started := w.env.Now()
		w.run(t)
		if took := w.env.Now().Sub(started) - time.Hour; took < 3*retryPeriod || took > 3*retryPeriod+time.Minute {
			t.Errorf("healed after %s, want three retries of %s", took, retryPeriod) // rule 49
		}
	})
	t.Run("a person removed the finalizer by hand: it goes on at once", func(t *testing.T) {
		w := newWorld(t)
		w.cleans = []clean.Result{stuck, stuck, stuck, {}}
		w.after(time.Hour+time.Minute, func() { w.observe(contract.Observation{Hash: "2"}) })
		started := w.env.Now()
		w.run(t)
		if took := w.env.Now().Sub(started); took > time.Hour+2*time.Minute {
			t.Errorf("went on after %s, want at once", took) // rule 46
		}
	})
	t.Run("a person removed the finalizer while it was told that it is stuck: it goes on at once", func(t *testing.T) {
		w := newWorld(t)
		w.cleans = []clean.Result{stuck, stuck, stuck, {}}
		w.reporting = func(r status.Report) {
			if r.Phase == v1beta1.PhaseStuck {
				w.observe(contract.Observation{Hash: "2"})
			}
		}
		started := w.env.Now()
		w.run(t)
		if took := w.env.Now().Sub(started); took > time.Hour+2*time.Minute {
			t.Errorf("went on after %s, want at once", took) // rule 46
		}
	})
	t.Run("wrong resumes are refused with the reason, and change nothing", func(t *testing.T) {
		w := newWorld(t)
		w.cleans = []clean.Result{stuck, stuck, stuck, {}}
		answers := map[string]*answer{}
		ask := func(when time.Duration, want string, r contract.Resume) {
			w.after(when, func() { answers[want] = resume(w, r) })
		}
		ask(time.Minute, "not stuck", contract.Resume{Action: "retry"})
		ask(time.Hour+time.Minute, `action must be "retry" or "release", got "skip"`, contract.Resume{Action: "skip"})
		ask(time.Hour+time.Minute, `target "web-9" is not stuck; stuck are: web-1`, contract.Resume{Action: "retry", Targets: []string{"web-9"}})
		ask(time.Hour+time.Minute, `needs "by"`, contract.Resume{Action: "release", Reason: "gone"})
		ask(time.Hour+time.Minute, `"reason"`, contract.Resume{Action: "release", By: "ann"})
		started := w.env.Now()
		w.run(t)
		for want, got := range answers {
			if got.rejected == nil || !strings.Contains(got.rejected.Error(), want) {
				t.Errorf("answer %v, want refused with %q", got.rejected, want)
			}
		}
		if took := w.env.Now().Sub(started); len(answers) != 5 || took < time.Hour+retryPeriod {
			t.Errorf("%d answers, ended after %s: want 5, and no resume before %s", len(answers), took, retryPeriod)
		}
	})
	t.Run("release lets go of what is left, and says who and why", func(t *testing.T) {
		w := newWorld(t)
		w.cleans = []clean.Result{stuck, stuck, stuck, {}}
		w.after(time.Hour+time.Minute, func() {
			resume(w, contract.Resume{Action: "release", Targets: []string{"web-1"}, By: "ann", Reason: "node is scrap"})
		})
		result := w.run(t)
		if got := w.released[len(w.released)-1]; !cmp.Equal(got, []string{"uid-1"}) {
			t.Errorf("released = %v, want uid-1", got)
		}
		if want := []string{"release web-1 by ann: node is scrap"}; result.ReleasedPods != 1 || !cmp.Equal(result.Decisions, want) {
			t.Errorf("result = %+v, want one let go and decisions %q", result, want) // rule 48
		}
	})
	t.Run("a decision that comes while it cleans again counts", func(t *testing.T) {
		w := newWorld(t)
		w.cleaning = time.Minute
		w.cleans = []clean.Result{stuck, stuck, {}}
		var released *answer
		w.after(time.Hour+90*time.Second, func() { w.observe(contract.Observation{Hash: "2"}) })
		w.after(time.Hour+2*time.Minute, func() {
			released = resume(w, contract.Resume{Action: "release", By: "ann", Reason: "node is scrap"})
		})
		started := w.env.Now()
		result := w.run(t)
		if released == nil || released.rejected != nil || result.ReleasedPods != 1 {
			t.Errorf("release answered %+v, result %+v; want it taken", released, result) // rule 48
		}
		if took := w.env.Now().Sub(started); took > time.Hour+5*time.Minute {
			t.Errorf("went on after %s, want right after the cleaning", took)
		}
	})
	t.Run("two people decide before it goes on: both count, and no chaos pod is let go twice", func(t *testing.T) {
		w := newWorld(t)
		w.cleaning = time.Minute
		w.cleans = []clean.Result{stuck, stuck, {}}
		w.after(time.Hour+2*time.Minute, func() {
			resume(w, contract.Resume{Action: "retry", By: "bob"})
			resume(w, contract.Resume{Action: "release", By: "ann", Reason: "node is scrap"})
			resume(w, contract.Resume{Action: "release", Targets: []string{"web-1"}, By: "eve", Reason: "so it is"})
		})
		result := w.run(t)
		want := []string{"retry by bob", "release web-1 by ann: node is scrap", "release web-1 by eve: so it is"}
		if result.ReleasedPods != 1 || !cmp.Equal(result.Decisions, want) {
			t.Errorf("result = %+v, want one let go and decisions %q", result, want)
		}
		last := len(w.released) - 1
		if !cmp.Equal(w.released[last], []string{"uid-1"}) || !cmp.Equal(w.retried[last], allTargets) {
			t.Errorf("released %v, retried %v; want uid-1, and everything", w.released[last], w.retried[last])
		}
	})
	t.Run("two people release all of more than are listed: each counts once", func(t *testing.T) {
		w := newWorld(t)
		w.cleaning = time.Minute
		many := stuck
		many.Remaining = 60
		w.cleans = []clean.Result{many, many, {}}
		w.after(time.Hour+2*time.Minute, func() {
			resume(w, contract.Resume{Action: "release", By: "ann", Reason: "node is scrap"})
			resume(w, contract.Resume{Action: "release", By: "eve", Reason: "so it is"})
		})
		decided := w.env.Now().Add(time.Hour + 2*time.Minute)
		if result := w.run(t); result.ReleasedPods != 60 || len(result.Decisions) != 2 {
			t.Errorf("result = %+v, want 60 let go and two decisions", result)
		}
		if last := w.asked[len(w.asked)-1]; len(last.Release) > 0 || last.ReleaseUntil == nil || !last.ReleaseUntil.Equal(decided) {
			t.Errorf("asked for %+v, want a release of what had failed at %s", last, decided)
		}
	})
	t.Run("a release is of what had failed when it was decided, not of what fails on that target later", func(t *testing.T) {
		w := newWorld(t)
		later := failedPod
		later.Pod, later.UID, later.Kind = "chaos-2", "uid-2", v1beta1.KindDiskPressure
		w.cleaning = time.Minute
		w.cleans = []clean.Result{stuck, stuck, {Remaining: 2, Left: []chaospod.LeftPod{failedPod, later}}, {}}
		w.after(time.Hour+90*time.Second, func() {
			resume(w, contract.Resume{Action: "release", By: "ann", Reason: "node is scrap"})
		})
		result := w.run(t)
		for _, in := range w.asked {
			if slices.Contains(in.Release, "uid-2") || in.ReleaseUntil != nil {
				t.Errorf("asked for %+v, want only uid-1 let go", in)
			}
		}
		if result.ReleasedPods != 1 {
			t.Errorf("result = %+v, want one let go", result)
		}
	})
	t.Run("one that never gets clean is told, though others fail and get clean beside it", func(t *testing.T) {
		w := newWorld(t)
		var all []clean.Result
		for i := range 5 {
			other := failedPod
			other.Pod, other.UID, other.Target = fmt.Sprint("chaos-x", i), types.UID(fmt.Sprint("uid-x", i)), "web-2"
			all = append(all, clean.Result{Remaining: 2, Left: []chaospod.LeftPod{failedPod, other}})
		}
		w.cleans = append(all, clean.Result{})
		w.run(t)
		reported := slices.ContainsFunc(w.reports, func(r status.Report) bool {
			return r.Phase == v1beta1.PhaseStuck && slices.ContainsFunc(r.Left, func(l chaospod.LeftPod) bool { return l.Pod == failedPod.Pod && l.Tries == cleanerTries })
		})
		if !reported {
			t.Errorf("reports = %+v, want it told after %d tries", w.reports, cleanerTries)
		}
		for i, in := range w.asked {
			if tired := slices.Contains(in.Exhausted, "uid-1"); tired != (i >= cleanerTries) || len(in.Exhausted) > 1 {
				t.Errorf("round %d leaves out %v; want uid-1 from round %d on, and nothing else", i, in.Exhausted, cleanerTries)
			}
		}
	})
	t.Run("the signal does what the update does", func(t *testing.T) {
		w := newWorld(t)
		w.cleans = []clean.Result{stuck, stuck, stuck, {}}
		w.after(time.Hour+time.Minute, func() { w.env.SignalWorkflow(contract.SignalResume, contract.Resume{Action: "retry"}) })
		started := w.env.Now()
		w.run(t)
		if took := w.env.Now().Sub(started); took > time.Hour+2*time.Minute {
			t.Errorf("went on after %s, want at once", took)
		}
	})
	t.Run("a chaos pod that does not end is waited for in rounds", func(t *testing.T) {
		w := newWorld(t)
		waiting := failedPod
		waiting.Outcome = chaospod.Waiting
		w.cleans = []clean.Result{{Remaining: 1, Left: []chaospod.LeftPod{waiting}}, {}}
		w.run(t)
		for _, r := range w.reports {
			if r.Phase == v1beta1.PhaseStuck {
				t.Error("stuck after one round, want patience") // rule 47
			}
		}
	})
	t.Run("nodes without a proof are searched, and what is left is told", func(t *testing.T) {
		w := newWorld(t)
		w.cleans = []clean.Result{{UnverifiedNodes: []string{"n2", "n1"}}}
		w.found = []string{"node n1: qdisc clsact on eth0"}
		result := w.run(t)
		w.want(t, "prepare", "select", "create", "clean", "verify n1 n2", "finish")
		if !cmp.Equal(result.NotVerified, w.found) || strings.Contains(result.Summary, "nothing is left") {
			t.Errorf("result = %+v, want what was found", result)
		}
	})
	t.Run("a chaos pod turned up late: everything with our UID is cleaned", func(t *testing.T) {
		w := newWorld(t)
		w.left = []int{1, 0}
		w.run(t)
		w.want(t, "prepare", "select", "create", "clean", "finish", "clean", "finish") // rule 6
	})
}

// answer takes the outcome of an update.
type answer struct{ rejected error }

func (a *answer) Accept()                 {}
func (a *answer) Reject(err error)        { a.rejected = err }
func (a *answer) Complete(_ any, _ error) {}

func TestActivityThatCannotSucceedIsCleaned(t *testing.T) {
	w := newWorld(t)
	w.createError = temporal.NewNonRetryableApplicationError("the record is broken", "Internal", nil)
	result := w.run(t)
	if !strings.Contains(result.Ending, "the record is broken") {
		t.Errorf("ending = %q, want the cause", result.Ending) // rule 58, at the workflow's level
	}
	w.want(t, "prepare", "select", "create", "create", "clean", "finish") // by a local activity first
	w.wantCleaned(t, 0)
}
