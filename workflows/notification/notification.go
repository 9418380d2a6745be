// Package notification is the workflow that notifies people of one change of a
// disruption or of a scenario, and retries that for up to a day. The workflows of both
// start it as their child, and do not wait for it.
package notification

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/activities/notify"
	"github.com/squall-chaos/squall/api/text"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/flow"
)

// a names the activities; it is never called.
var a *notify.Activities

// Reasons of notifications.
const (
	ReasonBegan    = "Began"
	ReasonRejected = "Rejected"
	ReasonInjected = "Injected"
	ReasonUnsteady = "SteadyState"
	ReasonEnding   = "Ending"
	ReasonStuck    = "Stuck"
	ReasonResumed  = "Resumed"
	ReasonFinished = "Finished"
	ReasonApproval = "ApprovalAwaited"
)

// patience is how long a notification is tried.
const patience = 24 * time.Hour

// retries spare a recipient that does not answer, and reach it soon after it
// answers again: some 300 attempts in a day.
var retries = temporal.RetryPolicy{
	InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 5 * time.Minute, MaximumAttempts: 1000,
}

// Input starts the workflow.
type Input struct {
	Notification notify.Notification `json:"notification"`
	To           []notify.Recipient  `json:"to"`
}

// Result is what the Temporal UI shows of a notification that is over.
type Result struct {
	Summary   string   `json:"summary"`
	Delivered []string `json:"told,omitempty"`
	GivenUp   []string `json:"givenUp,omitempty"`
}

// Workflow notifies all recipients of one change, each independently, and retries for
// up to a day. The disruption does not wait for it.
func Workflow(ctx workflow.Context, in Input) (Result, error) {
	failed := make([]string, len(in.To))
	all := workflow.NewWaitGroup(ctx)
	for i, to := range in.To {
		all.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer all.Done()
			failed[i] = deliver(ctx, notify.Delivery{Notification: in.Notification, To: to})
		})
	}
	all.Wait(ctx)
	var done Result
	for i, to := range in.To {
		if failed[i] == "" {
			done.Delivered = append(done.Delivered, to.String())
		} else {
			done.GivenUp = append(done.GivenUp, to.String()+": "+failed[i])
		}
	}
	done.Summary = "notified: " + cmp.Or(strings.Join(done.Delivered, ", "), "none")
	if len(done.GivenUp) > 0 {
		done.Summary += "; given up: " + strings.Join(done.GivenUp, ", ")
	}
	return done, nil
}

// deliver notifies one recipient. why is empty, or why Squall gave up.
func deliver(ctx workflow.Context, in notify.Delivery) (why string) {
	options := workflow.ActivityOptions{
		ScheduleToCloseTimeout: patience,
		StartToCloseTimeout:    time.Minute,
		HeartbeatTimeout:       flow.Heartbeat,
		RetryPolicy:            &retries,
		Summary:                shown("notify " + in.To.String()),
	}
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), a.Notify, in).Get(ctx, nil)
	if err == nil {
		return ""
	}
	why = flow.Cause(err)
	options.ScheduleToCloseTimeout, options.RetryPolicy, options.Summary = time.Hour, flow.Retries(), shown("record that "+in.To.String()+" cannot be notified")
	given := notify.Undelivered{Delivery: in, Why: why}
	if err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), a.GiveUpNotification, given).Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Warn("no event records that a notification was given up", "id", in.Notification.ID, "error", err)
	}
	return why
}

// Start starts the workflow as a child that outlives its parent.
func Start(ctx workflow.Context, in Input) workflow.ChildWorkflowFuture {
	free, _ := workflow.NewDisconnectedContext(ctx)
	n := in.Notification
	return workflow.ExecuteChildWorkflow(workflow.WithChildOptions(free, workflow.ChildWorkflowOptions{
		WorkflowID: contract.NotificationWorkflowID(n.Object, n.ID), TaskQueue: contract.NotificationTaskQueue,
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		ParentClosePolicy:     enums.PARENT_CLOSE_POLICY_ABANDON,
		StaticSummary:         shown(fmt.Sprintf("%s: %s of %s %s/%s", n.Type, n.Reason, n.ObjectWord(), n.Object.Namespace, n.Object.Name)),
	}), contract.NotificationWorkflowType, in)
}

// AwaitStart waits until Temporal has started a notification, for which it needs no
// worker, and logs a failure.
func AwaitStart(ctx workflow.Context, child workflow.ChildWorkflowFuture, id string) {
	if err := child.GetChildWorkflowExecution().Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Warn("notification not started", "id", id, "error", err)
	}
}

// shown shortens text for a summary, of which Temporal takes 400 bytes. It cuts between
// characters.
func shown(summary string) string { return text.Shorten(summary, 200) }
