package disruption

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/activities/verify"
	"github.com/squall-chaos/squall/api/v1beta1"
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
		left, _ := d.rounds.clean(ctx, false, nil)
		d.rounds.updateLeft(left)
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
			d.guard.awaitRecovery(ctx)
			d.guard.awaitFinalResult(ctx)
			d.guard.awaitWrites(ctx)
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
		d.rounds.allShards = true
		return false
	}
	phase := v1beta1.PhaseFinished
	if d.Plan.Rejected != "" {
		phase = v1beta1.PhaseRejected
	}
	d.publishPhase(ctx, phase)
	return true
}

// leftToClean is true when earlier rounds left something, or a person decided about it:
// then any shard may have something to clean.
func (c *Cleaning) leftToClean() bool {
	return len(c.Left) > 0 || c.Retry != nil || c.Release != nil || c.ReleaseUntil != nil
}

// shardNumbers are the numbers of the shards that this workflow made.
func (p *Progress) shardNumbers() []int {
	numbers := make([]int, p.Shards)
	for i := range numbers {
		numbers[i] = i
	}
	return numbers
}
