package disruption

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/activities"
	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/activities/verify"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/flow"
)

// clean cleans up all targets, concludes the disruption and finalizes it. false means
// that a person must decide about what is left (rules 44-49). Left keeps the result of
// earlier rounds until this round has a newer one, so that a person who has just read it
// may decide at any time.
func (d *disruption) clean(ctx workflow.Context) bool {
	d.publishPhase(ctx, v1beta1.PhaseCleaning)
	status := d.reportCleaning(ctx)
	for range cleaningRounds {
		left, _ := d.cleanShards(ctx, false, nil)
		d.updateLeft(left)
		if d.newRunDue {
			status.slow = true
			status.wait(ctx)
			return false // shards are left to the next run
		}
		if left.Remaining == 0 {
			status.over = len(d.UnverifiedNodes) == 0
			status.slow = !status.over
			status.wait(ctx)
			d.readInjected(ctx)
			d.conclude(ctx)
			d.returnTargets(ctx)
			d.awaitRecovery(ctx)
			d.awaitLastWord(ctx)
			d.awaitSteadyWrites(ctx)
			if d.finalize(ctx) {
				return true
			}
			continue // a chaos pod with our UID that is in no shard we know, or was created late
		}
		d.endOperations(ctx, false)
		if d.failed() {
			break // waiting longer changes nothing
		}
	}
	status.slow = true
	if !d.failed() {
		for i := range d.Left {
			d.Left[i].Tries = cleanerTries // a cleaner cannot help until the chaos pod has ended
		}
	}
	status.wait(ctx)
	d.newRunDue = workflow.GetInfo(ctx).GetContinueAsNewSuggested()
	return false
}

// cleaningStatus is the report of phase Cleaning, which is written while the cleaning
// runs.
type cleaningStatus struct {
	// over is true when nothing is left to do, slow when the cleaning takes long.
	over, slow bool
	reported   workflow.WaitGroup
}

func (s *cleaningStatus) wait(ctx workflow.Context) { s.reported.Wait(ctx) }

// reportCleaning reports phase Cleaning in the background. It does so at once, but for a
// deleted disruption only if the cleaning is slow.
func (d *disruption) reportCleaning(ctx workflow.Context) *cleaningStatus {
	s := &cleaningStatus{reported: workflow.NewWaitGroup(ctx)}
	if d.Plan.Rejected != "" {
		return s
	}
	s.reported.Add(1)
	workflow.Go(ctx, func(ctx workflow.Context) {
		defer s.reported.Done()
		if d.Ending == v1beta1.EndingDeleted && d.Rounds == 0 { // its object shows the deletion
			_, _ = flow.AwaitFor(ctx, cleaningStatusDelay, "show in status that the clean-up runs", func() bool { return s.over || s.slow })
		}
		if !s.over {
			d.report(ctx, status.Report{Phase: v1beta1.PhaseCleaning, Ending: d.Ending, Round: d.Rounds})
		}
	})
	return s
}

// readInjected reads from status whether all targets were injected, if the watch of the
// injection has not answered that.
func (d *disruption) readInjected(ctx workflow.Context) {
	if d.Injected || d.Shards == 0 || d.Plan.CleanOnly != "" || d.waits() ||
		!flow.HasChange(ctx, changeInjectedRead) {
		return
	}
	var injected bool
	if err := d.executeLocalFirst(ctx, flow.RequiredOptions(ctx, "read whether all targets were injected"), a.WasInjected, d.ref, &injected); err != nil {
		workflow.GetLogger(ctx).Warn("it is not known whether all targets were injected", "error", err)
		return
	}
	d.noteInjected(injected)
}

// conclude completes the facts for the last status: it searches the nodes on which a
// chaos pod ended without a search for what it may have left.
func (d *disruption) conclude(ctx workflow.Context) {
	if len(d.UnverifiedNodes) == 0 {
		return
	}
	var verified verify.Result
	in := verify.Input{Disruption: d.ref, Nodes: d.UnverifiedNodes, Released: d.ReleasedPods > 0}
	if err := workflow.ExecuteActivity(flow.SearchOptions(ctx, "search nodes for what may be left"), a.VerifyNodes, in).Get(ctx, &verified); err != nil {
		verified.Left = []string{fmt.Sprintf("%s could not be searched: %s", flow.Number(len(d.UnverifiedNodes), "node"), flow.Cause(err))}
	}
	d.NotVerified = verified.Left
}

// finalize writes the last status, deletes the records and removes the finalizer, if
// a live list finds no chaos pod. false means that something is left.
func (d *disruption) finalize(ctx workflow.Context) bool {
	in := status.FinishInput{
		Disruption: d.ref, Rejected: d.Plan.Rejected != "", Ending: d.Ending, Resumes: d.Resumes, ReleasedPods: d.ReleasedPods, NotVerified: d.NotVerified,
		Effects: d.Effects, SteadyState: d.verdict(ctx), Operated: d.operates(), NotInService: d.Operations.NotInService, NotEnded: d.Operations.NotEnded,
	}
	var left int
	if err := d.executeLocalFirst(ctx, flow.RequiredOptions(ctx, "verify that nothing is left and remove the finalizer"), a.Finish, in, &left); err != nil {
		d.Left = []chaospod.LeftPod{{Target: d.ref.Name, Outcome: chaospod.Failed, Why: "the finalizer of the Disruption could not be removed: " + flow.Cause(err)}}
		d.Remaining = 1
		return false
	}
	if left > 0 {
		d.allShards = true
		return false
	}
	phase := v1beta1.PhaseFinished
	if d.Plan.Rejected != "" {
		phase = v1beta1.PhaseRejected
	}
	d.publishPhase(ctx, phase)
	return true
}

// cleanShards cleans shard by shard, several at once. onlyEnded spares the chaos pods
// that still disrupt a live target, and shards that the observation seen does not name.
// As long as a shard waits, the others are cleaned again when more chaos pods have ended
// than in that observation. A decision counts for one round. If the history gets too long
// for all shards, the next run continues the round.
func (d *disruption) cleanShards(ctx workflow.Context, onlyEnded bool, seen *contract.Observation) (all activities.CleanResult, lost int) {
	shards, slots := d.shardsToClean(), workflow.NewSemaphore(ctx, parallelShards)
	named := shards
	if onlyEnded && !d.leftToClean() {
		named = d.namedShards(ctx, shards, seen)
	}
	from := d.roundBegins(onlyEnded)
	if *from > 0 {
		named = slices.DeleteFunc(slices.Clone(shards), func(number int) bool { return number < *from })
		all.Left, all.Remaining = slices.Clone(d.Left), d.Remaining // of the shards before
	}
	part := &roundPart{retry: d.Retry, release: d.Release, releaseUntil: d.ReleaseUntil}
	d.round = d.nextRound(onlyEnded)
	d.Retry, d.Release, d.ReleaseUntil, *from = nil, nil, nil, 0
	busy := len(named)
	together(ctx, shards, func(ctx workflow.Context, number int) {
		seen, in := seen, d.round
		in.Shard = chaospod.Shard{Disruption: d.ref, Number: number}
		var before, cleaned activities.CleanResult
		again := slices.Contains(named, number) || onlyEnded && d.awaitMoreEnded(ctx, number, &seen, &busy)
		for ; again; again = onlyEnded && d.awaitMoreEnded(ctx, number, &seen, &busy) {
			done := false
			inSlot(ctx, slots, func() {
				if done = part.may(ctx, number); done {
					cleaned = d.cleanShard(ctx, in)
				}
			})
			busy--
			if !done {
				return
			}
			cleaned.Left = keepFailed(before.Left, cleaned.Left)
			all.Remaining += cleaned.Remaining - before.Remaining
			all.Left = merge(without(all.Left, before.Left), cleaned.Left)
			d.UnverifiedNodes = slices.Compact(slices.Sorted(slices.Values(append(d.UnverifiedNodes, cleaned.UnverifiedNodes...))))
			d.Effects = append(d.Effects, cleaned.Effects...)
			d.Effects = d.Effects[:min(len(d.Effects), flow.MaxNamed)]
			lost += cleaned.Lost
			before, in = cleaned, onceMore(in, cleaned.Left)
		}
	})
	d.keepRest(part, onlyEnded, seen)
	return all, lost
}

// roundBegins is the shard with which a round begins.
func (d *disruption) roundBegins(onlyEnded bool) *int {
	if onlyEnded {
		return &d.EndedFrom
	}
	return &d.CleanFrom
}

// roundPart is the part of a round of cleaning that one run does.
type roundPart struct {
	cleaned int
	// rest are the shards that are left to the next run.
	rest []int
	// The decisions of people for this round.
	retry, release []string
	releaseUntil   *time.Time
}

// may is true when this run cleans the shard. Each run cleans at least shardsPerRun
// shards, so that the round comes to its end.
func (p *roundPart) may(ctx workflow.Context, number int) bool {
	if p.cleaned >= shardsPerRun && workflow.GetInfo(ctx).GetContinueAsNewSuggested() &&
		flow.HasChange(ctx, changeRoundInParts) {
		p.rest = append(p.rest, number)
		return false
	}
	p.cleaned++
	return true
}

// keepRest notes what the next run has to do of a round.
func (d *disruption) keepRest(part *roundPart, onlyEnded bool, seen *contract.Observation) {
	if len(part.rest) == 0 {
		return
	}
	d.newRunDue, *d.roundBegins(onlyEnded) = true, slices.Min(part.rest)
	d.Retry, d.Release, d.ReleaseUntil = part.retry, part.release, part.releaseUntil
	if !onlyEnded || d.Observed != nil {
		return
	}
	if d.Observed = seen; seen == nil {
		d.Observed = &contract.Observation{Ended: 1} // nothing was observed: all shards are checked
	}
}

// leftToClean is true when earlier rounds left something, or a person decided about it:
// then any shard may have something to clean.
func (d *disruption) leftToClean() bool {
	return len(d.Left) > 0 || d.Retry != nil || d.Release != nil || d.ReleaseUntil != nil
}

// namedShards are the shards that the observation names; all shards if it names none that
// this workflow made.
func (d *disruption) namedShards(ctx workflow.Context, shards []int, seen *contract.Observation) []int {
	var named []int
	for _, number := range shards {
		if d.names(ctx, seen, number) {
			named = append(named, number)
		}
	}
	if len(named) == 0 {
		return shards
	}
	return named
}

func (d *disruption) names(ctx workflow.Context, seen *contract.Observation, shard int) bool {
	return seen.Names(shard) || !flow.HasChange(ctx, changeNamedShards)
}

// cleanShard cleans one shard. While the API server does not answer, it keeps trying: no
// person can help, and no cleaner has failed.
func (d *disruption) cleanShard(ctx workflow.Context, in activities.CleanInput) (cleaned activities.CleanResult) {
	first, done := d.cleanLocally(ctx, in)
	if done {
		return first
	}
	defer func() {
		cleaned.Lost += first.Lost
		cleaned.UnverifiedNodes = append(cleaned.UnverifiedNodes, first.UnverifiedNodes...)
		cleaned.Effects = append(first.Effects, cleaned.Effects...)
	}()
	var err error
	for unreachable := true; unreachable; unreachable = errorType(err) == activities.ErrorUnreachable {
		in.ResultLost = d.ResultLost
		err = workflow.ExecuteActivity(cleaningOptions(ctx, in.OnlyEnded), a.CleanChaosPods, in).Get(ctx, &cleaned)
		if err == nil {
			return cleaned
		}
		d.ResultLost = true // it may have finalized some chaos pods before it failed
		if in.OnlyEnded && ctx.Err() != nil {
			return activities.CleanResult{} // the disruption ends, and everything is cleaned next
		}
	}
	return activities.CleanResult{Remaining: 1, Left: []chaospod.LeftPod{{
		Pod: fmt.Sprintf("all of shard %d", in.Shard.Number), Outcome: chaospod.Failed, Why: flow.Cause(err),
	}}}
}

// cleanLocally cleans within the workflow's task, if little has ended of a disruption
// whose targets come and go. done is false when an activity has to clean the rest.
func (d *disruption) cleanLocally(ctx workflow.Context, in activities.CleanInput) (cleaned activities.CleanResult, done bool) {
	if !in.OnlyEnded || !d.fewEnded || len(d.Left) > 0 || !d.churns(ctx) {
		return activities.CleanResult{}, false
	}
	in.Patience, in.ResultLost = localPatience, d.ResultLost
	free, _ := workflow.NewDisconnectedContext(ctx)
	err := workflow.ExecuteLocalActivity(localOptions(free, cleaningOptions(ctx, true)), a.CleanChaosPods, in).Get(free, &cleaned)
	if err != nil {
		d.ResultLost = true // it may have finalized some chaos pods before it failed
		return activities.CleanResult{}, false
	}
	return cleaned, cleaned.Remaining == 0
}

// awaitMoreEnded waits, for a shard that is clean, until more of its chaos pods have
// ended or more of its targets are lost than at its last cleaning. It then counts the
// shard as busy again. false means that no shard is busy any more, or that the disruption
// ends.
func (d *disruption) awaitMoreEnded(ctx workflow.Context, number int, seen **contract.Observation, busy *int) bool {
	for {
		err := workflow.Await(ctx, func() bool { return *busy == 0 || d.Observed != nil && d.Observed != *seen })
		if err != nil || *busy == 0 {
			return false
		}
		more := d.Observed.MoreEnded(*seen) && d.names(ctx, d.Observed, number)
		*seen = d.Observed
		if more && flow.HasChange(ctx, changeEndedMeanwhile) {
			*busy++
			return true
		}
	}
}

// onceMore is the input for the same round again: a person's decision has counted, and no
// cleaner retries a chaos pod that one has just failed on.
func onceMore(in activities.CleanInput, left []chaospod.LeftPod) activities.CleanInput {
	in.Release, in.ReleaseUntil, in.Exhausted = nil, nil, slices.Clone(in.Exhausted)
	if len(in.Retry) > 0 {
		in.Retry = allTargets
	}
	for _, pod := range left {
		if pod.Outcome == chaospod.Failed && !slices.Contains(in.Exhausted, pod.ID()) {
			in.Exhausted = append(in.Exhausted, pod.ID())
		}
	}
	return in
}

// keepFailed keeps the reports about chaos pods that failed: a cleaning without a cleaner
// for them does not have the last cleaner's report.
func keepFailed(before, now []chaospod.LeftPod) []chaospod.LeftPod {
	for i, pod := range now {
		old := slices.IndexFunc(before, func(b chaospod.LeftPod) bool { return b.Pod == pod.Pod && b.Outcome == chaospod.Failed })
		if old >= 0 && pod.Outcome == chaospod.Failed {
			now[i] = before[old]
		}
	}
	return now
}

// without is all chaos pods except some.
func without(all, some []chaospod.LeftPod) []chaospod.LeftPod {
	return slices.DeleteFunc(all, func(pod chaospod.LeftPod) bool {
		return slices.ContainsFunc(some, func(one chaospod.LeftPod) bool { return one.Pod == pod.Pod })
	})
}

// shardsToClean are the shards that this workflow made. It is AllShards, which is every
// chaos pod with our UID, when these shards are not known or not all.
func (d *disruption) shardsToClean() []int {
	if d.Plan.CleanOnly != "" || d.allShards || d.Plan.Rejected != "" {
		return []int{chaospod.AllShards}
	}
	return d.shardNumbers()
}

// shardNumbers are the numbers of the shards that this workflow made.
func (d *disruption) shardNumbers() []int {
	numbers := make([]int, d.Shards)
	for i := range numbers {
		numbers[i] = i
	}
	return numbers
}

// merge puts failed chaos pods first, and keeps no more than a history should carry.
func merge(a, b []chaospod.LeftPod) []chaospod.LeftPod {
	var failed, waiting []chaospod.LeftPod
	for _, pods := range [][]chaospod.LeftPod{a, b} {
		for _, pod := range pods {
			if pod.Outcome == chaospod.Failed {
				failed = append(failed, pod)
			} else {
				waiting = append(waiting, pod)
			}
		}
	}
	all := append(failed, waiting...)
	return all[:min(len(all), flow.MaxNamed)]
}
