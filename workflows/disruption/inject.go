package disruption

import (
	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/inject"
	"github.com/squall-chaos/squall/activities/replace"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/flow"
)

// injection is the injection of the targets, and its watch.
type injection struct {
	*disruption
	// stopWatch cancels the activity that watches the injection, stopEffects the one that
	// waits for effects.
	stopWatch, stopEffects workflow.CancelFunc
	// unwatched is true when targets were chosen while a watch lingered, which may have
	// ended before it saw them.
	unwatched bool
	// unreported is the first choice of targets, until AwaitInjection writes it into status.
	unreported *targets.Selection
}

// begin injects into the targets that were chosen, beside the known shards, once the
// steady state permits it.
func (i *injection) begin(ctx workflow.Context, known int, chosen targets.Selection) {
	if !i.guard.mayInject(ctx, &chosen) {
		return
	}
	if !i.lingering() {
		i.publishPhase(ctx, v1beta1.PhaseInjecting)
	}
	i.inject(ctx, known, chosen)
}

// inject starts the injection into the targets that were just chosen, beside the known
// shards. Chaos pods inject, or the worker disrupts the targets if the kind is one of the
// worker's. Histories of older workers have no such kind: this needs no version.
func (i *injection) inject(ctx workflow.Context, known int, chosen targets.Selection) {
	if i.Plan.Kinds.By() == v1beta1.ByWorker {
		i.replacePods(ctx)
		return
	}
	if i.operates() {
		i.askFor(ctx, chosen.Added)
		i.watch(ctx, nil)
		i.operate(ctx)
		return
	}
	var all []string
	if known == 0 {
		all = chosen.Versions
	}
	i.watch(ctx, all)
	i.createChaosPods(ctx, chosen)
}

// replacePods makes the worker replace all targets that are not replaced yet.
func (i *injection) replacePods(ctx workflow.Context) {
	var done replace.Result
	if err := workflow.ExecuteActivity(i.replacementOptions(ctx), a.ReplacePods, i.ref).Get(ctx, &done); err != nil {
		i.fail(ctx, err)
		return
	}
	if done.Stopped != "" {
		i.end(done.Stopped)
	}
	i.Targets -= done.Lost
	i.noteInjected(done.Total > 0 && done.Replaced == done.Total)
	i.Unannounced = nil
	i.publishPhase(ctx, i.idlePhase())
	i.notifier.injected(ctx)
}

// createChaosPods creates the chaos pods of the added shards, several at once.
func (i *injection) createChaosPods(ctx workflow.Context, chosen targets.Selection) {
	forEach(ctx, chosen.Added, func(ctx workflow.Context, number int) {
		shard := inject.CreateInput{Shard: chaospod.Shard{Disruption: i.ref, Number: number}, Version: chosen.VersionOf(number), Run: chosen.Run, Operated: i.operates()}
		var created inject.CreateResult
		if err := i.executeCreation(ctx, shard, &created); err != nil {
			i.fail(ctx, err)
		}
		if created.Stopped != "" {
			i.end(created.Stopped)
		}
	})
}

// executeCreation runs CreateChaosPods: for few targets within the workflow's task, for
// more as an activity. The end of the disruption cancels that activity.
func (i *injection) executeCreation(ctx workflow.Context, shard inject.CreateInput, created *inject.CreateResult) error {
	options := i.creationOptions(ctx, "create chaos pods")
	if i.Targets <= localTargetLimit {
		return i.executeLocalFirst(ctx, options, a.CreateChaosPods, shard, created)
	}
	return workflow.ExecuteActivity(options, a.CreateChaosPods, shard).Get(ctx, created)
}

// watch follows the injection in the background. A new watch ends the one
// before, unless that one lingers: it sees what changes. versions are the versions of all
// shards' records; nil if they are not known.
func (i *injection) watch(ctx workflow.Context, versions []string) {
	if i.lingering() {
		i.unwatched = true
		return
	}
	i.unwatched, i.Lingers = false, i.churns(ctx)
	if i.stopWatch != nil {
		i.stopWatch()
	}
	outer := ctx
	ctx, i.stopWatch = workflow.WithCancel(ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		var seen inject.InjectionProgress
		in := inject.AwaitInput{Disruption: i.ref, Announce: i.Unannounced, AnnounceRun: i.UnannouncedRun, Versions: versions, Chosen: i.unreported}
		if i.Lingers {
			in.Linger = lingering
		}
		err := workflow.ExecuteActivity(i.watchOptions(ctx, "watch the injection, and record events on the targets"), a.AwaitInjection, in).Get(ctx, &seen)
		if ctx.Err() != nil {
			return // a new watch has begun, or the disruption ends
		}
		i.stopWatch = nil
		if err == nil && i.unwatched && (seen.Run < i.Runs-1 || seen.Total != i.Targets) {
			i.watch(outer, nil) // it ended before it saw all that changed
			return
		}
		i.Lingers, i.Unannounced, i.unreported = false, nil, nil
		if err != nil {
			i.fail(ctx, err)
			return
		}
		i.noteInjected(seen.Total > 0)
		i.publishPhase(ctx, i.idlePhase())
		i.notifier.injected(ctx)
		if seen.Unproven > 0 {
			i.awaitEffects(outer)
		}
	})
}

// churns is true of a disruption whose targets come and go.
func (i *injection) churns(ctx workflow.Context) bool {
	return i.Injected && !i.Plan.Static && i.Runs >= churnRuns && !i.operates() && i.Plan.Kinds.By() == v1beta1.ByInjector &&
		flow.HasChange(ctx, changeChurnTogether)
}

// lingering is true while a watch follows later choices of targets.
func (i *injection) lingering() bool { return i.Lingers && i.stopWatch != nil }

// noteInjected notes that all targets are injected. The note is never withdrawn.
func (s *State) noteInjected(all bool) {
	s.Injected = s.Injected || all
	if s.Steady != nil {
		s.Steady.Injected = s.Steady.Injected || all
	}
}

// awaitEffects waits in the background until every injector reports that its fault acts.
// A call while one is running restarts it. Older workers reported no effect, and older
// workflows received no count of chaos pods that are not ready: this needs no version.
func (i *injection) awaitEffects(ctx workflow.Context) {
	if i.stopEffects != nil {
		i.stopEffects()
	}
	ctx, i.stopEffects = workflow.WithCancel(ctx)
	i.Unproven = true
	workflow.Go(ctx, func(ctx workflow.Context) {
		err := workflow.ExecuteActivity(i.effectOptions(ctx), a.AwaitEffects, i.ref).Get(ctx, nil)
		if ctx.Err() != nil {
			return // restarted, or the disruption ends
		}
		i.stopEffects, i.Unproven = nil, false
		if err != nil {
			workflow.GetLogger(ctx).Warn("the effect of the fault cannot be measured", "error", err)
		}
	})
}
