package disruption

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/activities/choose"
	"github.com/squall-chaos/squall/activities/status"
	probing "github.com/squall-chaos/squall/activities/steadystate"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/flow"
	"github.com/squall-chaos/squall/workflows/notification"
	"github.com/squall-chaos/squall/workflows/prober"
	"github.com/squall-chaos/squall/workflows/steadystate"
)

// This file has the steady state of a disruption: probes that let it begin, end it, and
// judge it. Older plans have no SteadyState, and without one nothing here does anything: it
// needs no version.

// finalResultPatience is longer than it takes to detect a prober that died.
const finalResultPatience = 15 * time.Second

// mostSteadyReports is how often a phase is written into status at most: probes may turn
// for hours. The last result is in the last status.
const mostSteadyReports = 20

// guard asks the probes, and writes what they show into status.
type guard struct {
	*disruption
	// prober runs the probes; nil until the first phase begins.
	prober *prober.Prober
	// writing is true while a goroutine writes the steady state into status, and writes are
	// the reports it still has to write. written counts the writes of this phase.
	writing bool
	writes  []status.SteadyStateReport
	written int
}

// guarded is true for a disruption with probes.
func (s *State) guarded() bool { return s.Plan != nil && s.Plan.SteadyState != nil }

// waits is true while the gate is closed: nothing was injected yet.
func (s *State) waits() bool {
	return s.guarded() && s.Steady != nil && !s.Steady.Disturbed
}

// mayInject waits until the probes of Before succeed and those of During are asked.
// chosen are the targets, some of which may be replaced meanwhile. false forbids the
// injection: the disruption ends, or a new run continues.
func (g *guard) mayInject(ctx workflow.Context, chosen *targets.Selection) bool {
	if !g.guarded() || g.Steady != nil && g.Steady.Disturbed {
		return true
	}
	may := g.passGate(ctx, chosen) && g.start(ctx)
	g.Steady.Disturbed = may
	return may
}

// passGate waits until the probes of phase Before succeed. If they do not succeed in
// time, the disruption ends (rule P8).
func (g *guard) passGate(ctx workflow.Context, chosen *targets.Selection) (open bool) {
	spec := *g.Plan.SteadyState
	g.beginPhase(ctx, v1beta1.ProbeBefore, status.SteadyStateAsked)
	g.publishPhase(ctx, g.idlePhase())
	asking, stop := workflow.WithCancel(ctx)
	defer stop()
	g.runner().Ask(asking)
	closes := g.Steady.Began.Add(spec.GateTimeout())
	for !g.gateOpen() {
		left := closes.Sub(workflow.Now(ctx))
		g.newRunDue = workflow.GetInfo(ctx).GetContinueAsNewSuggested()
		if g.newRunDue || left <= 0 || ctx.Err() != nil {
			break
		}
		_, err := flow.AwaitFor(ctx, left, "the steady state: nothing is injected before the probes succeed",
			func() bool {
				return g.gateOpen() || g.targetsLeft() || workflow.GetInfo(ctx).GetContinueAsNewSuggested()
			})
		if err == nil && g.targetsLeft() {
			g.replaceTargets(ctx, chosen)
		}
	}
	if g.newRunDue && ctx.Err() == nil {
		return false // the next run continues to wait
	}
	open = g.gateOpen() && ctx.Err() == nil
	g.Steady.End(spec, !open && (ctx.Err() == nil || g.Ending == v1beta1.EndingExpired))
	if !open && ctx.Err() == nil {
		why := g.whyClosed()
		g.write(ctx, status.SteadyStateNotReached, why)
		g.end(v1beta1.EndingNotSteady + why)
	}
	return open
}

// whyClosed is what keeps the gate closed.
func (s *State) whyClosed() string {
	if why := s.Steady.WhyClosed(*s.Plan.SteadyState); why != "" {
		return why
	}
	return "the probes succeed, and no target is left"
}

// gateOpen is true while all probes succeed and there is a target to disrupt.
func (s *State) gateOpen() bool {
	return s.Steady.Reached(*s.Plan.SteadyState) && s.Targets > 0
}

// targetsLeft is true when the bridge reports that targets were lost before anything was
// injected, or that there are candidates and no target.
func (s *State) targetsLeft() bool {
	return s.Observed != nil && (s.Observed.TargetsLost > 0 || s.Targets == 0 && s.Observed.Candidates > 0)
}

// replaceTargets drops the targets that were lost while the gate is closed, and chooses
// others.
func (g *guard) replaceTargets(ctx workflow.Context, chosen *targets.Selection) {
	var again targets.Selection
	edited := g.Observed.SpecChanged
	in := choose.Input{Disruption: g.ref, Known: g.Shards, Run: g.Runs - 1, Waiting: true}
	if err := g.executeLocalFirst(ctx, g.selectionOptions(ctx, "choose other targets for those that are gone"), a.SelectTargets, in, &again); err != nil {
		g.fail(ctx, err)
		return
	}
	g.Targets, g.Kept = again.Selected, again.Kept
	g.noteControl(again)
	g.noteAdded(again)
	chosen.Added = append(chosen.Added, again.Added...)
	chosen.Versions = nil // the records have new versions
	g.Observed = nil
	if edited {
		g.Observed = &contract.Observation{SpecChanged: true} // the warning follows later
	}
	g.publishPhase(ctx, g.idlePhase())
}

// start starts the probes of phase During and waits until they run, before the first
// chaos pod is created. If no prober asks them, onProberLost decides, as it does later.
func (g *guard) start(ctx workflow.Context) bool {
	spec := *g.Plan.SteadyState
	g.beginPhase(ctx, v1beta1.ProbeDuring, status.SteadyStateReached)
	g.runner().Ask(ctx)
	_ = workflow.Await(ctx, func() bool { return g.Steady.Asking(spec) || g.runner().Missed() })
	return ctx.Err() == nil
}

// resume continues to guard what the run before this one guarded. Answers that the
// prober of that run counted and did not report are lost.
func (g *guard) resume(ctx workflow.Context) {
	if g.guarded() && g.Steady != nil && g.Steady.Phase == v1beta1.ProbeDuring {
		g.Steady.KeepCompared()
		g.runner().Ask(ctx)
		g.write(ctx, status.SteadyStateAsked, "")
	}
}

// noteControl notes the control group, once it was chosen.
func (s *State) noteControl(chosen targets.Selection) {
	if s.guarded() && chosen.Control != nil {
		if s.Steady == nil {
			s.Steady = &steadystate.Course{}
		}
		s.Steady.Control = &steadystate.ControlGroup{Wanted: chosen.Control.Wanted, Chosen: chosen.Control.Chosen}
	}
}

// beginPhase begins a phase, or continues one that has begun, and writes that into
// status.
func (g *guard) beginPhase(ctx workflow.Context, phase v1beta1.ProbePhase, change status.SteadyStateChange) {
	if g.Steady == nil {
		g.Steady = &steadystate.Course{}
	}
	if change == status.SteadyStateReached && !g.Plan.SteadyState.Asks(v1beta1.ProbeBefore) {
		change = status.SteadyStateAsked
	}
	g.Steady.Begin(*g.Plan.SteadyState, phase, workflow.Now(ctx))
	g.written = 0
	g.write(ctx, change, "")
	g.showPhase(ctx, g.Phase)
}

// runner is the prober. It exists once the first phase begins.
func (g *guard) runner() *prober.Prober {
	if g.prober == nil {
		g.prober = &prober.Prober{
			Spec: *g.Plan.SteadyState, Course: g.Steady, Rules: g.Plan.ProbeRules,
			Input: probing.Input{Disruption: g.ref}, Lasts: g.remaining, Changed: g.changed,
		}
	}
	return g.prober
}

// receive passes the results of probes on.
func (g *guard) receive(ctx workflow.Context, transition contract.ProbeTransition) {
	if g.guarded() && g.Steady != nil {
		g.runner().Receive(ctx, transition)
	}
}

// changed reports the new state, and ends a disruption that a probe aborts.
func (g *guard) changed(ctx workflow.Context) {
	spec := *g.Plan.SteadyState
	g.showPhase(ctx, g.Phase)
	change, message := status.SteadyStateAsked, ""
	if finding, sentence := g.Steady.Worst(spec); finding != g.Steady.Notified {
		g.Steady.Notified, message = finding, sentence
		change = changes[finding]
		// An abort is notified as the ending.
		if finding == steadystate.LostRecorded || finding == steadystate.BlindRecorded {
			g.notifier.send(ctx, v1beta1.NotificationWarning, notification.ReasonUnsteady, sentence)
		}
	}
	g.write(ctx, change, message)
	if why := g.Steady.WhyAborted(spec); why != "" && g.Ending == "" {
		g.end(v1beta1.EndingAborted + why)
	}
}

// changes are the events for the worst that a disruption has shown.
var changes = map[steadystate.Worst]status.SteadyStateChange{
	steadystate.LostRecorded:  status.SteadyStateLost,
	steadystate.BlindRecorded: status.SteadyStateBlind,
	steadystate.LostAborted:   status.SteadyStateAborted,
	steadystate.BlindAborted:  status.SteadyStateBlindAborted,
}

// write writes the known results into status, in the background, one write
// after the other. A write without an event is left out if the phase has had many writes,
// or another write waits.
func (g *guard) write(ctx workflow.Context, change status.SteadyStateChange, message string) {
	quiet := change == status.SteadyStateAsked
	if quiet && (g.written >= mostSteadyReports || len(g.writes) > 0) || g.Ending == v1beta1.EndingDeleted {
		g.writes = g.refreshed(ctx)
		return
	}
	g.written++
	g.writes = append(g.writes, g.statusReport(ctx, change, message))
	if g.writing {
		return // the running goroutine writes it too
	}
	g.writing = true
	free, _ := workflow.NewDisconnectedContext(ctx)
	workflow.Go(free, func(ctx workflow.Context) {
		defer func() { g.writing = false }()
		for len(g.writes) > 0 {
			next := g.writes[0]
			g.writes = g.writes[1:]
			if err := workflow.ExecuteActivity(statusOptions(ctx, "steady state"), a.ReportSteadyState, next).Get(ctx, nil); err != nil {
				workflow.GetLogger(ctx).Warn("status not written", "error", err)
			}
		}
	})
}

// refreshed are the waiting reports, the last of them with the current status.
func (g *guard) refreshed(ctx workflow.Context) []status.SteadyStateReport {
	if n := len(g.writes); n > 0 {
		g.writes[n-1].Status = g.Steady.Status(*g.Plan.SteadyState, false, workflow.Now(ctx))
	}
	return g.writes
}

func (g *guard) statusReport(ctx workflow.Context, change status.SteadyStateChange, message string) status.SteadyStateReport {
	now := g.Steady.Status(*g.Plan.SteadyState, false, workflow.Now(ctx))
	if message == "" {
		message = now.Summary
	}
	return status.SteadyStateReport{Disruption: g.ref, Status: now, Change: change, Message: message}
}

// finish ends phase During: the disruption is about to be cleaned.
func (g *guard) finish() {
	if g.guarded() && g.Steady != nil && g.Steady.Phase == v1beta1.ProbeDuring {
		g.Steady.End(*g.Plan.SteadyState, false)
	}
}

// awaitRecovery waits, once all is clean, until the probes of phase After succeed or
// their time is over (rule P14). It does not wait if the disruption was deleted or an
// emergency stop ended it: the object has to be removed at once.
func (g *guard) awaitRecovery(ctx workflow.Context) {
	if !g.guarded() || g.Steady == nil || !g.Steady.Disturbed || g.Steady.Over || g.skipsRecovery() {
		return
	}
	spec := *g.Plan.SteadyState
	g.beginPhase(ctx, v1beta1.ProbeAfter, status.SteadyStateAsked)
	asking, stop := workflow.WithCancel(ctx)
	g.runner().Ask(asking)
	left := g.Steady.Began.Add(spec.RecoveryTimeout()).Sub(workflow.Now(ctx))
	back, _ := flow.AwaitFor(ctx, max(left, 0), "the steady state: is it back?", func() bool { return g.Steady.Reached(spec) || g.skipsRecovery() })
	stop()
	g.Steady.End(spec, !g.skipsRecovery())
	g.showPhase(ctx, g.Phase)
	switch {
	case g.skipsRecovery() || !spec.Asks(v1beta1.ProbeAfter):
	case back:
		g.write(ctx, status.SteadyStateRecovered, "every probe succeeds again")
	default:
		g.write(ctx, status.SteadyStateNotRecovered, g.Steady.WhyNotBack(spec))
	}
}

// awaitFinalResult waits a short time for the final result of the prober of During, which
// has the answers of the whole phase. It does not wait if the object has to be removed at
// once.
func (g *guard) awaitFinalResult(ctx workflow.Context) {
	if g.guarded() && g.prober != nil && g.prober.FinalDue() && !g.skipsRecovery() {
		_, _ = flow.AwaitFor(ctx, finalResultPatience, "the answers to the probes", func() bool { return !g.prober.FinalDue() || g.skipsRecovery() })
	}
}

// awaitWrites waits until the reports of the steady state are in status: a later
// write of status would overtake them.
func (g *guard) awaitWrites(ctx workflow.Context) {
	if g.guarded() && !g.skipsRecovery() {
		_ = workflow.Await(ctx, func() bool { return !g.writing })
	}
}

// skipsRecovery is true when the disruption ends without waiting for the steady state.
func (s *State) skipsRecovery() bool { return s.SkipRecovery || endsAtOnce(s.Ending) }

// endsAtOnce is true for the endings of a disruption whose object has to be removed at
// once.
func endsAtOnce(ending string) bool {
	class := v1beta1.ClassOf(ending)
	return class == v1beta1.ClassDeleted || class == v1beta1.ClassEmergencyStop
}

// verdict is the steady state for the last status; nil without probes.
func (s *State) verdict(ctx workflow.Context) *v1beta1.SteadyStateStatus {
	if !s.guarded() {
		return nil
	}
	var course steadystate.Course // empty if the disruption ended before its gate
	if s.Steady != nil {
		course = *s.Steady
	}
	course.Injected = course.Injected || s.Injected // older workers did not note it there
	last := course.Status(*s.Plan.SteadyState, true, workflow.Now(ctx))
	return &last
}
