// Package disruption is the workflow of a disruption: its life from Prepare to the removal
// of its finalizer, to be read from top to bottom.
package disruption

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/activities/choose"
	"github.com/squall-chaos/squall/activities/prepare"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/flow"
)

// Input is contract.Input, and the state that a run passes to the next one.
type Input struct {
	contract.Input
	Carried *State `json:"carried,omitempty"`
}

// Workflow is the life of one disruption. If any component crashes meanwhile, the
// workflow still comes to its end: nothing that it injected is left, or it reports what
// is left and waits for a person.
func Workflow(ctx workflow.Context, in Input) (Result, error) {
	d, err := begin(ctx, in)
	if err != nil {
		return Result{}, err
	}
	free, _ := workflow.NewDisconnectedContext(ctx) // clean up even if cancelled
	if err := d.prepare(free); err != nil {
		return Result{}, err
	}
	if d.mayDisturb() {
		d.disturb(ctx) // until it expires, is deleted or cancelled
	}
	if d.newRunDue {
		return Result{}, d.continueAsNew(ctx)
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx) // from here on no cancellation stops the workflow
	d.guard.finish()
	d.notifier.ends(ctx)
	for !d.clean(ctx) {
		if d.newRunDue {
			return Result{}, d.continueAsNew(ctx)
		}
		d.awaitDecision(ctx)
	}
	result := d.result(ctx)
	d.notifier.finished(ctx, result)
	d.notifier.awaitStarts(ctx)
	return result, nil
}

// prepare reads, checks and stores the spec, and keeps the plan made of it.
func (d *disruption) prepare(ctx workflow.Context) error {
	if d.Plan != nil {
		return nil // carried over from an earlier run
	}
	var plan prepare.Plan
	if err := d.executeLocalFirst(ctx, flow.RequiredOptions(ctx, "read the spec and keep it"), a.Prepare, d.ref, &plan); err != nil {
		return err
	}
	d.Plan = &plan
	if plan.CleanOnly != "" {
		d.Ending = plan.CleanOnly
	}
	d.notifier.planned(ctx)
	workflow.SetCurrentDetails(ctx, details(d.ref, d.State))
	return nil
}

func (s *State) mayDisturb() bool {
	return s.Plan.CleanOnly == "" && s.Plan.Rejected == "" && s.Ending == ""
}

// disturb keeps the wanted number of targets disrupted until the disruption ends.
func (d *disruption) disturb(ctx workflow.Context) {
	ctx, d.stop = workflow.WithCancel(ctx)
	defer d.stop()
	workflow.Go(ctx, d.expire)
	sleepUntil(ctx, d.Plan.CreateAt, "spec.triggers.createPods")
	d.guard.resume(ctx)
	switch { // the run before this one began the injection
	case d.waits():
		d.injection.begin(ctx, 0, targets.Selection{Added: d.shardNumbers()})
	case d.Shards > 0 && !d.Injected:
		d.injection.inject(ctx, d.Shards, targets.Selection{})
	case d.Lingers:
		d.injection.watch(ctx, nil)
	case d.Unproven:
		d.injection.awaitEffects(ctx)
	}
	for ctx.Err() == nil && !d.newRunDue {
		if d.mayTakeTargets() {
			d.takeTargets(ctx)
		}
		if d.newRunDue {
			break // the gate is still closed
		}
		d.hold(ctx)
		d.handleChanges(ctx)
		d.operate(ctx)
		d.newRunDue = workflow.GetInfo(ctx).GetContinueAsNewSuggested()
	}
	if d.Ending == "" && ctx.Err() != nil {
		d.Ending = v1beta1.EndingCancelled // a new run would not see the cancellation
	}
}

// expire ends the disruption when its duration is over.
func (d *disruption) expire(ctx workflow.Context) {
	sleepUntil(ctx, d.Plan.ExpireAt, "the disruption's duration")
	if ctx.Err() == nil {
		d.end(v1beta1.EndingExpired)
	}
}

func sleepUntil(ctx workflow.Context, t time.Time, what string) {
	left := t.Sub(workflow.Now(ctx))
	if left <= 0 {
		return
	}
	timer := workflow.NewTimerWithOptions(ctx, left, workflow.TimerOptions{Summary: what})
	if err := timer.Get(ctx, nil); err != nil {
		return // cancelled: the caller checks ctx
	}
}

// mayTakeTargets is true until targets were found for the first time. After that it is
// true if targeting is dynamic or a place is kept, unless maxRuns is reached.
func (s *State) mayTakeTargets() bool {
	if s.Plan.MaxRuns > 0 && s.Runs >= s.Plan.MaxRuns {
		return false
	}
	return s.Shards == 0 || !s.Plan.Static || s.Kept > 0
}

// takeTargets chooses the targets that are missing and starts their injection.
func (d *disruption) takeTargets(ctx workflow.Context) {
	d.showPhase(ctx, d.idlePhase())
	if d.Shards == 0 && d.Observed != nil && !d.Observed.SpecChanged {
		d.Observed = nil // SelectTargets reads the cluster live, and no chaos pod exists yet
	}
	var chosen targets.Selection
	in := choose.Input{Disruption: d.ref, Known: d.Shards, Run: d.Runs, Fill: true, Closed: d.shardsAsked()}
	in.ShownLater = d.Shards == 0 && !d.guarded() && !d.operates() && d.Plan.Kinds.By() == v1beta1.ByInjector
	if err := d.executeLocalFirst(ctx, d.selectionOptions(ctx, "choose targets"), a.SelectTargets, in, &chosen); err != nil {
		d.fail(ctx, err)
		return
	}
	d.Targets, d.Kept, d.RetryAt = chosen.Selected, chosen.Kept, chosen.RetryAt
	d.noteControl(chosen)
	if len(chosen.Added) == 0 {
		d.publishPhase(ctx, d.idlePhase())
		return
	}
	d.Runs++
	d.noteAdded(chosen)
	if in.ShownLater {
		d.injection.unreported = &chosen
	}
	d.injection.begin(ctx, in.Known, chosen)
}

// noteAdded notes the shards that got targets, for the events on these targets. A worker
// of an older version, which may still answer, counts only new shards.
func (p *Progress) noteAdded(chosen targets.Selection) {
	p.Shards = max(chosen.Shards, p.Shards)
	if chosen.Shards == 0 {
		p.Shards += len(chosen.Added)
	}
	if len(p.Unannounced) == 0 {
		p.UnannouncedRun = chosen.Run
	}
	for _, number := range chosen.Added {
		if !slices.Contains(p.Unannounced, number) {
			p.Unannounced = append(p.Unannounced, number)
		}
	}
}

// hold waits for an observation, a decision or the time of the next automatic attempt.
// Meanwhile nothing is written, and the history has no event but the timer.
func (d *disruption) hold(ctx workflow.Context) {
	called, err := flow.AwaitFor(ctx, d.holdDelay(ctx), "look again even if nothing was observed",
		func() bool { return d.Observed != nil || len(d.Decided) > 0 })
	if err != nil {
		return // the disruption ends: the caller checks ctx
	}
	if !called {
		d.retryAutomatically()
	}
	d.applyResumes(ctx)
}

// handleChanges acts on observed changes while the disruption lasts: it warns of an
// edited spec, follows services, and cleans up after chaos pods that ended and targets
// that were lost.
func (d *disruption) handleChanges(ctx workflow.Context) {
	if ctx.Err() != nil {
		return
	}
	if d.Observed != nil && d.Observed.SpecChanged {
		if err := workflow.ExecuteActivity(d.selectionOptions(ctx, "warn that the edit has no effect"), a.WarnSpecChanged, d.ref).Get(ctx, nil); err != nil {
			d.fail(ctx, err)
			return
		}
	}
	if d.Observed != nil && d.Observed.Unready > 0 && d.injection.stopWatch == nil {
		d.injection.awaitEffects(ctx)
	}
	d.followServices(ctx)
	seen := d.Observed
	ended := seen == nil || seen.MoreEnded(nil)
	d.Observed = nil
	if !ended && !d.leftToClean() {
		return // only candidates came or went
	}
	d.rounds.fewEnded = seen != nil && seen.Ended+seen.TargetsLost <= localEndedLimit
	left, lost := d.rounds.clean(ctx, true, seen)
	if ctx.Err() != nil {
		return
	}
	d.endOperations(ctx, true)
	d.reportLeft(ctx, left)
	if lost > 0 {
		d.Targets -= lost
		d.injection.watch(ctx, nil) // of the targets that are left
	}
}

// followServices sends the chaos pods the addresses of services when the bridge reports a
// change. It also does so when no observation arrived for safetyPeriod. Histories of older
// workers have no disruption that names services: this needs no version.
func (d *disruption) followServices(ctx workflow.Context) {
	seen := d.Services
	if d.Observed != nil {
		if d.Observed.Services == "" || d.Observed.Services == d.Services {
			return
		}
		seen = d.Observed.Services
	}
	if !d.Plan.Services {
		return
	}
	if err := d.executeLocalFirst(ctx, d.selectionOptions(ctx, "send the addresses of services to injectors"), a.FollowServices, d.ref, nil); err != nil {
		d.fail(ctx, err)
		return
	}
	d.Services = seen
}
