package workflows

import (
	"context"
	"errors"
	"flag"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/clean"
	"github.com/squall-chaos/squall/activities/crons"
	"github.com/squall-chaos/squall/activities/inject"
	"github.com/squall-chaos/squall/activities/notify"
	"github.com/squall-chaos/squall/activities/operate"
	"github.com/squall-chaos/squall/activities/prepare"
	"github.com/squall-chaos/squall/activities/replace"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/schedule"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/histories"
	"github.com/squall-chaos/squall/test/temporalserver"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/notification"
	"github.com/squall-chaos/squall/workflows/start"
)

var record = flag.Bool("record", false, "write the histories of these tests into testdata, for the replay tests")

const (
	fireStop   = "emergency stop fire: payment is down"
	earlierRun = "an earlier workflow began it"
)

// hanging is a chaos pod that does not end: stuck after the first wait.
var hanging = clean.Result{Remaining: 1, Left: []chaospod.LeftPod{{
	Pod: "chaos-1", Node: "n1", Target: "web-1", Kind: v1beta1.KindCPUPressure, Outcome: chaospod.Waiting, Why: "the chaos pod is still running",
}}}

// walks are paths of a disruption that real clusters seldom take: each ends, and its
// history is one of test/histories.
var walks = map[string]func(s *stage){
	"several-shards": func(s *stage) {
		s.selections = []targets.Selection{{Desired: 450, Selected: 450, Added: []int{0, 1, 2}}, {Selected: 450}}
		s.beginAndEnd()
	},
	"local-activities-failed": func(s *stage) {
		s.fails = failures("Prepare", 1, "SelectTargets", 1, "CreateChaosPods", 1, "Finish", 1)
		s.beginAndEnd()
	},
	"activities-retried": func(s *stage) {
		s.selections = []targets.Selection{{Desired: 30, Selected: 30, Added: []int{0}}, {Selected: 30}}
		s.fails = failures("CreateChaosPods", 2, "CleanChaosPods", 1)
		s.beginAndHold()
		s.eventually("the third attempt creates", func() bool { return s.fails["CreateChaosPods"].Load() < 0 })
		s.end()
	},
	"activity-failed": func(s *stage) {
		s.selections = []targets.Selection{{Desired: 450, Selected: 450, Added: []int{0, 1, 2}}, {Selected: 450}}
		s.broken = "CreateChaosPods"
		s.begin()
		s.result()
	},
	"cancelled": func(s *stage) {
		s.beginAndHold()
		s.must(s.temporal.CancelWorkflow(s.Context(), s.id, ""))
		s.result()
	},
	"cancelled-while-creating": func(s *stage) {
		s.selections = []targets.Selection{{Desired: 450, Selected: 450, Added: []int{0, 1, 2}}, {Selected: 450}}
		s.creating = make(chan struct{}) // until a worker learns of the cancellation
		s.begin()
		s.enters(v1beta1.PhaseInjecting)
		s.must(s.temporal.CancelWorkflow(s.Context(), s.id, ""))
		s.result()
	},
	"emergency-stop": func(s *stage) {
		s.beginAndHold()
		s.signal(contract.SignalEnd, contract.End{Reason: fireStop})
		s.result()
	},
	"emergency-stop-before-creation": func(s *stage) {
		s.created = inject.CreateResult{Stopped: fireStop}
		s.begin()
		s.result()
	},
	"clean-only": func(s *stage) {
		s.plan = prepare.Plan{CleanOnly: earlierRun}
		s.begin()
		s.result()
	},
	"rejected": func(s *stage) {
		s.plan.Rejected = "count: must be positive"
		s.begin()
		s.result()
	},
	"delayed": func(s *stage) {
		s.delay = 2 * time.Second
		s.beginAndEnd()
	},
	"deleted-before-its-time": func(s *stage) {
		s.plan.CreateAt = time.Now().Add(time.Hour)
		s.begin()
		s.eventually("the spec is read", func() bool { return s.state().Plan != nil })
		s.signal(contract.SignalEnd, nil)
		s.result()
	},
	"target-replaced": func(s *stage) {
		s.plan.Static = false
		s.selections = []targets.Selection{{Selected: 2, Added: []int{0}}, {Selected: 2, Added: []int{1}}, {Selected: 2}}
		s.endedCleans = []clean.Result{{Lost: 1}, {}}
		s.beginAndHold()
		s.signal(contract.SignalObserved, contract.Observation{Hash: "1", TargetsLost: 1})
		s.eventually("another target is taken", func() bool {
			state := s.state()
			return state.Shards == 2 && state.Injected && state.Unannounced == nil
		})
		s.end()
	},
	"static": func(s *stage) {
		s.beginAndHold()
		s.signal(contract.SignalObserved, contract.Observation{Hash: "1", Ended: 1})
		s.eventually("what ended is cleaned", func() bool { return s.count(&s.cleaning) == 1 })
		s.end()
	},
	"ended-while-a-shard-waits": func(s *stage) {
		s.plan.Static, s.oneWaits = true, true
		s.selections = []targets.Selection{{Desired: 250, Selected: 250, Added: []int{0, 1}}}
		s.beginAndHold()
		let := s.hold()
		s.signal(contract.SignalObserved, contract.Observation{Hash: "1", Ended: 1})
		s.eventually("both shards are cleaned", func() bool { return s.count(&s.cleaning) == 2 })
		s.signal(contract.SignalObserved, contract.Observation{Hash: "2", Ended: 2})
		s.eventually("one is cleaned again while the other one waits", func() bool { return s.count(&s.cleaning) == 3 })
		let()
		s.end()
	},
	"another-shard-named": func(s *stage) {
		s.plan.Static, s.oneWaits = true, true
		s.selections = []targets.Selection{{Desired: 250, Selected: 250, Added: []int{0, 1}}}
		s.beginAndHold()
		let := s.hold()
		s.signal(contract.SignalObserved, contract.Observation{Hash: "1", Ended: 1, Shards: []int{0}})
		s.eventually("shard 0 is being cleaned", func() bool { return s.count(&s.cleaning) == 1 })
		s.signal(contract.SignalObserved, contract.Observation{Hash: "2", Ended: 2, Shards: []int{0}})
		s.signal(contract.SignalObserved, contract.Observation{Hash: "3", Ended: 3, Shards: []int{1}})
		s.eventually("shard 1 is cleaned while shard 0 waits", func() bool { return s.count(&s.cleaning) == 2 })
		let()
		s.end()
	},
	"looked-after-six-hours": func(s *stage) {
		s.hoursPass.Store(true)
		s.beginAndHold()
		s.eventually("it has looked", func() bool { return s.count(&s.cleaning) == 1 })
		s.end()
	},
	"creation-timed-out": func(s *stage) {
		s.selections = []targets.Selection{{Desired: 30, Selected: 30, Added: []int{0}}, {Selected: 30}}
		s.silent.Store(true)
		s.creating = make(chan struct{})
		s.Cleanup(func() { close(s.creating) })
		s.begin()
		s.eventually("chaos pods are being created", func() bool { return s.creations.Load() > 0 })
		s.signal(contract.SignalEnd, nil) // when it ends no other attempt is made
		s.result()
	},
	"no-target-at-first": func(s *stage) {
		s.selections = []targets.Selection{{}, {Selected: 2, Added: []int{0}}, {Selected: 2}}
		s.begin()
		s.enters(v1beta1.PhaseSelecting)
		s.signal(contract.SignalObserved, contract.Observation{Hash: "1", Candidates: 2})
		s.eventually("it holds", func() bool { return s.state().Injected })
		s.end()
	},
	"max-runs": func(s *stage) {
		s.plan.Static, s.plan.MaxRuns = false, 1
		s.beginAndHold()
		s.signal(contract.SignalObserved, contract.Observation{Hash: "1", Candidates: 9})
		s.eventually("it has looked", func() bool { return s.state().Observed == nil })
		s.end()
	},
	"spec-edited": func(s *stage) {
		s.beginAndHold()
		s.signal(contract.SignalObserved, contract.Observation{Hash: "1", SpecChanged: true})
		s.eventually("it has warned", func() bool { return s.warned.Load() == 1 })
		s.end()
	},
	"failed-while-held-and-healed": func(s *stage) {
		s.endedCleans = []clean.Result{stuckPods, {}}
		s.beginAndHold()
		s.signal(contract.SignalObserved, contract.Observation{Hash: "1", Ended: 1})
		s.eventually("a cleaner healed it", func() bool { return s.count(&s.cleaning) == 2 && len(s.state().Left) == 0 })
		s.end()
	},
	"pods-replaced": func(s *stage) {
		s.replaces()
		s.fails = failures("ReplacePods", 1)
		s.beginAndHold()
		s.signal(contract.SignalObserved, contract.Observation{Hash: "1", Candidates: 4})
		s.eventually("it has looked for more targets", func() bool { return s.state().Observed == nil })
		s.end()
	},
	"cancelled-while-replacing": func(s *stage) {
		s.replaces()
		s.creating = make(chan struct{}) // until a worker learns of the cancellation
		s.begin()
		s.enters(v1beta1.PhaseInjecting)
		s.must(s.temporal.CancelWorkflow(s.Context(), s.id, ""))
		s.result()
	},
	"replacement-stopped": func(s *stage) {
		s.replaces()
		s.replaced = replace.Result{Total: 2, Stopped: fireStop}
		s.begin()
		s.result()
	},
	"replacement-failed": func(s *stage) {
		s.replaces()
		s.broken = "ReplacePods"
		s.begin()
		s.result()
	},
	"resumed-by-signal": func(s *stage) {
		s.cleans = []clean.Result{hanging, hanging, hanging, {}}
		s.beginAndHold()
		s.signal(contract.SignalEnd, nil)
		s.enters(v1beta1.PhaseStuck)
		s.signal(contract.SignalResume, contract.Resume{Action: "skip"}) // refused
		s.signal(contract.SignalResume, contract.Resume{Action: contract.ActionRetry})
		s.result()
	},
	"released": func(s *stage) {
		s.cleans = []clean.Result{hanging, hanging, hanging, {UnverifiedNodes: []string{"n1"}}}
		s.beginAndHold()
		s.signal(contract.SignalEnd, nil)
		s.enters(v1beta1.PhaseStuck)
		if _, err := s.resume(contract.Resume{Action: contract.ActionRelease, By: "ann", Reason: "scrap"}); err != nil {
			s.Fatal(err)
		}
		s.result()
	},
	"not-verified": func(s *stage) {
		s.cleans = []clean.Result{{UnverifiedNodes: []string{"n1", "n2"}}}
		s.leftOnNodes = []string{"node n2: it is not ready"}
		s.beginAndEnd()
	},
	"effects-awaited": func(s *stage) {
		s.unproven = 1
		s.beginAndHold()
		s.eventually("all effects are proven", func() bool { return !s.state().Unproven })
		s.end()
	},
	"services-followed": func(s *stage) {
		s.plan.Services = true
		s.beginAndHold()
		s.signal(contract.SignalObserved, contract.Observation{Hash: "1", Services: "other endpoints"})
		s.eventually("chaos pods are told", func() bool { return s.followed.Load() == 1 && s.state().Services == "other endpoints" })
		s.end()
	},
	"targets-given": func(s *stage) {
		s.operates()
		s.fails = failures("EndOperations", 1)
		s.endings = []operate.EndResult{{}, {}, {Left: 1, Pods: []string{"web-1: the driver is at it"}}, {}}
		s.begin()
		s.eventually("the targets are asked for", func() bool { return len(s.state().Operations.Asked) == 1 })
		s.signal(contract.SignalObserved, contract.Observation{Hash: "1", Operations: 2})
		s.eventually("it holds", func() bool { state := s.state(); return state.Injected && len(state.Operations.Asked) == 0 })
		s.signal(contract.SignalObserved, contract.Observation{Hash: "2", TargetsLost: 1})
		s.eventually("what ended is given back", func() bool { return s.fails["EndOperations"].Load() < 0 && s.state().Observed == nil })
		s.signal(contract.SignalEnd, nil)
		s.eventually("it waits for the driver", func() bool { return len(s.state().Operations.NotInService) == 1 })
		s.signal(contract.SignalObserved, contract.Observation{Hash: "3"})
		s.result()
	},
	"targets-not-given": func(s *stage) {
		s.operates()
		s.plan.Operations.OperatingTimeout = time.Second
		s.operations = []operate.Result{{Waiting: []int{0}}, {Lost: 2}}
		s.begin()
		s.eventually("they are let go", func() bool {
			state := s.state()
			return state.Shards == 1 && len(state.Operations.Asked) == 0 && state.Targets == 0
		})
		s.end()
	},
	"steady-state-not-reached": func(s *stage) {
		s.guard()
		s.prober.closed = true
		s.begin()
		s.result()
	},
	"steady-state-lost": func(s *stage) {
		s.guard()
		s.beginAndHold()
		close(s.prober.lost)
		s.result()
	},
	"steady-state-recovered": func(s *stage) {
		s.guard()
		s.plan.SteadyState.Probes[0].OnFailure = v1beta1.ProbeRecord
		s.beginAndHold()
		close(s.prober.lost)
		s.eventually("the loss is known", func() bool { return strings.Contains(s.known(), "status 503") })
		s.signal(contract.SignalEnd, contract.End{Reason: "enough"})
		s.result()
	},
	"steady-state-passed": func(s *stage) {
		s.guard()
		s.beginAndHold()
		s.signal(contract.SignalEnd, contract.End{Reason: "enough"})
		s.result()
	},
	"control-group": func(s *stage) {
		s.guard()
		s.selections[0].Control = &targets.ControlCount{Wanted: 2, Chosen: 2}
		s.prober.compared = &contract.Comparison{Pods: 2, Targets: contract.Answers{Successes: 30, Failures: 10}, Control: contract.Answers{Successes: 40}}
		s.beginAndHold()
		s.signal(contract.SignalEnd, contract.End{Reason: "enough"})
		const want = "25% of the targets' answers failed, 0% of the control group's, a difference of +25 points."
		if result := s.result(); result.Verdict != v1beta1.VerdictPassed || !strings.Contains(result.Summary, want) {
			s.Errorf("result = %+v, want it passed, and the last word of who asked: %s", result, want)
		}
	},
	"steady-state-inconclusive": func(s *stage) {
		s.guard()
		s.beginAndEnd()
	},
	"prober-lost": func(s *stage) {
		s.guard()
		s.prober.dies = true
		s.beginAndHold()
		s.eventually("another session is heard", func() bool { return s.state().Steady.LastSession == 3 })
		s.signal(contract.SignalEnd, contract.End{Reason: "enough"})
		s.result()
	},
	// The recipient never answers. One notification cannot be started, as another workflow
	// has its ID: the disruption does not wait for it, and ends as usual.
	"notified": func(s *stage) {
		s.notifies(func(ctx context.Context, _ notify.Delivery) error { <-ctx.Done(); return ctx.Err() })
		s.takesID(contract.NotificationID(ref, notification.ReasonBegan, 1))
		s.cleans = []clean.Result{hanging, hanging, hanging, {}}
		s.beginAndHold()
		s.signal(contract.SignalEnd, contract.End{Reason: "enough"})
		s.enters(v1beta1.PhaseStuck)
		s.signal(contract.SignalResume, contract.Resume{Action: contract.ActionRetry})
		s.result()
		s.wantNotifications("ending-1", "finished-1", "injected-1", "resumed-1", "stuck-1")
	},
	"rejected-and-notified": func(s *stage) {
		s.notifies(nil)
		s.plan.Rejected = "count: must be positive"
		s.begin()
		s.result()
		s.eventually("it is told", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return slices.Contains(s.notified, contract.NotificationID(ref, notification.ReasonRejected, 1))
		})
		s.wantNotifications("rejected-1")
	},
	"finish-found-a-chaos-pod": func(s *stage) {
		s.finishes = []int{1, 0}
		s.beginAndEnd()
	},
}

// Each walk ends, and its history has the paths that it is there for. With -record the
// histories are kept.
func TestEveryPathIsWalked(t *testing.T) {
	server := temporalserver.New(t).Start()
	for _, file := range histories.Files {
		walk := walks[file.Name]
		if walk == nil {
			continue
		}
		t.Run(file.Name, func(t *testing.T) {
			s := newStage(t, server)
			walk(s)
			s.keep(file.Name, "")
		})
	}
	t.Run("sweeps", func(t *testing.T) { sweeps(newStage(t, server)) })
	t.Run("notifications", func(t *testing.T) { notifications(newStage(t, server)) })
	t.Run("crons", func(t *testing.T) { runsOfCrons(newStage(t, server)) })
	t.Run("scenarios", func(t *testing.T) { runsOfScenarios(newStage(t, server)) })
}

// runsOfCrons starts runs by a schedule, as in production.
func runsOfCrons(s *stage) {
	s.cron("cron-began", crons.Begun{Reason: crons.Began, Message: "its disruption was created", UID: "u1"})
	s.cron("cron-held", crons.Begun{Reason: crons.EmergencyStop, Message: fireStop})
	s.release("rollout-began", crons.Begun{Reason: crons.Began, Message: "its disruption was created", UID: "u1"})
}

// release runs a rollout's run to its end, and keeps its history.
func (s *stage) release(name string, begun crons.Begun) {
	s.Helper()
	s.begun = begun
	ref := contract.CronRef{Namespace: "shop", Name: name, UID: "r1", Kind: v1beta1.KindDisruptionRollout}
	release := contract.Release{Number: 3, SeenAt: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC), Containers: "c0ffee"}
	s.must(start.Rollout(s.Context(), s.temporal, ref, release))
	s.must(start.Rollout(s.Context(), s.temporal, ref, release))
	s.id = contract.RolloutWorkflowID(ref, release)
	s.must(s.temporal.GetWorkflow(s.Context(), s.id, "").Get(s.Context(), nil))
	s.must(start.Rollout(s.Context(), s.temporal, ref, release)) // it is not begun again
	s.keep(name, "")
}

// cron runs a DisruptionCron's run to its end, and keeps its history.
func (s *stage) cron(name string, begun crons.Begun) {
	s.Helper()
	s.begun = begun
	ref := contract.CronRef{Namespace: "shop", Name: name, UID: "c1"}
	var c v1beta1.DisruptionCronSpec
	c.Schedule = "@daily"
	times, err := schedule.Parse(c)
	s.must(err)
	_, _, err = start.KeepSchedule(s.Context(), s.temporal.ScheduleClient(), ref, c, times)
	s.must(err)
	handle := s.temporal.ScheduleClient().GetHandle(s.Context(), contract.CronScheduleID(ref))
	s.must(handle.Trigger(s.Context(), client.ScheduleTriggerOptions{}))
	s.eventually("the schedule starts a run", func() bool {
		found, err := handle.Describe(s.Context())
		s.must(err)
		if len(found.Info.RecentActions) == 0 {
			return false
		}
		s.id = found.Info.RecentActions[0].StartWorkflowResult.WorkflowID
		return true
	})
	if !contract.RunsCron(ref, s.id) {
		s.Errorf("its workflow is %s, which the worker would refuse", s.id)
	}
	s.must(s.temporal.GetWorkflow(s.Context(), s.id, "").Get(s.Context(), nil))
	s.keep(name, "")
}

func sweeps(s *stage) {
	s.pages = 3
	s.sweep(nil)
	s.keep("sweep-left-overs", "")
	s.broken = "SweepRecords"
	s.sweep(errors.New("the record is broken"))
	s.keep("sweep-failed", "")
}

// sweep runs a sweep to its end.
func (s *stage) sweep(want error) {
	s.Helper()
	s.id += "/sweep"
	run, err := s.temporal.ExecuteWorkflow(s.Context(), client.StartWorkflowOptions{
		ID: s.id, TaskQueue: contract.TaskQueue, StaticSummary: "sweep of the cluster",
	}, contract.SweepWorkflowType)
	s.must(err)
	if err := run.Get(s.Context(), nil); (err == nil) != (want == nil) {
		s.Fatalf("the sweep ended with %v, want %v", err, want)
	}
}

// keep expects the paths of its file in the history of a run, the last run if it has no
// name, and writes it with -record.
func (s *stage) keep(name, run string) {
	s.Helper()
	all := &history.History{Events: s.history(run)}
	file, found := histories.Find(name)
	if !found {
		s.Fatalf("test/histories does not list %s", name)
	}
	if missing := file.Missing(all); len(missing) > 0 {
		s.Errorf("%s lacks %q; it has %v", name, missing, histories.Paths(all))
	}
	wantSummaries(s.T, shorten(all.Events))
	if *record && !s.Failed() {
		s.must(histories.Keep(filepath.Join("testdata", "histories", histories.Generation), histories.Stage, name, all))
	}
}

// shorten removes from a history what fill added to make it long, and restores the times
// that a stage did not wait for. The workflow refuses these signals whatever they
// contain.
func shorten(events []*history.HistoryEvent) []*history.HistoryEvent {
	short, _ := converter.GetDefaultDataConverter().ToPayloads(contract.Resume{Action: "nonsense", Reason: "a megabyte, until it was recorded"})
	for _, event := range events {
		unhurried(event)
		signaled := event.GetWorkflowExecutionSignaledEventAttributes()
		if event.EventType == enums.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED && len(signaled.GetInput().GetPayloads()) == 1 &&
			strings.Contains(string(signaled.Input.Payloads[0].Data), `"nonsense"`) {
			signaled.Input = short
		}
	}
	return events
}

// replaces makes the disruption one of pods that the worker replaces.
func (s *stage) replaces() {
	s.plan.Kinds, s.plan.Static = []v1beta1.Kind{v1beta1.KindPodReplacement}, false
	s.replaced = replace.Result{Replaced: 2, Total: 2}
}

// operates makes the disruption an operation on its targets, which are given late.
func (s *stage) operates() {
	s.plan.Operations = &prepare.Operations{OperatingTimeout: time.Hour, AvailableTimeout: time.Hour}
	s.operations = []operate.Result{{Waiting: []int{0}}, {Given: []int{0}}, {}}
}

// beginAndHold starts a disruption and waits until all is injected.
func (s *stage) beginAndHold() {
	s.Helper()
	s.begin()
	s.eventually("it holds", func() bool { return s.state().Injected })
}

// end deletes the disruption and waits for its end.
func (s *stage) end() {
	s.Helper()
	s.signal(contract.SignalEnd, nil)
	s.result()
}

func (s *stage) beginAndEnd() {
	s.Helper()
	s.beginAndHold()
	s.end()
}

// failures is how often an activity fails, by its name.
func failures(pairs ...any) map[string]*atomic.Int64 {
	fails := map[string]*atomic.Int64{}
	for i := 0; i < len(pairs); i += 2 {
		count := new(atomic.Int64)
		count.Store(int64(pairs[i+1].(int)))
		fails[pairs[i].(string)] = count
	}
	return fails
}

// may fails an activity as often as failures demands.
func (s *stage) may(ctx context.Context, name string) error {
	if s.broken == name {
		return temporal.NewNonRetryableApplicationError("the record is broken", "Internal", nil)
	}
	if left := s.fails[name]; left != nil && left.Add(-1) >= 0 {
		return errors.New("the API server did not answer")
	}
	return ctx.Err()
}
