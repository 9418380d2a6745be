package workflows

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/activities"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// clean takes everything off, concludes the disruption and finalizes it. false
// means that a person must decide about what is left (rules 44-49). Left keeps
// what was left before until this round knows better, so that a person who has
// just read it may decide at any time.
func (d *disruption) clean(ctx workflow.Context) bool {
	d.publishPhase(ctx, v1beta1.PhaseCleaning)
	status := d.reportCleaning(ctx)
	for range cleaningRounds {
		left, _ := d.cleanShards(ctx, false)
		d.updateLeft(left)
		if left.Remaining == 0 {
			status.over = len(d.UnverifiedNodes) == 0
			status.slow = !status.over
			status.wait(ctx)
			d.conclude(ctx)
			d.giveBack(ctx)
			d.awaitRecovery(ctx)
			d.awaitLastWord(ctx)
			d.awaitTold(ctx)
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
			d.Left[i].Tries = cleanerTries // a cleaner cannot help while the chaos pod has not ended
		}
	}
	status.wait(ctx)
	d.newRunDue = workflow.GetInfo(ctx).GetContinueAsNewSuggested()
	return false
}

// cleaningStatus is the report of phase Cleaning, on its way beside the cleaning.
type cleaningStatus struct {
	// over is true when nothing is left to do, slow when the cleaning takes its time.
	over, slow bool
	reported   workflow.WaitGroup
}

func (s *cleaningStatus) wait(ctx workflow.Context) { s.reported.Wait(ctx) }

// reportCleaning reports phase Cleaning in the background: for a deleted
// disruption only if its cleaning is slow, at once for any other.
func (d *disruption) reportCleaning(ctx workflow.Context) *cleaningStatus {
	s := &cleaningStatus{reported: workflow.NewWaitGroup(ctx)}
	if d.Plan.Rejected != "" {
		return s
	}
	s.reported.Add(1)
	workflow.Go(ctx, func(ctx workflow.Context) {
		defer s.reported.Done()
		if d.Ending == v1beta1.EndingDeleted && d.Rounds == 0 { // its object says that it is deleted
			_, _ = awaitFor(ctx, cleaningStatusDelay, "tell that it is being cleaned", func() bool { return s.over || s.slow })
		}
		if !s.over {
			d.report(ctx, activities.Report{Phase: v1beta1.PhaseCleaning, Ending: d.Ending, Round: d.Rounds})
		}
	})
	return s
}

// conclude finds out all that the last status says of the disruption: it searches
// the nodes on which a chaos pod ended and nobody has searched for what it may
// have left.
func (d *disruption) conclude(ctx workflow.Context) {
	if len(d.UnverifiedNodes) == 0 {
		return
	}
	var verified activities.VerifyResult
	in := activities.VerifyInput{Disruption: d.ref, Nodes: d.UnverifiedNodes, Released: d.ReleasedPods > 0}
	if err := workflow.ExecuteActivity(searchOptions(ctx, "search nodes for what may be left"), a.VerifyNodes, in).Get(ctx, &verified); err != nil {
		verified.Left = []string{fmt.Sprintf("%s could not be searched: %s", number(len(d.UnverifiedNodes), "node"), cause(err))}
	}
	d.NotVerified = verified.Left
}

// finalize writes the last status, deletes the records and removes the finalizer, if
// a live list finds no chaos pod. false means that something is left.
func (d *disruption) finalize(ctx workflow.Context) bool {
	in := activities.FinishInput{
		Disruption: d.ref, Rejected: d.Plan.Rejected != "", Ending: d.Ending, Resumes: d.Resumes, ReleasedPods: d.ReleasedPods, NotVerified: d.NotVerified,
		Effects: d.Effects, SteadyState: d.verdict(ctx), Operated: d.operates(), NotInService: d.Operations.NotInService,
	}
	var left int
	if err := d.executeLocalFirst(ctx, requiredOptions(ctx, "verify that nothing is left and let go"), a.Finish, in, &left); err != nil {
		d.Left = []activities.LeftPod{{Target: d.ref.Name, Outcome: activities.Failed, Why: "the Disruption could not be let go: " + cause(err)}}
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

// cleanShards cleans shard by shard, several at once. onlyEnded spares the chaos
// pods that still disrupt a live target. A decision counts for one round.
func (d *disruption) cleanShards(ctx workflow.Context, onlyEnded bool) (all activities.CleanResult, lost int) {
	d.round = d.nextRound(onlyEnded)
	d.Retry, d.Release, d.ReleaseUntil = nil, nil, nil
	d.forEach(ctx, d.shardsToClean(), func(ctx workflow.Context, number int) {
		in := d.round
		in.Shard, in.ResultLost = activities.Shard{Disruption: d.ref, Number: number}, d.ResultLost
		var cleaned activities.CleanResult
		if err := workflow.ExecuteActivity(cleaningOptions(ctx, onlyEnded), a.CleanChaosPods, in).Get(ctx, &cleaned); err != nil {
			d.ResultLost = true // it may have finalized some chaos pods before it failed
			if onlyEnded && ctx.Err() != nil {
				return // the disruption ends, and everything is cleaned next
			}
			cleaned = activities.CleanResult{Remaining: 1, Left: []activities.LeftPod{{
				Pod: fmt.Sprintf("all of shard %d", number), Outcome: activities.Failed, Why: cause(err),
			}}}
		}
		all.Remaining += cleaned.Remaining
		all.Left = merge(all.Left, cleaned.Left)
		d.UnverifiedNodes = slices.Compact(slices.Sorted(slices.Values(append(d.UnverifiedNodes, cleaned.UnverifiedNodes...))))
		d.Effects = append(d.Effects, cleaned.Effects...)
		d.Effects = d.Effects[:min(len(d.Effects), maxNamed)]
		lost += cleaned.Lost
	})
	return all, lost
}

// shardsToClean are the shards that this workflow made, or AllShards, which is
// every chaos pod with our UID, when these are not known or not all.
func (d *disruption) shardsToClean() []int {
	if d.Plan.CleanOnly != "" || d.allShards || d.Plan.Rejected != "" {
		return []int{activities.AllShards}
	}
	return d.shardNumbers()
}

// shardNumbers are those of the shards that this workflow made.
func (d *disruption) shardNumbers() []int {
	numbers := make([]int, d.Shards)
	for i := range numbers {
		numbers[i] = i
	}
	return numbers
}

// merge keeps the failed ones in front, and not more than a history should carry.
func merge(a, b []activities.LeftPod) []activities.LeftPod {
	var failed, waiting []activities.LeftPod
	for _, pods := range [][]activities.LeftPod{a, b} {
		for _, pod := range pods {
			if pod.Outcome == activities.Failed {
				failed = append(failed, pod)
			} else {
				waiting = append(waiting, pod)
			}
		}
	}
	all := append(failed, waiting...)
	return all[:min(len(all), maxNamed)]
}
