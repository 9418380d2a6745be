package disruption

import (
	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/activities"
	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/replace"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/flow"
)

// begin injects into the targets that were chosen, beside the known shards, once the
// steady state permits it.
func (d *disruption) begin(ctx workflow.Context, known int, chosen targets.Selection) {
	if !d.mayInject(ctx, &chosen) {
		return
	}
	if !d.lingering() {
		d.publishPhase(ctx, v1beta1.PhaseInjecting)
	}
	d.inject(ctx, known, chosen)
}

// inject starts the injection into the targets that were just chosen, beside the known
// shards. Chaos pods inject, or the worker disrupts the targets if the kind is one of the
// worker's. No release before this branch had a kind of the worker, so this needs no
// version.
func (d *disruption) inject(ctx workflow.Context, known int, chosen targets.Selection) {
	if d.Plan.Kinds.By() == v1beta1.ByWorker {
		d.replacePods(ctx)
		return
	}
	if d.operates() {
		d.askFor(ctx, chosen.Added)
		d.watchInjection(ctx, nil)
		d.operate(ctx)
		return
	}
	var all []string
	if known == 0 {
		all = chosen.Versions
	}
	d.watchInjection(ctx, all)
	d.createChaosPods(ctx, chosen)
}

// replacePods makes the worker replace all targets that are not replaced yet.
func (d *disruption) replacePods(ctx workflow.Context) {
	var done replace.Result
	if err := workflow.ExecuteActivity(d.replacementOptions(ctx), a.ReplacePods, d.ref).Get(ctx, &done); err != nil {
		d.fail(ctx, err)
		return
	}
	if done.Stopped != "" {
		d.end(done.Stopped)
	}
	d.Targets -= done.Lost
	d.noteInjected(done.Total > 0 && done.Replaced == done.Total)
	d.Unannounced = nil
	d.publishPhase(ctx, d.idlePhase())
	d.notifyInjected(ctx)
}

// createChaosPods creates the chaos pods of the added shards, several at once.
func (d *disruption) createChaosPods(ctx workflow.Context, chosen targets.Selection) {
	d.forEach(ctx, chosen.Added, func(ctx workflow.Context, number int) {
		shard := activities.CreateInput{Shard: chaospod.Shard{Disruption: d.ref, Number: number}, Version: chosen.VersionOf(number), Run: chosen.Run, Operated: d.operates()}
		var created activities.CreateResult
		if err := d.executeCreation(ctx, shard, &created); err != nil {
			d.fail(ctx, err)
		}
		if created.Stopped != "" {
			d.end(created.Stopped)
		}
	})
}

// executeCreation runs CreateChaosPods: for few targets within the workflow's task, for
// more as an activity. The end of the disruption cancels that activity.
func (d *disruption) executeCreation(ctx workflow.Context, shard activities.CreateInput, created *activities.CreateResult) error {
	options := d.creationOptions(ctx, "create chaos pods")
	if d.Targets <= localTargetLimit {
		return d.executeLocalFirst(ctx, options, a.CreateChaosPods, shard, created)
	}
	return workflow.ExecuteActivity(options, a.CreateChaosPods, shard).Get(ctx, created)
}

// watchInjection follows the injection in the background. A new watch ends the one
// before, unless that one lingers: it sees what changes. versions are the versions of all
// shards' records; nil if they are not known.
func (d *disruption) watchInjection(ctx workflow.Context, versions []string) {
	if d.lingering() {
		d.unwatched = true
		return
	}
	d.unwatched, d.Lingers = false, d.churns(ctx)
	if d.stopWatch != nil {
		d.stopWatch()
	}
	outer := ctx
	ctx, d.stopWatch = workflow.WithCancel(ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		var seen activities.InjectionProgress
		in := activities.AwaitInput{Disruption: d.ref, Announce: d.Unannounced, AnnounceRun: d.UnannouncedRun, Versions: versions, Chosen: d.unreported}
		if d.Lingers {
			in.Linger = lingering
		}
		err := workflow.ExecuteActivity(d.watchOptions(ctx, "watch the injection, and record events on the targets"), a.AwaitInjection, in).Get(ctx, &seen)
		if ctx.Err() != nil {
			return // a new watch has begun, or the disruption ends
		}
		d.stopWatch = nil
		if err == nil && d.unwatched && (seen.Run < d.Runs-1 || seen.Total != d.Targets) {
			d.watchInjection(outer, nil) // it ended before it saw all that changed
			return
		}
		d.Lingers, d.Unannounced, d.unreported = false, nil, nil
		if err != nil {
			d.fail(ctx, err)
			return
		}
		d.noteInjected(seen.Total > 0)
		d.publishPhase(ctx, d.idlePhase())
		d.notifyInjected(ctx)
		if seen.Unproven > 0 {
			d.awaitEffects(outer)
		}
	})
}

// churns is true of a disruption whose targets come and go.
func (d *disruption) churns(ctx workflow.Context) bool {
	return d.Injected && !d.Plan.Static && d.Runs >= churnRuns && !d.operates() && d.Plan.Kinds.By() == v1beta1.ByInjector &&
		flow.HasChange(ctx, changeChurnTogether)
}

// lingering is true while a watch follows later choices of targets.
func (d *disruption) lingering() bool { return d.Lingers && d.stopWatch != nil }

// noteInjected notes that all targets are injected. The note is never withdrawn.
func (d *disruption) noteInjected(all bool) {
	d.Injected = d.Injected || all
	if d.Steady != nil {
		d.Steady.Injected = d.Steady.Injected || all
	}
}

// awaitEffects waits in the background until every injector reports that its fault acts.
// A call while one is running restarts it. Older workers reported no effect, and older
// workflows received no count of chaos pods that are not ready: this needs no version.
func (d *disruption) awaitEffects(ctx workflow.Context) {
	if d.stopEffects != nil {
		d.stopEffects()
	}
	ctx, d.stopEffects = workflow.WithCancel(ctx)
	d.Unproven = true
	workflow.Go(ctx, func(ctx workflow.Context) {
		err := workflow.ExecuteActivity(d.effectOptions(ctx), a.AwaitEffects, d.ref).Get(ctx, nil)
		if ctx.Err() != nil {
			return // restarted, or the disruption ends
		}
		d.stopEffects, d.Unproven = nil, false
		if err != nil {
			workflow.GetLogger(ctx).Warn("the effect of the fault cannot be measured", "error", err)
		}
	})
}
