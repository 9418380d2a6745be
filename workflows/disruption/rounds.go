package disruption

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/clean"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/flow"
)

// rounds are rounds of cleaning.
type rounds struct {
	*disruption
	// last is the input of the last round.
	last clean.Input
	// allShards is true when every chaos pod with our UID has to be cleaned, whether this
	// workflow knows its shard or not.
	allShards bool
	// fewEnded is true when the last observation was of so little that it is cleaned within
	// the workflow's task.
	fewEnded bool
}

// clean cleans shard by shard, several at once. onlyEnded spares the chaos pods
// that still disrupt a live target, and shards that the observation seen does not name.
// As long as a shard waits, the others are cleaned again when more chaos pods have ended
// than in that observation. A decision counts for one round. If the history gets too long
// for all shards, the next run continues the round.
func (r *rounds) clean(ctx workflow.Context, onlyEnded bool, seen *contract.Observation) (all clean.Result, lost int) {
	shards, slots := r.shards(), workflow.NewSemaphore(ctx, parallelShards)
	named := shards
	if onlyEnded && !r.leftToClean() {
		named = r.namedShards(ctx, shards, seen)
	}
	from := r.roundBegins(onlyEnded)
	if *from > 0 {
		named = slices.DeleteFunc(slices.Clone(shards), func(number int) bool { return number < *from })
		all.Left, all.Remaining = slices.Clone(r.Left), r.Remaining // of the shards before
	}
	part := &roundPart{retry: r.Retry, release: r.Release, releaseUntil: r.ReleaseUntil}
	r.last = r.nextRound(onlyEnded)
	r.Retry, r.Release, r.ReleaseUntil, *from = nil, nil, nil, 0
	busy := len(named)
	together(ctx, shards, func(ctx workflow.Context, number int) {
		seen, in := seen, r.last
		in.Shard = chaospod.Shard{Disruption: r.ref, Number: number}
		var before, cleaned clean.Result
		again := slices.Contains(named, number) || onlyEnded && r.awaitMoreEnded(ctx, number, &seen, &busy)
		for ; again; again = onlyEnded && r.awaitMoreEnded(ctx, number, &seen, &busy) {
			done := false
			inSlot(ctx, slots, func() {
				if done = part.may(ctx, number); done {
					cleaned = r.cleanShard(ctx, in)
				}
			})
			busy--
			if !done {
				return
			}
			cleaned.Left = keepFailed(before.Left, cleaned.Left)
			all.Remaining += cleaned.Remaining - before.Remaining
			all.Left = merge(without(all.Left, before.Left), cleaned.Left)
			r.UnverifiedNodes = slices.Compact(slices.Sorted(slices.Values(append(r.UnverifiedNodes, cleaned.UnverifiedNodes...))))
			r.Effects = append(r.Effects, cleaned.Effects...)
			r.Effects = r.Effects[:min(len(r.Effects), flow.MaxNamed)]
			lost += cleaned.Lost
			before, in = cleaned, onceMore(in, cleaned.Left)
		}
	})
	r.keepRest(part, onlyEnded, seen)
	return all, lost
}

// roundBegins is the shard with which a round begins.
func (c *Cleaning) roundBegins(onlyEnded bool) *int {
	if onlyEnded {
		return &c.EndedFrom
	}
	return &c.CleanFrom
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
func (r *rounds) keepRest(part *roundPart, onlyEnded bool, seen *contract.Observation) {
	if len(part.rest) == 0 {
		return
	}
	r.newRunDue, *r.roundBegins(onlyEnded) = true, slices.Min(part.rest)
	r.Retry, r.Release, r.ReleaseUntil = part.retry, part.release, part.releaseUntil
	if !onlyEnded || r.Observed != nil {
		return
	}
	if r.Observed = seen; seen == nil {
		r.Observed = &contract.Observation{Ended: 1} // nothing was observed: all shards are checked
	}
}

// namedShards are the shards that the observation names; all shards if it names none that
// this workflow made.
func (r *rounds) namedShards(ctx workflow.Context, shards []int, seen *contract.Observation) []int {
	var named []int
	for _, number := range shards {
		if r.names(ctx, seen, number) {
			named = append(named, number)
		}
	}
	if len(named) == 0 {
		return shards
	}
	return named
}

func (r *rounds) names(ctx workflow.Context, seen *contract.Observation, shard int) bool {
	return seen.Names(shard) || !flow.HasChange(ctx, changeNamedShards)
}

// cleanShard cleans one shard. While the API server does not answer, it keeps trying: no
// person can help, and no cleaner has failed.
func (r *rounds) cleanShard(ctx workflow.Context, in clean.Input) (cleaned clean.Result) {
	first, done := r.cleanLocally(ctx, in)
	if done {
		return first
	}
	defer func() {
		cleaned.Lost += first.Lost
		cleaned.UnverifiedNodes = append(cleaned.UnverifiedNodes, first.UnverifiedNodes...)
		cleaned.Effects = append(first.Effects, cleaned.Effects...)
	}()
	var err error
	for unreachable := true; unreachable; unreachable = errorType(err) == clean.ErrorUnreachable {
		in.ResultLost = r.ResultLost
		err = workflow.ExecuteActivity(cleaningOptions(ctx, in.OnlyEnded), a.CleanChaosPods, in).Get(ctx, &cleaned)
		if err == nil {
			return cleaned
		}
		r.ResultLost = true // it may have finalized some chaos pods before it failed
		if in.OnlyEnded && ctx.Err() != nil {
			return clean.Result{} // the disruption ends, and everything is cleaned next
		}
	}
	return clean.Result{Remaining: 1, Left: []chaospod.LeftPod{{
		Pod: fmt.Sprintf("all of shard %d", in.Shard.Number), Outcome: chaospod.Failed, Why: flow.Cause(err),
	}}}
}

// cleanLocally cleans within the workflow's task, if little has ended of a disruption
// whose targets come and go. done is false when an activity has to clean the rest.
func (r *rounds) cleanLocally(ctx workflow.Context, in clean.Input) (cleaned clean.Result, done bool) {
	if !in.OnlyEnded || !r.fewEnded || len(r.Left) > 0 || !r.injection.churns(ctx) {
		return clean.Result{}, false
	}
	in.Patience, in.ResultLost = localPatience, r.ResultLost
	free, _ := workflow.NewDisconnectedContext(ctx)
	err := workflow.ExecuteLocalActivity(localOptions(free, cleaningOptions(ctx, true)), a.CleanChaosPods, in).Get(free, &cleaned)
	if err != nil {
		r.ResultLost = true // it may have finalized some chaos pods before it failed
		return clean.Result{}, false
	}
	return cleaned, cleaned.Remaining == 0
}

// awaitMoreEnded waits, for a shard that is clean, until more of its chaos pods have
// ended or more of its targets are lost than at its last cleaning. It then counts the
// shard as busy again. false means that no shard is busy any more, or that the disruption
// ends.
func (r *rounds) awaitMoreEnded(ctx workflow.Context, number int, seen **contract.Observation, busy *int) bool {
	for {
		err := workflow.Await(ctx, func() bool { return *busy == 0 || r.Observed != nil && r.Observed != *seen })
		if err != nil || *busy == 0 {
			return false
		}
		more := r.Observed.MoreEnded(*seen) && r.names(ctx, r.Observed, number)
		*seen = r.Observed
		if more && flow.HasChange(ctx, changeEndedMeanwhile) {
			*busy++
			return true
		}
	}
}

// onceMore is the input for the same round again: a person's decision has counted, and no
// cleaner retries a chaos pod that one has just failed on.
func onceMore(in clean.Input, left []chaospod.LeftPod) clean.Input {
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

// shards are the shards that this workflow made. It is AllShards, which is every
// chaos pod with our UID, when these shards are not known or not all.
func (r *rounds) shards() []int {
	if r.Plan.CleanOnly != "" || r.allShards || r.Plan.Rejected != "" {
		return []int{chaospod.AllShards}
	}
	return r.shardNumbers()
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
