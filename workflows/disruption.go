// Package workflows holds the durable decisions of a disruption: its life from
// the first look to the last finalizer, read from top to bottom. It touches
// neither cluster nor clock; what has an effect is an activity.
package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/activities"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// Input is contract.Input, and what a long life carries over into a new run.
type Input struct {
	contract.Input
	Carried *State `json:"carried,omitempty"`
}

// Disruption is the life of one disruption. Whatever dies, it is gone through
// to the end: nothing it injected is left, or it says what is left and waits
// for a person.
func Disruption(ctx workflow.Context, in Input) (Result, error) {
	d, err := begin(ctx, in)
	if err != nil {
		return Result{}, err
	}
	free, _ := workflow.NewDisconnectedContext(ctx)
	if err := d.prepare(free); err != nil { // one that is cancelled meanwhile ends in good order
		return Result{}, err
	}
	if d.mayDisturb() {
		d.disturb(ctx) // until it expires, is deleted or cancelled
	}
	if d.renews {
		return Result{}, d.again(ctx)
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx) // from here on nothing stops us
	for !d.clean(ctx) {
		if d.renews {
			return Result{}, d.again(ctx)
		}
		d.awaitDecision(ctx)
	}
	return d.result(ctx), nil
}

// prepare learns what is to be done.
func (d *disruption) prepare(ctx workflow.Context) error {
	if d.Plan != nil {
		return nil // carried over from an earlier run
	}
	var plan activities.Plan
	if err := d.soon(ctx, short(ctx, "read the spec and keep it"), a.Prepare, d.ref, &plan); err != nil {
		return err
	}
	d.Plan = &plan
	if plan.CleanOnly != "" {
		d.Ending = plan.CleanOnly
	}
	workflow.SetCurrentDetails(ctx, details(d.ref, d.State))
	return nil
}

func (d *disruption) mayDisturb() bool {
	return d.Plan.CleanOnly == "" && d.Plan.Rejected == "" && d.Ending == ""
}

// disturb keeps the wanted number of targets disrupted until the disruption ends.
func (d *disruption) disturb(ctx workflow.Context) {
	ctx, d.stop = workflow.WithCancel(ctx)
	defer d.stop()
	workflow.Go(ctx, d.expire)
	d.sleepUntil(ctx, d.Plan.CreateAt, "spec.triggers.createPods")
	if d.Shards > 0 && !d.Injected {
		d.watchInjection(ctx) // an earlier run began it
	}
	for ctx.Err() == nil && !d.renews {
		if d.mayTakeTargets() {
			d.takeTargets(ctx)
		}
		d.hold(ctx)
		d.settle(ctx)
		d.renews = workflow.GetInfo(ctx).GetContinueAsNewSuggested()
	}
	if d.Ending == "" && ctx.Err() != nil {
		d.Ending = "cancelled" // a new run would not hear of it
	}
}

// expire ends the disruption when its duration is over.
func (d *disruption) expire(ctx workflow.Context) {
	d.sleepUntil(ctx, d.Plan.ExpireAt, "the disruption's duration")
	if ctx.Err() == nil {
		d.end(activities.EndingExpired)
	}
}

func (d *disruption) sleepUntil(ctx workflow.Context, t time.Time, what string) {
	left := t.Sub(workflow.Now(ctx))
	if left <= 0 {
		return
	}
	timer := workflow.NewTimerWithOptions(ctx, left, workflow.TimerOptions{Summary: what})
	if err := timer.Get(ctx, nil); err != nil {
		return // cancelled: the caller looks at ctx
	}
}

// mayTakeTargets is true the first time, until some target is found, and later
// on whenever targets come and go, unless they are chosen once only.
func (d *disruption) mayTakeTargets() bool {
	if d.Plan.MaxRuns > 0 && d.Runs >= d.Plan.MaxRuns {
		return false
	}
	return d.Shards == 0 || !d.Plan.Static
}

// takeTargets chooses the targets that are missing and starts their injection.
func (d *disruption) takeTargets(ctx workflow.Context) {
	d.at(ctx, d.resting())
	if d.Shards == 0 && d.Observed != nil && !d.Observed.SpecChanged {
		d.Observed = nil // the choice sees all of it, and there is nothing else to settle
	}
	var chosen activities.Selection
	in := activities.SelectInput{Disruption: d.ref, Known: d.Shards, Run: d.Runs}
	if err := d.soon(ctx, d.choosing(ctx, "choose targets"), a.SelectTargets, in, &chosen); err != nil {
		d.fail(ctx, err)
		return
	}
	d.Targets = chosen.Selected
	if len(chosen.Added) == 0 {
		d.enter(ctx, d.resting())
		return
	}
	d.Runs++
	d.Shards += len(chosen.Added)
	d.Untold = append(d.Untold, chosen.Added...)
	d.enter(ctx, v1beta1.PhaseInjecting)
	d.watchInjection(ctx)
	d.forEach(ctx, chosen.Added, func(ctx workflow.Context, number int) {
		shard := activities.Shard{Disruption: d.ref, Number: number}
		var created activities.CreateResult
		if err := d.bySize(ctx, d.untilEnd(ctx, "create chaos pods"), a.CreateChaosPods, shard, &created); err != nil {
			d.fail(ctx, err)
		}
		if created.Stopped != "" {
			d.end(created.Stopped)
		}
	})
}

// bySize is soon for few targets. What many need takes too long for that, and
// must stop when the disruption ends.
func (d *disruption) bySize(ctx, visibly workflow.Context, activity, in, out any) error {
	if d.Targets <= few {
		return d.soon(ctx, visibly, activity, in, out)
	}
	return workflow.ExecuteActivity(visibly, activity, in).Get(ctx, out)
}

// watchInjection follows the injection in the background; a new one takes the
// place of the one before.
func (d *disruption) watchInjection(ctx workflow.Context) {
	if d.stopWatch != nil {
		d.stopWatch()
	}
	ctx, d.stopWatch = workflow.WithCancel(ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		var seen activities.InjectionProgress
		in := activities.AwaitInput{Disruption: d.ref, Announce: d.Untold}
		err := workflow.ExecuteActivity(d.watcher(ctx, "watch the injection, and tell the targets"), a.AwaitInjection, in).Get(ctx, &seen)
		if ctx.Err() != nil {
			return // another watch took over, or the disruption ends
		}
		d.stopWatch, d.Untold = nil, nil
		if err != nil {
			d.fail(ctx, err)
			return
		}
		d.Injected = d.Injected || seen.Total > 0
		d.enter(ctx, d.resting())
	})
}

// hold waits until something is to be done. Nothing else happens: no write,
// no event but the safety timer.
func (d *disruption) hold(ctx workflow.Context) {
	told, err := awaitFor(ctx, d.patience(), "look again even if nothing was observed",
		func() bool { return d.Observed != nil || len(d.Decided) > 0 })
	if err != nil {
		return // the disruption ends: the caller looks at ctx
	}
	if !told && len(d.Left) > 0 {
		d.Retry = everything
	}
	d.decide(ctx)
}

// settle takes leave of chaos pods that ended and targets that are lost while
// the disruption goes on.
func (d *disruption) settle(ctx workflow.Context) {
	if ctx.Err() != nil {
		return
	}
	if d.Observed != nil && d.Observed.SpecChanged {
		if err := workflow.ExecuteActivity(d.choosing(ctx, "warn that the edit has no effect"), a.WarnSpecChanged, d.ref).Get(ctx, nil); err != nil {
			d.fail(ctx, err)
			return
		}
	}
	ended := d.Observed == nil || d.Observed.Ended > 0 || d.Observed.TargetsLost > 0
	d.Observed = nil
	if !ended && len(d.Left) == 0 && d.Retry == nil && d.Release == nil {
		return // only candidates came or went
	}
	left, lost := d.sweep(ctx, true)
	if ctx.Err() != nil {
		return
	}
	d.tellLeft(ctx, left)
	if lost > 0 {
		d.Targets -= lost
		d.watchInjection(ctx) // there are other targets to look at
	}
}
