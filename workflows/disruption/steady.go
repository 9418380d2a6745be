package disruption

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/activities"
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
// judge it. No plan before this branch had a SteadyState, and without one nothing here
// does anything: it needs no version.

// lastWordPatience is longer than it takes to detect a prober that died.
const lastWordPatience = 15 * time.Second

// mostSteadyReports is how often a phase is written into status at most: probes may turn
// for hours. The last result is in the last status.
const mostSteadyReports = 20

// guarded is true for a disruption with probes.
func (d *disruption) guarded() bool { return d.Plan != nil && d.Plan.SteadyState != nil }

// waits is true while the gate is closed: nothing was injected yet.
func (d *disruption) waits() bool {
	return d.guarded() && d.Steady != nil && !d.Steady.Disturbed
}

// mayInject waits until the probes of Before succeed and those of During are asked.
// chosen are the targets, some of which may be replaced meanwhile. false forbids the
// injection: the disruption ends, or a new run continues.
func (d *disruption) mayInject(ctx workflow.Context, chosen *targets.Selection) bool {
	if !d.guarded() || d.Steady != nil && d.Steady.Disturbed {
		return true
	}
	may := d.passGate(ctx, chosen) && d.guard(ctx)
	d.Steady.Disturbed = may
	return may
}

// passGate waits until the probes of phase Before succeed. If they do not succeed in
// time, the disruption ends (rule P8).
func (d *disruption) passGate(ctx workflow.Context, chosen *targets.Selection) (open bool) {
	spec := *d.Plan.SteadyState
	d.beginSteadyPhase(ctx, v1beta1.ProbeBefore, status.SteadyStateAsked)
	d.publishPhase(ctx, d.idlePhase())
	asking, stop := workflow.WithCancel(ctx)
	defer stop()
	d.prober().Ask(asking)
	closes := d.Steady.Began.Add(spec.GateTimeout())
	for !d.gateOpen() {
		left := closes.Sub(workflow.Now(ctx))
		d.newRunDue = workflow.GetInfo(ctx).GetContinueAsNewSuggested()
		if d.newRunDue || left <= 0 || ctx.Err() != nil {
			break
		}
		_, err := flow.AwaitFor(ctx, left, "the steady state: nothing is injected before the probes succeed",
			func() bool {
				return d.gateOpen() || d.targetsLeft() || workflow.GetInfo(ctx).GetContinueAsNewSuggested()
			})
		if err == nil && d.targetsLeft() {
			d.replaceTargets(ctx, chosen)
		}
	}
	if d.newRunDue && ctx.Err() == nil {
		return false // the next run continues to wait
	}
	open = d.gateOpen() && ctx.Err() == nil
	d.Steady.End(spec, !open && (ctx.Err() == nil || d.Ending == v1beta1.EndingExpired))
	if !open && ctx.Err() == nil {
		why := d.whyClosed()
		d.writeSteadyState(ctx, status.SteadyStateNotReached, why)
		d.end(v1beta1.EndingNotSteady + why)
	}
	return open
}

// whyClosed is what keeps the gate closed.
func (d *disruption) whyClosed() string {
	if why := d.Steady.WhyClosed(*d.Plan.SteadyState); why != "" {
		return why
	}
	return "the probes succeed, and no target is left"
}

// gateOpen is true while all probes succeed and there is a target to disrupt.
func (d *disruption) gateOpen() bool {
	return d.Steady.Reached(*d.Plan.SteadyState) && d.Targets > 0
}

// targetsLeft is true when the bridge reports that targets were lost before anything was
// injected, or that there are candidates and no target.
func (d *disruption) targetsLeft() bool {
	return d.Observed != nil && (d.Observed.TargetsLost > 0 || d.Targets == 0 && d.Observed.Candidates > 0)
}

// replaceTargets drops the targets that were lost while the gate is closed, and chooses
// others.
func (d *disruption) replaceTargets(ctx workflow.Context, chosen *targets.Selection) {
	var again targets.Selection
	edited := d.Observed.SpecChanged
	in := activities.SelectInput{Disruption: d.ref, Known: d.Shards, Run: d.Runs - 1, Waiting: true}
	if err := d.executeLocalFirst(ctx, d.selectionOptions(ctx, "choose other targets for those that are gone"), a.SelectTargets, in, &again); err != nil {
		d.fail(ctx, err)
		return
	}
	d.Targets, d.Kept = again.Selected, again.Kept
	d.noteControl(again)
	d.noteAdded(again)
	chosen.Added = append(chosen.Added, again.Added...)
	chosen.Versions = nil // the records have new versions
	d.Observed = nil
	if edited {
		d.Observed = &contract.Observation{SpecChanged: true} // the warning follows later
	}
	d.publishPhase(ctx, d.idlePhase())
}

// guard starts the probes of phase During and waits until they run, before the first
// chaos pod is created. If no prober asks them, onProberLost decides, as it does later.
func (d *disruption) guard(ctx workflow.Context) bool {
	spec := *d.Plan.SteadyState
	d.beginSteadyPhase(ctx, v1beta1.ProbeDuring, status.SteadyStateReached)
	d.prober().Ask(ctx)
	_ = workflow.Await(ctx, func() bool { return d.Steady.Asking(spec) || d.prober().Missed() })
	return ctx.Err() == nil
}

// resumeGuard continues to guard what the run before this one guarded. Answers that the
// prober of that run counted and did not report are lost.
func (d *disruption) resumeGuard(ctx workflow.Context) {
	if d.guarded() && d.Steady != nil && d.Steady.Phase == v1beta1.ProbeDuring {
		d.Steady.KeepCompared()
		d.prober().Ask(ctx)
		d.writeSteadyState(ctx, status.SteadyStateAsked, "")
	}
}

// noteControl notes the control group, once it was chosen.
func (d *disruption) noteControl(chosen targets.Selection) {
	if d.guarded() && chosen.Control != nil {
		if d.Steady == nil {
			d.Steady = &steadystate.Course{}
		}
		d.Steady.Control = &steadystate.ControlGroup{Wanted: chosen.Control.Wanted, Chosen: chosen.Control.Chosen}
	}
}

// beginSteadyPhase begins a phase, or continues one that has begun, and writes that into
// status.
func (d *disruption) beginSteadyPhase(ctx workflow.Context, phase v1beta1.ProbePhase, change status.SteadyStateChange) {
	if d.Steady == nil {
		d.Steady = &steadystate.Course{}
	}
	if change == status.SteadyStateReached && !d.Plan.SteadyState.Asks(v1beta1.ProbeBefore) {
		change = status.SteadyStateAsked
	}
	d.Steady.Begin(*d.Plan.SteadyState, phase, workflow.Now(ctx))
	d.steadyReports = 0
	d.writeSteadyState(ctx, change, "")
	d.showPhase(ctx, d.Phase)
}

// prober runs the probes. It exists once the first phase begins.
func (d *disruption) prober() *prober.Prober {
	if d.asker == nil {
		d.asker = &prober.Prober{
			Spec: *d.Plan.SteadyState, Course: d.Steady, Rules: d.Plan.ProbeRules,
			Input: probing.Input{Disruption: d.ref}, Lasts: d.remaining, Changed: d.steadyStateChanged,
		}
	}
	return d.asker
}

// receive passes the results of probes on.
func (d *disruption) receive(ctx workflow.Context, transition contract.ProbeTransition) {
	if d.guarded() && d.Steady != nil {
		d.prober().Receive(ctx, transition)
	}
}

// steadyStateChanged reports the new state, and ends a disruption that a probe aborts.
func (d *disruption) steadyStateChanged(ctx workflow.Context) {
	spec := *d.Plan.SteadyState
	d.showPhase(ctx, d.Phase)
	change, message := status.SteadyStateAsked, ""
	if finding, sentence := d.Steady.Worst(spec); finding != d.Steady.Notified {
		d.Steady.Notified, message = finding, sentence
		change = changes[finding]
		// An abort is notified as the ending.
		if finding == steadystate.LostRecorded || finding == steadystate.BlindRecorded {
			d.notify(ctx, v1beta1.NotificationWarning, notification.ReasonUnsteady, sentence)
		}
	}
	d.writeSteadyState(ctx, change, message)
	if why := d.Steady.WhyAborted(spec); why != "" && d.Ending == "" {
		d.end(v1beta1.EndingAborted + why)
	}
}

// changes are the events for the worst that a disruption has shown.
var changes = map[steadystate.Worst]status.SteadyStateChange{
	steadystate.LostRecorded:  status.SteadyStateLost,
	steadystate.BlindRecorded: status.SteadyStateBlind,
	steadystate.LostAborted:   status.SteadyStateAborted,
	steadystate.BlindAborted:  status.SteadyStateBlindAborted,
}

// writeSteadyState writes the known results into status, in the background, one write
// after the other. A write without an event is left out if the phase has had many writes,
// or another write waits.
func (d *disruption) writeSteadyState(ctx workflow.Context, change status.SteadyStateChange, message string) {
	quiet := change == status.SteadyStateAsked
	if quiet && (d.steadyReports >= mostSteadyReports || len(d.steadyWrites) > 0) || d.Ending == v1beta1.EndingDeleted {
		d.steadyWrites = d.refreshed(ctx)
		return
	}
	d.steadyReports++
	d.steadyWrites = append(d.steadyWrites, d.steadyReport(ctx, change, message))
	if d.steadyWriting {
		return // the running goroutine writes it too
	}
	d.steadyWriting = true
	free, _ := workflow.NewDisconnectedContext(ctx)
	workflow.Go(free, func(ctx workflow.Context) {
		defer func() { d.steadyWriting = false }()
		for len(d.steadyWrites) > 0 {
			next := d.steadyWrites[0]
			d.steadyWrites = d.steadyWrites[1:]
			if err := workflow.ExecuteActivity(statusOptions(ctx, "steady state"), a.ReportSteadyState, next).Get(ctx, nil); err != nil {
				workflow.GetLogger(ctx).Warn("status not written", "error", err)
			}
		}
	})
}

// refreshed are the waiting reports, the last of them with the current status.
func (d *disruption) refreshed(ctx workflow.Context) []status.SteadyStateReport {
	if n := len(d.steadyWrites); n > 0 {
		d.steadyWrites[n-1].Status = d.Steady.Status(*d.Plan.SteadyState, false, workflow.Now(ctx))
	}
	return d.steadyWrites
}

func (d *disruption) steadyReport(ctx workflow.Context, change status.SteadyStateChange, message string) status.SteadyStateReport {
	now := d.Steady.Status(*d.Plan.SteadyState, false, workflow.Now(ctx))
	if message == "" {
		message = now.Summary
	}
	return status.SteadyStateReport{Disruption: d.ref, Status: now, Change: change, Message: message}
}

// endGuard ends phase During: the disruption is about to be cleaned.
func (d *disruption) endGuard() {
	if d.guarded() && d.Steady != nil && d.Steady.Phase == v1beta1.ProbeDuring {
		d.Steady.End(*d.Plan.SteadyState, false)
	}
}

// awaitRecovery waits, once all is clean, until the probes of phase After succeed or
// their time is over (rule P14). It does not wait if the disruption was deleted or an
// emergency stop ended it: the object has to be removed at once.
func (d *disruption) awaitRecovery(ctx workflow.Context) {
	if !d.guarded() || d.Steady == nil || !d.Steady.Disturbed || d.Steady.Over || d.skipsRecovery() {
		return
	}
	spec := *d.Plan.SteadyState
	d.beginSteadyPhase(ctx, v1beta1.ProbeAfter, status.SteadyStateAsked)
	asking, stop := workflow.WithCancel(ctx)
	d.prober().Ask(asking)
	left := d.Steady.Began.Add(spec.RecoveryTimeout()).Sub(workflow.Now(ctx))
	back, _ := flow.AwaitFor(ctx, max(left, 0), "the steady state: is it back?", func() bool { return d.Steady.Reached(spec) || d.skipsRecovery() })
	stop()
	d.Steady.End(spec, !d.skipsRecovery())
	d.showPhase(ctx, d.Phase)
	switch {
	case d.skipsRecovery() || !spec.Asks(v1beta1.ProbeAfter):
	case back:
		d.writeSteadyState(ctx, status.SteadyStateRecovered, "every probe succeeds again")
	default:
		d.writeSteadyState(ctx, status.SteadyStateNotRecovered, d.Steady.WhyNotBack(spec))
	}
}

// awaitLastWord waits a short time for the final result of the prober of During, which
// has the answers of the whole phase. It does not wait if the object has to be removed at
// once.
func (d *disruption) awaitLastWord(ctx workflow.Context) {
	if d.guarded() && d.asker != nil && d.asker.FinalDue() && !d.skipsRecovery() {
		_, _ = flow.AwaitFor(ctx, lastWordPatience, "the answers to the probes", func() bool { return !d.asker.FinalDue() || d.skipsRecovery() })
	}
}

// awaitSteadyWrites waits until the reports of the steady state are in status: a later
// write of status would overtake them.
func (d *disruption) awaitSteadyWrites(ctx workflow.Context) {
	if d.guarded() && !d.skipsRecovery() {
		_ = workflow.Await(ctx, func() bool { return !d.steadyWriting })
	}
}

// skipsRecovery is true when the disruption ends without waiting for the steady state.
func (d *disruption) skipsRecovery() bool { return d.SkipRecovery || endsAtOnce(d.Ending) }

// endsAtOnce is true for the endings of a disruption whose object has to be removed at
// once.
func endsAtOnce(ending string) bool {
	class := v1beta1.ClassOf(ending)
	return class == v1beta1.ClassDeleted || class == v1beta1.ClassEmergencyStop
}

// verdict is the steady state for the last status; nil without probes.
func (d *disruption) verdict(ctx workflow.Context) *v1beta1.SteadyStateStatus {
	if !d.guarded() {
		return nil
	}
	var course steadystate.Course // empty if the disruption ended before its gate
	if d.Steady != nil {
		course = *d.Steady
	}
	course.Injected = course.Injected || d.Injected // older workers did not note it there
	last := course.Status(*d.Plan.SteadyState, true, workflow.Now(ctx))
	return &last
}
