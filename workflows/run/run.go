// Package run is the workflow of one run of a DisruptionCron or a DisruptionRollout.
package run

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/activities/crons"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/flow"
)

// a names the activities; it is never called.
var a *crons.Activities

// scheduledTime is set by Temporal when a schedule starts a workflow: the time of the
// schedule, without jitter.
var scheduledTime = temporal.NewSearchAttributeKeyTime("TemporalScheduledStartTime")

// Result is what the Temporal UI shows of a run that is over.
type Result struct {
	Summary string `json:"summary"`
	crons.Begun
	crons.Ended
}

// Workflow carries out one run of a DisruptionCron, or of a DisruptionRollout, which waits
// until its release is rolled out. It has the Disruption created and waits for its end,
// which the status of the DisruptionCron then shows. The Disruption has a workflow of its
// own and needs nothing of this one.
func Workflow(ctx workflow.Context, in contract.CronInput) (Result, error) {
	at, found := workflow.GetTypedSearchAttributes(ctx).GetTime(scheduledTime)
	switch {
	case in.Release != nil:
		at = in.Release.SeenAt
	case !found:
		at = workflow.GetInfo(ctx).WorkflowStartTime
	}
	at = at.UTC().Truncate(time.Second)
	var r Result
	err := workflow.ExecuteActivity(flow.RequiredOptions(ctx, "begin the run of "+at.Format(time.RFC3339)), a.BeginRun,
		crons.BeginInput{Cron: in.Cron, ScheduledAt: at, Release: in.Release}).Get(ctx, &r.Begun)
	if err != nil {
		return r, err
	}
	if r.Reason != crons.Began {
		r.Summary = fmt.Sprintf("nothing began (%s): %s", r.Reason, r.Message)
		return r, nil
	}
	err = workflow.ExecuteActivity(awaitOptions(ctx), a.AwaitRun, crons.AwaitInput{Cron: in.Cron, UID: r.UID}).Get(ctx, &r.Ended)
	if err != nil {
		return r, err
	}
	r.Summary = "it ended: " + r.Ending
	if r.Verdict != "" {
		r.Summary += ", " + string(r.Verdict)
	}
	return r, nil
}

// awaitOptions are for reading a run, again and again until it has ended.
// The activity returns when the next read is due.
func awaitOptions(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 30 * time.Second,
		HeartbeatTimeout:    flow.Heartbeat,
		RetryPolicy:         flow.Retries(),
		Summary:             "wait until the run is over",
	})
}
