package workflows

import (
	"context"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/update/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/choose"
	"github.com/squall-chaos/squall/activities/clean"
	"github.com/squall-chaos/squall/activities/crons"
	"github.com/squall-chaos/squall/activities/inject"
	"github.com/squall-chaos/squall/activities/operate"
	"github.com/squall-chaos/squall/activities/orphans"
	"github.com/squall-chaos/squall/activities/prepare"
	"github.com/squall-chaos/squall/activities/replace"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/activities/verify"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/poll"
	"github.com/squall-chaos/squall/test/temporalserver"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/disruption"
)

var ref = v1beta1.DisruptionRef{Namespace: "shop", Name: "calm", UID: "u1"}

// failedPod failed to clean.
var failedPod = chaospod.LeftPod{Pod: "chaos-1", UID: "uid-1", Node: "n1", Target: "web-1", Kind: v1beta1.KindCPUPressure, Outcome: chaospod.Failed, Why: "qdisc busy"}

var stuckPods = clean.Result{Remaining: 1, Left: []chaospod.LeftPod{failedPod}}

func TestMain(m *testing.M) { os.Exit(temporalserver.Tests{M: m}.Run()) }

// patience is how long a stage waits for anything: only what never happens takes as long.
const patience = 2 * time.Minute

// stage is a real Temporal, on which the workflow is played with activities that answer
// as a test wants. test/survival tests it with the real ones.
type stage struct {
	*testing.T
	temporal client.Client
	id       string
	away     func()

	mu   sync.Mutex
	plan prepare.Plan
	// selections answer SelectTargets, the last for good; created answers
	// CreateChaosPods, replaced ReplacePods.
	selections []targets.Selection
	// choose answers SelectTargets instead, if it is set.
	choose   func(choose.Input) targets.Selection
	created  inject.CreateResult
	replaced replace.Result
	// endedCleans and cleans answer CleanChaosPods, while the disruption lasts and at its
	// end; the last answer counts for good.
	endedCleans, cleans []clean.Result
	// oneWaits makes the gate hold back shard 0 alone.
	oneWaits bool
	// gate holds back every answer of CleanChaosPods until it is closed, reported those of
	// ReportPhase.
	gate, reported chan struct{}
	// found, creating and injected hold back targets, the creation of chaos pods or
	// replacement of pods, and their injection until they are closed.
	found, creating, injected chan struct{}
	// leftOnNodes is what a search of nodes finds, finishes what Finish does.
	leftOnNodes []string
	finishes    []int
	// scenario answers the activities of a scenario.
	scenario playedScenario
	// begun answers BeginRun.
	begun crons.Begun
	// pages are how many pages of nodes a sweep finds.
	pages int
	// fails is how often an activity still fails, broken which one always does.
	fails  map[string]*atomic.Int64
	broken string
	// unproven injections are what AwaitInjection reports, prober what AskProbes finds.
	unproven int
	prober   playedProber
	// followed counts the calls of FollowServices.
	followed atomic.Int64
	// delay is how long after the spec was read chaos pods are created.
	delay time.Duration
	// hoursPass ends the next six hours at once. silent stops the heartbeats of a worker
	// that creates chaos pods, once it is cancelled.
	hoursPass, silent atomic.Bool
	// startHeld makes a delayed injection begin at signalStart, whatever its time.
	startHeld atomic.Bool
	// creations counts the attempts to create chaos pods.
	warned, creations atomic.Int64
	// operations and endings answer each OperateTargets and EndOperations.
	operations []operate.Result
	endings    []operate.EndResult
	// notified are the IDs of notifications that a recipient received, also those that an
	// earlier stage left.
	notified []string
	// cleaning counts the calls of CleanChaosPods, reporting those of ReportPhase.
	cleaning, reporting int
}

// next is the next of several answers, the last one for good.
func next[T any](answers *[]T) (answer T) {
	if len(*answers) > 0 {
		answer = (*answers)[0]
	}
	if len(*answers) > 1 {
		*answers = (*answers)[1:]
	}
	return answer
}

func newStage(t *testing.T, server *temporalserver.Server) *stage {
	t.Helper()
	return newStageOf(t, server, 0)
}

// newStageOf is a stage with so many probers at once; 0 for no limit.
func newStageOf(t *testing.T, server *temporalserver.Server, probers int) *stage {
	t.Helper()
	open := make(chan struct{})
	close(open)
	s := &stage{
		T: t, temporal: server.Dial(client.DefaultNamespace), gate: open, reported: open, found: open, creating: open, injected: open, id: contract.WorkflowID(ref) + "/" + t.Name(),
		plan:       prepare.Plan{Kinds: []v1beta1.Kind{v1beta1.KindCPUPressure}, CreateAt: time.Now(), ExpireAt: time.Now().Add(time.Hour), Static: true},
		selections: []targets.Selection{{Desired: 2, Selected: 2, Added: []int{0}}, {Desired: 2, Selected: 2}},
	}
	for _, queue := range []string{contract.TaskQueue, contract.WatcherTaskQueue} {
		w := worker.New(s.temporal, queue, worker.Options{DisableWorkflowWorker: true, MaxHeartbeatThrottleInterval: beat})
		s.register(w)
		s.must(w.Start())
		t.Cleanup(w.Stop)
	}
	probes := worker.New(s.temporal, contract.ProbeTaskQueue, worker.Options{
		DisableWorkflowWorker: true, MaxHeartbeatThrottleInterval: beat, MaxConcurrentActivityExecutionSize: probers,
	})
	probes.RegisterActivityWithOptions(s.askProbes, activity.RegisterOptions{Name: "AskProbes"})
	s.must(probes.Start())
	t.Cleanup(probes.Stop)
	s.decide()
	return s
}

func (s *stage) register(w worker.Worker) {
	for name, do := range s.activities() {
		w.RegisterActivityWithOptions(do, activity.RegisterOptions{Name: name})
	}
}

// decide starts a worker for the workflow and for the activities that it
// carries out within its own tasks; away ends it.
func (s *stage) decide() {
	s.Helper()
	decider := worker.New(s.temporal, contract.TaskQueue, worker.Options{
		LocalActivityWorkerOnly: true, Interceptors: []interceptor.WorkerInterceptor{&hurried{s: s}},
		WorkerStopTimeout: patience, // else an open poll takes one more task
	})
	s.register(decider)
	Register(decider)
	s.must(decider.Start())
	s.away = sync.OnceFunc(decider.Stop)
	s.Cleanup(s.away)
}

func (s *stage) activities() map[string]any {
	return map[string]any{
		"Prepare": func(ctx context.Context, _ v1beta1.DisruptionRef) (prepare.Plan, error) {
			plan := s.plan
			if s.delay > 0 {
				plan.CreateAt = time.Now().Add(s.delay)
			}
			return plan, s.may(ctx, "Prepare")
		},
		"SelectTargets": func(ctx context.Context, in choose.Input) (targets.Selection, error) {
			<-s.found
			if err := s.may(ctx, "SelectTargets"); err != nil {
				return targets.Selection{}, err
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.choose != nil {
				return s.choose(in), nil
			}
			return next(&s.selections), nil
		},
		"CreateChaosPods": func(ctx context.Context, _ inject.CreateInput) (inject.CreateResult, error) {
			if err := s.may(ctx, "CreateChaosPods"); err != nil {
				return inject.CreateResult{}, err
			}
			s.creations.Add(1)
			err := wait(ctx, s.creating)
			if s.silent.Load() {
				<-s.creating
			}
			return s.created, err
		},
		"ReplacePods": func(ctx context.Context, _ v1beta1.DisruptionRef) (replace.Result, error) {
			if err := s.may(ctx, "ReplacePods"); err != nil {
				return replace.Result{}, err
			}
			return s.replaced, wait(ctx, s.creating)
		},
		"AwaitInjection": func(context.Context, inject.AwaitInput) (inject.InjectionProgress, error) {
			<-s.injected
			return inject.InjectionProgress{Injected: 2, Total: 2, Unproven: s.unproven}, nil
		},
		"AwaitEffects":      func(context.Context, v1beta1.DisruptionRef) error { return nil },
		"FollowServices":    func(context.Context, v1beta1.DisruptionRef) error { s.followed.Add(1); return nil },
		"ReportSteadyState": func(context.Context, status.SteadyStateReport) error { return nil },
		"CleanChaosPods":    s.clean,
		"OperateTargets": func(ctx context.Context, _ operate.Input) (operate.Result, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return next(&s.operations), s.may(ctx, "OperateTargets")
		},
		"EndOperations": func(ctx context.Context, _ operate.EndInput) (operate.EndResult, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return next(&s.endings), s.may(ctx, "EndOperations")
		},
		"ReportPhase":     s.report,
		"WarnSpecChanged": func(context.Context, v1beta1.DisruptionRef) error { s.warned.Add(1); return nil },
		"VerifyNodes": func(context.Context, verify.Input) (verify.Result, error) {
			return verify.Result{Left: s.leftOnNodes}, nil
		},
		"WasInjected": func(context.Context, v1beta1.DisruptionRef) (bool, error) { return false, nil },
		"Finish": func(ctx context.Context, _ status.FinishInput) (int, error) {
			if err := s.may(ctx, "Finish"); err != nil {
				return 0, err
			}
			return next(&s.finishes), nil
		},
		"SweepRecords": func(ctx context.Context, _ orphans.Patience) (orphans.SweptRecords, error) {
			return orphans.SweptRecords{Records: orphans.Tally{Found: 2, Cleaned: 1, Left: 1}, Left: []orphans.Orphan{{What: "record squall-u1"}}}, s.may(ctx, "SweepRecords")
		},
		"SweepNodes": s.sweepNodes,

		"ReadScenario": s.readScenario, "ReportScenario": s.reportScenario, "BeginStep": s.beginStep, "SeeRuns": s.seeRuns, "EndRuns": s.endRuns,

		"BeginRun": func(context.Context, crons.BeginInput) (crons.Begun, error) { return s.begun, nil },
		"AwaitRun": func(ctx context.Context, _ crons.AwaitInput) (crons.Ended, error) {
			if activity.GetInfo(ctx).Attempt < 3 {
				return crons.Ended{}, temporal.NewApplicationErrorWithOptions("it is not over", crons.GoesOn, temporal.ApplicationErrorOptions{NextRetryDelay: time.Second})
			}
			return crons.Ended{Ending: "expired", Verdict: v1beta1.VerdictPassed}, nil
		},
	}
}

// sweepNodes answers one page of nodes.
func (s *stage) sweepNodes(_ context.Context, page orphans.NodePage) (orphans.SweptNodes, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages--
	swept := orphans.SweptNodes{Nodes: int(page.Size), Audited: int(page.Size) - 1, Marks: orphans.Tally{Found: 2, Cleaned: 1, Left: 1},
		Cleaned: []orphans.Orphan{{Node: "n1", What: "qdisc"}}, Left: []orphans.Orphan{{Node: "n2", What: "io.max", Why: "it is busy"}},
		Skipped: []orphans.Orphan{{Node: "n3", What: "all of the node", Why: "the node is not ready"}}}
	if s.pages > 0 {
		swept.Next = "more"
	}
	return swept, nil
}

// wait heartbeats until the gate is open or the activity is cancelled.
func wait(ctx context.Context, gate chan struct{}) error {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		select {
		case <-gate:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			activity.RecordHeartbeat(ctx)
		}
	}
}

func (s *stage) clean(ctx context.Context, in clean.Input) (clean.Result, error) {
	if err := s.may(ctx, "CleanChaosPods"); err != nil {
		return clean.Result{}, err
	}
	s.mu.Lock()
	s.cleaning++
	gate := s.gate
	answers := &s.cleans
	if in.OnlyEnded {
		answers = &s.endedCleans
	}
	answer := next(answers)
	s.mu.Unlock()
	if s.oneWaits && in.Shard.Number != 0 {
		return answer, nil
	}
	return answer, wait(ctx, gate)
}

func (s *stage) report(context.Context, status.Report) error {
	s.mu.Lock()
	s.reporting++
	reported := s.reported
	s.mu.Unlock()
	<-reported
	return nil
}

// begin starts the workflow as the bridge does.
func (s *stage) begin() {
	s.Helper()
	s.beginAs(s.id)
}

func (s *stage) beginAs(id string) {
	s.Helper()
	_, err := s.temporal.ExecuteWorkflow(s.Context(), client.StartWorkflowOptions{
		ID: id, TaskQueue: contract.TaskQueue, StaticSummary: "cpu-pressure on 2", StaticDetails: "what, where, how long",
	}, contract.WorkflowType, contract.Input{Disruption: ref})
	s.must(err)
	s.Cleanup(func() { _ = s.temporal.TerminateWorkflow(context.Background(), id, "", "the test is over") })
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *stage) signal(name string, arg any) {
	s.Helper()
	s.must(s.temporal.SignalWorkflow(s.Context(), s.id, "", name, arg))
}

func (s *stage) resume(r contract.Resume) (answer string, err error) {
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	handle, err := s.temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		UpdateID: updateID, WorkflowID: s.id, UpdateName: contract.UpdateResume, WaitForStage: client.WorkflowUpdateStageCompleted, Args: []any{r},
	})
	if err != nil {
		return "", err
	}
	return answer, handle.Get(ctx, &answer)
}

// state is the answer to the query of status.
func (s *stage) state() (state disruption.State) {
	answer, err := s.temporal.QueryWorkflow(s.Context(), s.id, "", contract.QueryStatus)
	if err == nil {
		err = answer.Get(&state)
	}
	if err != nil {
		state.Phase = v1beta1.Phase("none: " + err.Error())
	}
	return state
}

func (s *stage) eventually(what string, is func() bool) {
	s.Helper()
	if err := poll.Until(s.Context(), patience, is); err != nil {
		s.Fatalf("%v: %s; the workflow says %+v", err, what, s.state())
	}
}

func (s *stage) enters(phase v1beta1.Phase) {
	s.Helper()
	s.eventually("phase "+string(phase), func() bool { return s.state().Phase == phase })
}

// run is the present run.
func (s *stage) run() string {
	s.Helper()
	return s.described().WorkflowExecution.RunID
}

// atRest is the length of the history once nothing is under way that adds to it: a query
// may show a phase before the activity that reports it has ended.
func (s *stage) atRest() (length int) {
	s.Helper()
	s.eventually("nothing is under way", func() bool {
		now, err := s.temporal.DescribeWorkflowExecution(s.Context(), s.id, "")
		s.must(err)
		length = int(now.WorkflowExecutionInfo.HistoryLength)
		return len(now.PendingActivities) == 0 && now.PendingWorkflowTask == nil
	})
	return length
}

// wantNothingSince expects that the history still has this length.
func (s *stage) wantNothingSince(before int) {
	s.Helper()
	if now := s.history(""); len(now) != before {
		s.Errorf("the history grew from %d to %d events: %v", before, len(now), now[before:])
	}
}

func (s *stage) history(run string) (events []*history.HistoryEvent) {
	s.Helper()
	all := s.temporal.GetWorkflowHistory(s.Context(), s.id, run, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for all.HasNext() {
		event, err := all.Next()
		s.must(err)
		events = append(events, event)
	}
	return events
}

// hold makes CleanChaosPods wait until let is called.
func (s *stage) hold() (let func()) { return s.shut(&s.gate) }

// shut closes a gate until let is called.
func (s *stage) shut(gate *chan struct{}) (let func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	shut := make(chan struct{})
	*gate = shut
	let = sync.OnceFunc(func() { close(shut) })
	s.Cleanup(let)
	return let
}

func (s *stage) count(of *int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *of
}

// fill makes the history so long that Temporal suggests a new run: 4 MiB.
func (s *stage) fill() {
	s.Helper()
	for range 5 {
		s.signal(contract.SignalResume, contract.Resume{Action: "nonsense", Reason: strings.Repeat("x", 1<<20)})
	}
}

// lastTaskOfARun takes a disruption that holds, with a long history, to the moment at
// which its next task ends the run, and stops its worker: whatever arrives now arrives in
// that task. The workflow waits only for the answer of a report, so it continues before
// any signal is handled.
func (s *stage) lastTaskOfARun() (run string) {
	s.Helper()
	other := failedPod
	other.Pod = "chaos-2"
	s.endedCleans = []clean.Result{stuckPods, stuckPods, stuckPods, {Remaining: 2, Left: []chaospod.LeftPod{failedPod, other}}}
	s.begin()
	s.eventually("it holds", func() bool { return s.state().Injected })
	s.signal(contract.SignalObserved, contract.Observation{Hash: "1", Ended: 1})
	s.eventually("what is left is told", func() bool { return s.count(&s.reporting) == 1 && len(s.state().Left) == 1 })
	s.fill()
	let := s.shut(&s.reported)
	s.signal(contract.SignalObserved, contract.Observation{Hash: "2", Ended: 1})
	s.eventually("it tells that more is left", func() bool { return s.count(&s.reporting) == 2 })
	s.away()
	let()
	run = s.run()
	s.eventually("the answer waits for a worker", func() bool { return s.answered(run) })
	return run
}

// lastTaskOfAStuckRun is lastTaskOfARun for a disruption that is stuck: it waits for the
// answer of a CleanChaosPods.
func (s *stage) lastTaskOfAStuckRun() (run string) {
	s.Helper()
	s.cleans = []clean.Result{stuckPods, stuckPods, stuckPods, stuckPods, stuckPods, {}}
	s.begin()
	s.eventually("it holds", func() bool { return s.state().Injected })
	s.signal(contract.SignalEnd, nil)
	s.enters(v1beta1.PhaseStuck)
	s.fill()
	let, before := s.hold(), s.count(&s.cleaning)
	s.signal(contract.SignalObserved, contract.Observation{Hash: "2"})
	s.eventually("it cleans again", func() bool { return s.count(&s.cleaning) > before })
	s.away()
	let()
	run = s.run()
	s.eventually("the answer waits for a worker", func() bool { return s.answered(run) })
	return run
}

// answered is true when the last activity of a run has completed and the workflow has not
// acted on it.
func (s *stage) answered(run string) bool {
	completed := false
	for _, event := range s.history(run) {
		switch event.EventType {
		case enums.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
			completed = true
		case enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
			completed = false
		}
	}
	return completed
}

// carried is the state that the run passed to the next.
func (s *stage) carried(run string) (state disruption.State) {
	s.Helper()
	s.eventually("a new run begins", func() bool { return s.run() != run })
	events := s.history(run)
	last := events[len(events)-1]
	var in disruption.Input
	s.must(converter.GetDefaultDataConverter().FromPayloads(last.GetWorkflowExecutionContinuedAsNewEventAttributes().GetInput(), &in))
	if in.Carried == nil {
		s.Fatalf("the run ended with %s and carried nothing over", last.EventType)
	}
	return *in.Carried
}

func (s *stage) result() (result disruption.Result) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	s.must(s.temporal.GetWorkflow(ctx, s.id, "").Get(ctx, &result))
	return result
}

// updateID names the test's updates, one at a time.
const updateID = "a-person"

// updateWaits is true when the server knows of an update and no worker does.
func (s *stage) updateWaits() bool {
	ctx, cancel := context.WithTimeout(s.Context(), time.Second)
	defer cancel()
	answer, err := s.temporal.WorkflowService().PollWorkflowExecutionUpdate(ctx, &workflowservice.PollWorkflowExecutionUpdateRequest{
		Namespace:  client.DefaultNamespace,
		UpdateRef:  &update.UpdateRef{WorkflowExecution: &common.WorkflowExecution{WorkflowId: s.id}, UpdateId: updateID},
		WaitPolicy: &update.WaitPolicy{LifecycleStage: enums.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_ADMITTED},
	})
	return err == nil && answer.Stage == enums.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_ADMITTED
}
