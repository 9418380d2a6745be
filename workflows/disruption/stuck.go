package disruption

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/clean"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/flow"
)

// awaitDecision waits for the next automatic attempt, for a change in the cluster or for
// a person. When fresh cleaners have failed too, it reports what is stuck.
func (d *disruption) awaitDecision(ctx workflow.Context) {
	d.Observed = nil // the round that has ended has acted on it
	if d.stuck() {
		if d.LeftChanged {
			d.Rounds++ // the same events again would count as those of the last report
			d.LeftChanged = false
			d.notifier.stuckChanged(ctx)
		}
		d.publishPhase(ctx, v1beta1.PhaseStuck)
		d.report(ctx, d.stuckReport(v1beta1.PhaseStuck))
	} else {
		d.publishPhase(ctx, v1beta1.PhaseCleaning)
	}
	if d.Observed != nil && !flow.HasChange(ctx, changeSeenWhileReporting) {
		d.Observed = nil
	}
	called, err := flow.AwaitFor(ctx, d.nextTryDelay(), "wait before the next clean-up",
		func() bool { return len(d.Decided) > 0 || d.Observed != nil })
	if err != nil {
		return // a disconnected context is not cancelled
	}
	if !called {
		d.retryAutomatically()
	}
	d.applyResumes(ctx)
}

// exhausted is true for a chaos pod on which fresh cleaners have failed often enough: a
// person must see it.
func exhausted(pod chaospod.LeftPod) bool { return pod.Tries >= cleanerTries }

// stuck is true when fresh cleaners failed on some chaos pod. Other failed chaos pods
// that are cleaned beside it do not hide it.
func (c *Cleaning) stuck() bool { return slices.ContainsFunc(c.Left, exhausted) }

// nextTryDelay is how long to wait before the next automatic attempt.
func (c *Cleaning) nextTryDelay() time.Duration {
	if len(c.Left) == 0 {
		return safetyPeriod
	}
	tries := cleanerTries
	for _, pod := range c.Left {
		tries = min(tries, pod.Tries)
	}
	if tries >= cleanerTries {
		return retryPeriod
	}
	return cleanerPauses[tries]
}

// allTargets stands for all targets in CleanInput.
var allTargets = []string{"*"}

// allExhausted is true when cleaners have failed often enough on all that is left.
func (c *Cleaning) allExhausted() bool {
	return len(c.Left) > 0 && !slices.ContainsFunc(c.Left, func(pod chaospod.LeftPod) bool { return !exhausted(pod) })
}

// retryAutomatically retries, at a low rate, all that is left, in case the nodes have
// recovered. As long as cleaners still try some of it, only these are tried.
func (c *Cleaning) retryAutomatically() {
	if c.allExhausted() {
		c.Retry = allTargets
	}
}

// nextRound is the input for a round of cleaning: cleaners for all but the chaos pods on
// which they have failed often enough, and for the targets a person named.
func (s *State) nextRound(onlyEnded bool) clean.Input {
	in := clean.Input{
		OnlyEnded: onlyEnded, Retry: s.Retry, Release: s.Release, ReleaseUntil: s.ReleaseUntil, Operated: s.operates(), Runs: s.Runs, Patience: cleaningPatience,
	}
	if slices.Equal(s.Retry, allTargets) || s.allExhausted() {
		return in
	}
	in.Retry = append(slices.Clone(allTargets), s.Retry...)
	for _, pod := range s.Left {
		if exhausted(pod) {
			in.Exhausted = append(in.Exhausted, pod.ID())
		}
	}
	return in
}

// cleanerRan is true when the last round ran a cleaner for the chaos pod.
func (r *rounds) cleanerRan(pod chaospod.LeftPod) bool {
	return slices.Contains(r.last.Retry, pod.Target) ||
		slices.Contains(r.last.Retry, allTargets[0]) && !slices.Contains(r.last.Exhausted, pod.ID())
}

// updateLeft keeps what a round of cleaning left, and counts for each chaos pod how often
// cleaners have failed on it. A round without a cleaner for a chaos pod has no newer
// report, so the last cleaner's text stays.
func (r *rounds) updateLeft(left clean.Result) {
	before := map[string]chaospod.LeftPod{}
	for _, pod := range r.Left {
		before[pod.Pod] = pod
	}
	for i := range left.Left {
		pod := &left.Left[i]
		old, known := before[pod.Pod]
		pod.Tries = old.Tries
		switch ran := r.cleanerRan(*pod); {
		case ran && pod.Outcome == chaospod.Failed:
			pod.Tries = min(old.Tries+1, cleanerTries)
		case known && !ran:
			pod.Why = old.Why
		}
	}
	r.LeftChanged = r.LeftChanged || !slices.EqualFunc(left.Left, r.Left, sameReport)
	r.Left, r.Remaining = left.Left, left.Remaining
}

// sameReport is true when the report about a chaos pod is unchanged: another attempt
// changes nothing.
func sameReport(a, b chaospod.LeftPod) bool {
	a.Tries, b.Tries = 0, 0
	return a == b
}

// failed is true when an injector and its cleaner failed. Otherwise the chaos pods that
// are left have not ended yet.
func (c *Cleaning) failed() bool { return len(c.Left) > 0 && c.Left[0].Outcome == chaospod.Failed }

// reportLeft reports, once, which chaos pods failed to clean while the disruption lasts.
func (d *disruption) reportLeft(ctx workflow.Context, left clean.Result) {
	left.Left = slices.DeleteFunc(left.Left, func(pod chaospod.LeftPod) bool { return pod.Outcome != chaospod.Failed })
	left.Remaining = len(left.Left)
	wasStuck, before := d.stuck(), d.Left
	d.rounds.updateLeft(left)
	if d.stuck() == wasStuck && samePods(before, d.Left) {
		return
	}
	d.publishPhase(ctx, d.Phase)
	if d.stuck() || wasStuck {
		d.Rounds++
		d.notifier.stuckChanged(ctx)
		d.report(ctx, d.stuckReport(d.idlePhase()))
	}
}

func (d *disruption) stuckReport(phase v1beta1.Phase) status.Report {
	return status.Report{
		Phase: phase, Ending: d.Ending, Left: d.Left, Remaining: d.Remaining,
		Advice: advice(d.ref), Round: d.Rounds,
	}
}

func (d *disruption) report(ctx workflow.Context, r status.Report) {
	r.Disruption, r.Resumes = d.ref, d.Resumes
	if err := workflow.ExecuteActivity(statusOptions(ctx, r.Phase), a.ReportPhase, r).Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Warn("status not written", "error", err)
	}
}

func samePods(a, b []chaospod.LeftPod) bool {
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
