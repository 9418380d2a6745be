package workflows

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/activities"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// awaitDecision waits for the next try by itself, for the cluster to change or
// for a person. When fresh cleaners have failed too, it reports what is stuck.
func (d *disruption) awaitDecision(ctx workflow.Context) {
	if d.stuck() {
		if d.LeftChanged {
			d.Rounds++ // the same events again would count as those of the last report
			d.LeftChanged = false
		}
		d.publishPhase(ctx, v1beta1.PhaseStuck)
		d.report(ctx, d.stuckReport(v1beta1.PhaseStuck))
	} else {
		d.publishPhase(ctx, v1beta1.PhaseCleaning)
	}
	d.Observed = nil
	called, err := awaitFor(ctx, d.nextTryDelay(), "try to clean again by itself",
		func() bool { return len(d.Decided) > 0 || d.Observed != nil })
	if err != nil {
		return // a disconnected context is not cancelled
	}
	if !called {
		d.Retry = allTargets
	}
	d.applyResumes(ctx)
}

// stuck is true when fresh cleaners could not clean either: a person must see it.
func (d *disruption) stuck() bool { return len(d.Left) > 0 && d.Tries >= cleanerTries }

// nextTryDelay is how long to wait before the next try by itself.
func (d *disruption) nextTryDelay() time.Duration {
	switch {
	case len(d.Left) == 0:
		return safetyPeriod
	case d.stuck():
		return retryPeriod
	}
	return cleanerPauses[d.Tries]
}

// allTargets stands for all targets in CleanInput.
var allTargets = []string{"*"}

// updateLeft keeps what a round of cleaning left, and counts how often cleaners
// have failed on the same chaos pods. A round without cleaners does not know
// what the last cleaner said, so their words stay.
func (d *disruption) updateLeft(left activities.CleanResult) {
	same := samePods(left.Left, d.Left)
	if same && !d.cleanersRan {
		for i := range left.Left {
			left.Left[i].Why = d.Left[i].Why
		}
	}
	d.LeftChanged = d.LeftChanged || !slices.Equal(left.Left, d.Left)
	d.Left, d.Remaining = left.Left, left.Remaining
	if !same || len(d.Left) == 0 {
		d.Tries = 0
	}
	if d.failed() {
		d.Tries = min(d.Tries+1, cleanerTries)
	}
}

// failed is true when an injector and its cleaner failed. Otherwise what is left
// has not ended yet.
func (d *disruption) failed() bool { return len(d.Left) > 0 && d.Left[0].Outcome == activities.Failed }

// reportLeft reports, once, which chaos pods failed to clean while the disruption
// goes on.
func (d *disruption) reportLeft(ctx workflow.Context, left activities.CleanResult) {
	left.Left = slices.DeleteFunc(left.Left, func(pod activities.LeftPod) bool { return pod.Outcome != activities.Failed })
	left.Remaining = len(left.Left)
	wasStuck, before := d.stuck(), d.Left
	d.updateLeft(left)
	if d.stuck() == wasStuck && samePods(before, d.Left) {
		return
	}
	d.publishPhase(ctx, d.Phase)
	if d.stuck() || wasStuck {
		d.Rounds++
		d.report(ctx, d.stuckReport(d.idlePhase()))
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
	if err := workflow.ExecuteActivity(statusOptions(ctx, r.Phase), a.ReportPhase, r).Get(ctx, nil); err != nil {
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
