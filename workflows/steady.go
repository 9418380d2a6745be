package workflows

import (
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/activities"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/steadystate"
)

// The steady state of a disruption: probes that let it begin, end it, and judge
// it. No plan before this branch had a SteadyState, and without one nothing here
// does anything: it needs no version.

// lastWordPatience is longer than it takes to miss a prober that died.
const lastWordPatience = 15 * time.Second

// mostSteadyReports is how often a phase is written into status at most: probes
// may come and go for hours. The last word is in the last status.
const mostSteadyReports = 20

// guarded is true for a disruption with probes.
func (d *disruption) guarded() bool { return d.Plan != nil && d.Plan.SteadyState != nil }

// waits is true while the gate is closed: nothing was injected yet.
func (d *disruption) waits() bool {
	return d.guarded() && d.Steady != nil && !d.Steady.Disturbed
}

// mayInject waits until probes let the disruption begin and are asked whether it
// may go on; chosen are its targets, some of which may be replaced meanwhile.
// false means that nothing is to be injected: it ends, or goes on in a new run.
func (d *disruption) mayInject(ctx workflow.Context, chosen *activities.Selection) bool {
	if !d.guarded() || d.Steady != nil && d.Steady.Disturbed {
		return true
	}
	may := d.passGate(ctx, chosen) && d.guard(ctx)
	d.Steady.Disturbed = may
	return may
}

// passGate waits until the probes of phase Before succeed. If they do not in time
// the disruption ends (rule P8).
func (d *disruption) passGate(ctx workflow.Context, chosen *activities.Selection) (open bool) {
	spec := *d.Plan.SteadyState
	d.beginSteadyPhase(ctx, v1beta1.ProbeBefore, status.SteadyStateAsked)
	d.publishPhase(ctx, d.idlePhase())
	asking, stop := workflow.WithCancel(ctx)
	defer stop()
	d.prober().ask(asking)
	closes := d.Steady.Began.Add(spec.GateTimeout())
	for !d.gateOpen() {
		left := closes.Sub(workflow.Now(ctx))
		d.newRunDue = workflow.GetInfo(ctx).GetContinueAsNewSuggested()
		if d.newRunDue || left <= 0 || ctx.Err() != nil {
			break
		}
		_, err := awaitFor(ctx, left, "the steady state: nothing is injected before the probes succeed",
			func() bool {
				return d.gateOpen() || d.targetsLeft() || workflow.GetInfo(ctx).GetContinueAsNewSuggested()
			})
		if err == nil && d.targetsLeft() {
			d.replaceTargets(ctx, chosen)
		}
	}
	if d.newRunDue && ctx.Err() == nil {
		return false // the next run goes on waiting
	}
	open = d.gateOpen() && ctx.Err() == nil
	d.Steady.End(spec, !open && (ctx.Err() == nil || d.Ending == v1beta1.EndingExpired))
	if !open && ctx.Err() == nil {
		why := d.whyClosed()
		d.tellSteadyState(ctx, status.SteadyStateNotReached, why)
		d.end(v1beta1.EndingNotSteady + why)
	}
	return open
}

// whyClosed says what keeps the gate closed.
func (d *disruption) whyClosed() string {
	if why := d.Steady.WhyClosed(*d.Plan.SteadyState); why != "" {
		return why
	}
	return "the probes succeed, and no target is left"
}

// gateOpen is true while all probes succeed and there is a target to disturb.
func (d *disruption) gateOpen() bool {
	return d.Steady.Reached(*d.Plan.SteadyState) && d.Targets > 0
}

// targetsLeft is true when the bridge has told that targets are lost before
// anything was injected, or that there are candidates and no target.
func (d *disruption) targetsLeft() bool {
	return d.Observed != nil && (d.Observed.TargetsLost > 0 || d.Targets == 0 && d.Observed.Candidates > 0)
}

// replaceTargets lets go of what is gone and chooses others for the targets that were lost while the gate is
// closed.
func (d *disruption) replaceTargets(ctx workflow.Context, chosen *activities.Selection) {
	var again activities.Selection
	edited := d.Observed.SpecChanged
	in := activities.SelectInput{Disruption: d.ref, Known: d.Shards, Run: d.Runs - 1, Waiting: true}
	if err := d.executeLocalFirst(ctx, d.selectionOptions(ctx, "choose other targets for those that are gone"), a.SelectTargets, in, &again); err != nil {
		d.fail(ctx, err)
		return
	}
	d.Targets, d.Kept = again.Selected, again.Kept
	d.noteControl(again)
	d.noteAdded(again)
	chosen.Added, chosen.Versions = append(chosen.Added, again.Added...), nil // records were written anew
	d.Observed = nil
	if edited {
		d.Observed = &contract.Observation{SpecChanged: true} // it is warned of later
	}
	d.publishPhase(ctx, d.idlePhase())
}

// guard has the probes of phase During asked, and waits until they are, before
// the first chaos pod is made. If nobody asks them onProberLost decides, as it does
// later.
func (d *disruption) guard(ctx workflow.Context) bool {
	spec := *d.Plan.SteadyState
	d.beginSteadyPhase(ctx, v1beta1.ProbeDuring, status.SteadyStateReached)
	d.prober().ask(ctx)
	_ = workflow.Await(ctx, func() bool { return d.Steady.Asking(spec) || d.prober().missed })
	return ctx.Err() == nil
}

// resumeGuard goes on to guard what the run before this one guarded. What was
// asked in there counts no more than what is told of it.
func (d *disruption) resumeGuard(ctx workflow.Context) {
	if d.guarded() && d.Steady != nil && d.Steady.Phase == v1beta1.ProbeDuring {
		d.Steady.KeepCompared()
		d.prober().ask(ctx)
		d.tellSteadyState(ctx, status.SteadyStateAsked, "")
	}
}

// noteControl notes the control group, once it was chosen.
func (d *disruption) noteControl(chosen activities.Selection) {
	if d.guarded() && chosen.Control != nil {
		if d.Steady == nil {
			d.Steady = &steadystate.Course{}
		}
		d.Steady.Control = &steadystate.ControlGroup{Wanted: chosen.Control.Wanted, Chosen: chosen.Control.Chosen}
	}
}

// beginSteadyPhase begins a phase, or finds that it goes on, and tells what that
// means.
func (d *disruption) beginSteadyPhase(ctx workflow.Context, phase v1beta1.ProbePhase, change status.SteadyStateChange) {
	if d.Steady == nil {
		d.Steady = &steadystate.Course{}
	}
	if change == status.SteadyStateReached && !d.Plan.SteadyState.Asks(v1beta1.ProbeBefore) {
		change = status.SteadyStateAsked
	}
	d.Steady.Begin(*d.Plan.SteadyState, phase, workflow.Now(ctx))
	d.steadyReports = 0
	d.tellSteadyState(ctx, change, "")
	d.showPhase(ctx, d.Phase)
}

// prober has the probes asked. The course is there once the first phase begins.
func (d *disruption) prober() *prober {
	if d.asker == nil {
		d.asker = &prober{
			spec: *d.Plan.SteadyState, course: d.Steady, rules: d.Plan.ProbeRules,
			input: activities.AskProbesInput{Disruption: d.ref}, lasts: d.remaining, news: d.steadyNews,
		}
	}
	return d.asker
}

// hear takes in what probes say.
func (d *disruption) hear(ctx workflow.Context, told contract.ProbeTransition) {
	if d.guarded() && d.Steady != nil {
		d.prober().hear(ctx, told)
	}
}

// steadyNews tells what is known now, and ends a disruption that probes abort.
func (d *disruption) steadyNews(ctx workflow.Context) {
	spec := *d.Plan.SteadyState
	d.showPhase(ctx, d.Phase)
	change, message := status.SteadyStateAsked, ""
	if finding, sentence := d.Steady.Worst(spec); finding != d.Steady.Told {
		d.Steady.Told, message = finding, sentence
		change = changes[finding]
		if finding == steadystate.LostRecorded || finding == steadystate.BlindRecorded { // another one is told as the ending
			d.tell(ctx, v1beta1.NotificationWarning, toldUnsteady, sentence)
		}
	}
	d.tellSteadyState(ctx, change, message)
	if why := d.Steady.WhyAborted(spec); why != "" && d.Ending == "" {
		d.end(v1beta1.EndingAborted + why)
	}
}

// changes are what people are told of the worst that a disruption has shown.
var changes = map[steadystate.Worst]status.SteadyStateChange{
	steadystate.LostRecorded:  status.SteadyStateLost,
	steadystate.BlindRecorded: status.SteadyStateBlind,
	steadystate.LostAborted:   status.SteadyStateAborted,
	steadystate.BlindAborted:  status.SteadyStateBlindAborted,
}

// tellSteadyState writes what is known into status, in the background, one write
// after the other. What is no change for people to hear of is left out where a
// phase has had many writes, or another one waits.
func (d *disruption) tellSteadyState(ctx workflow.Context, change status.SteadyStateChange, message string) {
	quiet := change == status.SteadyStateAsked
	if quiet && (d.steadyReports >= mostSteadyReports || len(d.steadyTells) > 0) || d.Ending == v1beta1.EndingDeleted {
		d.steadyTells = d.refreshed(ctx)
		return
	}
	d.steadyReports++
	d.steadyTells = append(d.steadyTells, d.steadyReport(ctx, change, message))
	if d.steadyTelling {
		return // whoever tells takes it along
	}
	d.steadyTelling = true
	free, _ := workflow.NewDisconnectedContext(ctx)
	workflow.Go(free, func(ctx workflow.Context) {
		defer func() { d.steadyTelling = false }()
		for len(d.steadyTells) > 0 {
			next := d.steadyTells[0]
			d.steadyTells = d.steadyTells[1:]
			if err := workflow.ExecuteActivity(statusOptions(ctx, "steady state"), a.ReportSteadyState, next).Get(ctx, nil); err != nil {
				workflow.GetLogger(ctx).Warn("status not written", "error", err)
			}
		}
	})
}

// refreshed are the reports that wait; the last of them says how it is by now.
func (d *disruption) refreshed(ctx workflow.Context) []activities.SteadyStateReport {
	if n := len(d.steadyTells); n > 0 {
		d.steadyTells[n-1].Status = d.Steady.Status(*d.Plan.SteadyState, false, workflow.Now(ctx))
	}
	return d.steadyTells
}

func (d *disruption) steadyReport(ctx workflow.Context, change status.SteadyStateChange, message string) activities.SteadyStateReport {
	now := d.Steady.Status(*d.Plan.SteadyState, false, workflow.Now(ctx))
	if message == "" {
		message = now.Summary
	}
	return activities.SteadyStateReport{Disruption: d.ref, Status: now, Change: change, Message: message}
}

// endGuard ends phase During: the disruption is about to be cleaned.
func (d *disruption) endGuard() {
	if d.guarded() && d.Steady != nil && d.Steady.Phase == v1beta1.ProbeDuring {
		d.Steady.End(*d.Plan.SteadyState, false)
	}
}

// awaitRecovery waits, once all is clean, until the probes of phase After succeed
// or their time is over (rule P14). Nobody waits for a disruption that is deleted,
// or that an emergency stop has ended: its object is to go.
func (d *disruption) awaitRecovery(ctx workflow.Context) {
	if !d.guarded() || d.Steady == nil || !d.Steady.Disturbed || d.Steady.Over || d.hurried() {
		return
	}
	spec := *d.Plan.SteadyState
	d.beginSteadyPhase(ctx, v1beta1.ProbeAfter, status.SteadyStateAsked)
	asking, stop := workflow.WithCancel(ctx)
	d.prober().ask(asking)
	left := d.Steady.Began.Add(spec.RecoveryTimeout()).Sub(workflow.Now(ctx))
	back, _ := awaitFor(ctx, max(left, 0), "the steady state: is it back?", func() bool { return d.Steady.Reached(spec) || d.hurried() })
	stop()
	d.Steady.End(spec, !d.hurried())
	d.showPhase(ctx, d.Phase)
	switch {
	case d.hurried() || !spec.Asks(v1beta1.ProbeAfter):
	case back:
		d.tellSteadyState(ctx, status.SteadyStateRecovered, "every probe succeeds again")
	default:
		d.tellSteadyState(ctx, status.SteadyStateNotRecovered, d.Steady.WhyNotBack(spec))
	}
}

// awaitLastWord waits for what a prober of During says in the end, which keeps the
// answers of the whole phase: not long, and not if somebody waits for the object
// to go.
func (d *disruption) awaitLastWord(ctx workflow.Context) {
	if d.guarded() && d.asker != nil && d.asker.lastWord && !d.hurried() {
		_, _ = awaitFor(ctx, lastWordPatience, "the answers to the probes", func() bool { return !d.asker.lastWord || d.hurried() })
	}
}

// awaitTold waits until status says all that people are to be told, which an
// earlier write would overtake.
func (d *disruption) awaitTold(ctx workflow.Context) {
	if d.guarded() && !d.hurried() {
		_ = workflow.Await(ctx, func() bool { return !d.steadyTelling })
	}
}

// hurried is true when nobody is to wait for the steady state to come back.
func (d *disruption) hurried() bool { return d.Hurry || hurries(d.Ending) }

// hurries is true for the endings of a disruption whose object is to go at once.
func hurries(ending string) bool {
	return ending == v1beta1.EndingDeleted || strings.HasPrefix(ending, v1beta1.EndingEmergencyStop)
}

// verdict is what the last status says of the steady state; nil without probes.
func (d *disruption) verdict(ctx workflow.Context) *v1beta1.SteadyStateStatus {
	if !d.guarded() {
		return nil
	}
	var course steadystate.Course // nothing, if it ended before it came to the gate
	if d.Steady != nil {
		course = *d.Steady
	}
	course.Injected = course.Injected || d.Injected // which older workers did not note there
	last := course.Status(*d.Plan.SteadyState, true, workflow.Now(ctx))
	return &last
}
