package disruption

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/activities/operate"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/flow"
)

// A disruption that participates in operations requests an operation on each of its
// targets. The bridge reports the progress of these operations. The disruption injects
// into targets whose operation has begun, and ends the operations when the targets are
// clean. Older plans have no Operations, and without them nothing here does anything: it
// needs no version.

// operates is true for a disruption that is an operation on its targets.
func (s *State) operates() bool { return s.Plan != nil && s.Plan.Operations != nil }

// askFor notes that operations on the targets of these shards have to be requested.
func (s *State) askFor(ctx workflow.Context, shards []int) {
	until := workflow.Now(ctx).Add(s.Plan.Operations.OperatingTimeout)
	for _, number := range shards {
		if !slices.ContainsFunc(s.Operations.Asked, func(asked AskedShard) bool { return asked.Number == number }) {
			s.Operations.Asked = append(s.Operations.Asked, AskedShard{number, until})
		}
	}
}

// shardsAsked are the shards whose targets the disruption waits for. The waiting time
// counts by shard, so targets that are chosen later get another shard.
func (s *State) shardsAsked() (numbers []int) {
	for _, shard := range s.Operations.Asked {
		numbers = append(numbers, shard.Number)
	}
	return numbers
}

// operate advances the operations on the targets that the disruption waits for, and
// injects into those whose operation has begun.
func (d *disruption) operate(ctx workflow.Context) {
	if len(d.Operations.Asked) == 0 || ctx.Err() != nil {
		return
	}
	in := operate.Input{Disruption: d.ref}
	for _, shard := range d.Operations.Asked {
		in.Shards = append(in.Shards, shard.Number)
		if !workflow.Now(ctx).Before(shard.Until) {
			in.Over = append(in.Over, shard.Number)
		}
	}
	var done operate.Result
	if err := d.executeLocalFirst(ctx, d.selectionOptions(ctx, "ask for targets, and see which are given"), a.OperateTargets, in, &done); err != nil {
		d.fail(ctx, err)
		return
	}
	if done.Stopped != "" {
		d.end(done.Stopped)
		return
	}
	d.Operations.Again = done.Again != ""
	d.Operations.Asked = slices.DeleteFunc(slices.Clone(d.Operations.Asked), func(s AskedShard) bool { return !slices.Contains(done.Waiting, s.Number) })
	if done.Lost > 0 {
		d.Targets -= done.Lost
		d.injection.watch(ctx, nil) // of the targets that are left
	}
	d.injection.createChaosPods(ctx, targets.Selection{Added: done.Given})
}

// askDelay is how long to wait for the driver at most: until a shard's time is over, or
// until an operation on a pod is requested again.
func (s *State) askDelay(ctx workflow.Context) time.Duration {
	delay := safetyPeriod
	for _, shard := range s.Operations.Asked {
		delay = min(delay, max(shard.Until.Sub(workflow.Now(ctx)), 0))
	}
	if s.Operations.Again {
		delay = min(delay, askAgainPeriod)
	}
	return delay
}

// endOperations ends the operations on clean targets while others are not clean: their
// drivers must not wait for the rest. A later call ends what this one could not.
func (d *disruption) endOperations(ctx workflow.Context, onlyEnded bool) {
	if !d.operates() {
		return
	}
	in := operate.EndInput{Disruption: d.ref, OnlyEnded: onlyEnded}
	if err := workflow.ExecuteActivity(interimOptions(ctx, "end the operations on clean targets"), a.EndOperations, in).Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Warn("operations on targets not ended yet", "error", err)
	}
}

// returnTargets ends all operations once everything is clean, and waits until the targets
// are in service again (rule L9). It waits for availableTimeout, also for pods that
// refuse the patch: the bridge ends the operations on these. If the object has to be
// removed at once, it waits only until no label of its operation is left.
func (d *disruption) returnTargets(ctx workflow.Context) {
	if !d.operates() {
		return
	}
	until := workflow.Now(ctx).Add(d.Plan.Operations.AvailableTimeout)
	for last := 0; ; {
		d.Observed = nil
		skip := d.skipsRecovery()
		in := operate.EndInput{Disruption: d.ref, Over: !workflow.Now(ctx).Before(until), Counts: true, SkipRecovery: skip}
		var ended operate.EndResult
		if err := d.executeLocalFirst(ctx, flow.RequiredOptions(ctx, "end the operations on the targets"), a.EndOperations, in, &ended); err != nil {
			d.Operations.NotInService = []string{flow.Cause(err)}
			return
		}
		d.Operations.NotInService = ended.Pods
		wait := until.Sub(workflow.Now(ctx))
		switch {
		case in.Over && ended.Again && last < lastTries:
			last, wait = last+1, lastTryPause
		case in.Over, ended.Left == 0 && (ended.Unavailable == 0 || skip):
			d.Operations.NotEnded = ended.Again
			return
		case ended.Again:
			wait = min(wait, askAgainPeriod)
		}
		d.showReturn(ctx)
		_, _ = flow.AwaitFor(ctx, wait, "wait until the targets are in service again",
			func() bool { return d.Observed != nil && !in.Over || !skip && d.skipsRecovery() })
	}
}

// showReturn reports phase Cleaning of a deleted disruption whose targets take long to be
// in service again. Until then no phase was reported, because the targets were clean at
// once.
func (d *disruption) showReturn(ctx workflow.Context) {
	if d.Operations.Shown || d.Ending != v1beta1.EndingDeleted || d.Rounds > 0 {
		return
	}
	if !flow.HasChange(ctx, changeReturnShown) {
		return
	}
	d.Operations.Shown = true
	d.report(ctx, status.Report{Phase: v1beta1.PhaseCleaning, Ending: d.Ending, Round: d.Rounds})
}

// holdDelay is how long the disruption waits for a change at most. It ends at the next
// automatic attempt, when a failed target may be retried, or when no place is kept any
// more for a pod with an operation of another operator. The worker that chooses then has
// a clock of its own: while it still keeps places, it is asked every second.
func (s *State) holdDelay(ctx workflow.Context) time.Duration {
	delay := min(s.nextTryDelay(), s.askDelay(ctx))
	if s.RetryAt != nil && s.mayTakeTargets() {
		delay = min(delay, max(s.RetryAt.Sub(workflow.Now(ctx)), time.Second))
	}
	if s.Kept == 0 || s.Plan.BusyUntil == nil {
		return delay
	}
	return min(delay, max(s.Plan.BusyUntil.Sub(workflow.Now(ctx)), time.Second))
}
