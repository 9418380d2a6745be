package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/activities"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// clean takes everything off and finishes the disruption. false means that a
// person must decide about what is left (rules 44-49). What was left
// before stays known until the outcome is: a person who just read of it may
// decide at any time.
func (d *disruption) clean(ctx workflow.Context) bool {
	d.enter(ctx, v1beta1.PhaseCleaning)
	var over, slow bool // nothing is left to be done; what is left takes its time
	told := workflow.NewWaitGroup(ctx)
	if d.Plan.Rejected == "" {
		told.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer told.Done()
			if d.Ending == activities.EndingDeleted && d.Rounds == 0 { // everybody sees that it is deleted
				_, _ = awaitFor(ctx, moment, "tell that it is being cleaned", func() bool { return over || slow })
			}
			if !over {
				d.report(ctx, activities.Report{Phase: v1beta1.PhaseCleaning, Ending: d.Ending, Round: d.Rounds})
			}
		})
	}
	for range cleaningRounds {
		left, _ := d.sweep(ctx, false)
		d.noteLeft(left)
		if left.Remaining == 0 {
			over = len(d.Unproved) == 0
			slow = !over
			told.Wait(ctx)
			if d.finish(ctx) {
				return true
			}
			continue // somebody else's chaos pods with our UID, or a late one
		}
		if d.failed() {
			break // waiting longer changes nothing
		}
	}
	slow = true
	if !d.failed() {
		d.Tries = cleanerTries // a cleaner is no help to one that does not end
	}
	told.Wait(ctx)
	d.renews = workflow.GetInfo(ctx).GetContinueAsNewSuggested()
	return false
}

// verify searches the nodes on which something ended without a proof that it
// left nothing there.
func (d *disruption) verify(ctx workflow.Context) {
	if len(d.Unproved) == 0 {
		return
	}
	var verified activities.VerifyResult
	in := activities.VerifyInput{Disruption: d.ref, Nodes: d.Unproved, Released: d.LetGo > 0}
	if err := workflow.ExecuteActivity(searching(ctx, "search nodes for what may be left"), a.VerifyNodes, in).Get(ctx, &verified); err != nil {
		verified.Left = []string{fmt.Sprintf("%s could not be searched: %s", number(len(d.Unproved), "node"), cause(err))}
	}
	d.NotVerified = verified.Left
}

// finish lets the Disruption go, if really nothing is left.
func (d *disruption) finish(ctx workflow.Context) bool {
	d.verify(ctx)
	ended := activities.FinishInput{
		Disruption: d.ref, Rejected: d.Plan.Rejected != "", Ending: d.Ending, Resumes: d.Resumes, ReleasedPods: d.LetGo, NotVerified: d.NotVerified,
	}
	var left int
	if err := d.soon(ctx, short(ctx, "verify that nothing is left and let go"), a.Finish, ended, &left); err != nil {
		d.Left = []activities.LeftPod{{Target: d.ref.Name, Outcome: activities.Failed, Why: "the Disruption could not be let go: " + cause(err)}}
		d.Remaining = 1
		return false
	}
	if left > 0 {
		d.everywhere = true
		return false
	}
	phase := v1beta1.PhaseFinished
	if d.Plan.Rejected != "" {
		phase = v1beta1.PhaseRejected
	}
	d.enter(ctx, phase)
	return true
}

// sweep cleans shard by shard, several at once. onlyEnded leaves alone what
// still disturbs a live target. Each decision counts for one sweep.
func (d *disruption) sweep(ctx workflow.Context, onlyEnded bool) (all activities.CleanResult, lost int) {
	retry, release := d.Retry, d.Release
	if d.Tries < cleanerTries {
		retry = everything
	}
	d.Retry, d.Release, d.retried = nil, nil, retry != nil
	d.forEach(ctx, d.sweepShards(), func(ctx workflow.Context, number int) {
		in := activities.CleanInput{
			Shard: activities.Shard{Disruption: d.ref, Number: number}, OnlyEnded: onlyEnded,
			Retry: retry, Release: release, ResultLost: d.Doubted, Patience: cleaningPatience,
		}
		var cleaned activities.CleanResult
		if err := workflow.ExecuteActivity(cleaning(ctx, onlyEnded), a.CleanChaosPods, in).Get(ctx, &cleaned); err != nil {
			d.Doubted = true // it may have let something go before
			if onlyEnded && ctx.Err() != nil {
				return // the disruption ends: everything is cleaned next
			}
			cleaned = activities.CleanResult{Remaining: 1, Left: []activities.LeftPod{{
				Pod: fmt.Sprintf("all of shard %d", number), Outcome: activities.Failed, Why: cause(err),
			}}}
		}
		all.Remaining += cleaned.Remaining
		all.Left = merge(all.Left, cleaned.Left)
		d.Unproved = slices.Compact(slices.Sorted(slices.Values(append(d.Unproved, cleaned.UnverifiedNodes...))))
		lost += cleaned.Lost
	})
	return all, lost
}

// sweepShards are the shards to clean: those this life made, or everything
// with our UID when they are not known or not all.
func (d *disruption) sweepShards() []int {
	if d.Plan.CleanOnly != "" || d.everywhere || d.Plan.Rejected != "" {
		return []int{activities.AllShards}
	}
	numbers := make([]int, d.Shards)
	for i := range numbers {
		numbers[i] = i
	}
	return numbers
}

// awaitDecision waits for the next try by itself, for the cluster to change,
// or for a person. When fresh cleaners have failed too, it says what is stuck.
func (d *disruption) awaitDecision(ctx workflow.Context) {
	if d.stuck() {
		if d.News {
			d.Rounds++ // or the events of the round before are those of this one
			d.News = false
		}
		d.enter(ctx, v1beta1.PhaseStuck)
		d.report(ctx, d.stuckReport(v1beta1.PhaseStuck))
	} else {
		d.enter(ctx, v1beta1.PhaseCleaning)
	}
	d.Observed = nil
	told, err := awaitFor(ctx, d.patience(), "try to clean again by itself",
		func() bool { return len(d.Decided) > 0 || d.Observed != nil })
	if err != nil {
		return // a disconnected context is not cancelled
	}
	if !told {
		d.Retry = everything
	}
	d.decide(ctx)
}

// stuck is true when fresh cleaners could not clean either: a person must see it.
func (d *disruption) stuck() bool { return len(d.Left) > 0 && d.Tries >= cleanerTries }

// patience is how long to wait before the next try by itself.
func (d *disruption) patience() time.Duration {
	switch {
	case len(d.Left) == 0:
		return safetyPeriod
	case d.stuck():
		return retryPeriod
	}
	return cleanerPauses[d.Tries]
}

// everything stands for all targets.
var everything = []string{"*"}

// noteLeft keeps what a sweep left, and counts how often a cleaner has tried
// the same chaos pods in vain. A sweep without cleaners does not know what the
// last ones said.
func (d *disruption) noteLeft(left activities.CleanResult) {
	same := samePods(left.Left, d.Left)
	if same && !d.retried {
		for i := range left.Left {
			left.Left[i].Why = d.Left[i].Why
		}
	}
	d.News = d.News || !slices.Equal(left.Left, d.Left)
	d.Left, d.Remaining = left.Left, left.Remaining
	if !same || len(d.Left) == 0 {
		d.Tries = 0
	}
	if d.failed() {
		d.Tries = min(d.Tries+1, cleanerTries)
	}
}

// failed is true when an injector and its cleaner failed; otherwise what is
// left only needs time.
func (d *disruption) failed() bool { return len(d.Left) > 0 && d.Left[0].Outcome == activities.Failed }

// tellLeft tells, once, which chaos pods failed to clean though the disruption
// goes on.
func (d *disruption) tellLeft(ctx workflow.Context, left activities.CleanResult) {
	left.Left = slices.DeleteFunc(left.Left, func(pod activities.LeftPod) bool { return pod.Outcome != activities.Failed })
	left.Remaining = len(left.Left)
	wasStuck, before := d.stuck(), d.Left
	d.noteLeft(left)
	if d.stuck() == wasStuck && samePods(before, d.Left) {
		return
	}
	d.enter(ctx, d.Phase)
	if d.stuck() || wasStuck {
		d.Rounds++
		d.report(ctx, d.stuckReport(d.resting()))
	}
}

func (d *disruption) stuckReport(phase v1beta1.Phase) activities.Report {
	return activities.Report{
		Phase: phase, Ending: d.Ending, Left: d.Left, Remaining: d.Remaining,
		Advice: advice(d.ref), Round: d.Rounds,
	}
}

func (d *disruption) report(ctx workflow.Context, r activities.Report) {
	r.Disruption, r.Resumes = d.ref, d.Resumes
	if err := workflow.ExecuteActivity(telling(ctx, r.Phase), a.ReportPhase, r).Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Warn("status not written", "error", err)
	}
}

func samePods(a, b []activities.LeftPod) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Pod != b[i].Pod {
			return false
		}
	}
	return true
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
	return all[:min(len(all), 50)]
}
