package workflows

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
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/flow"
)

// notifier names the activities that notify people; it is never called.
var notifier *notify.Activities

// Reasons of notifications.
const (
	reasonBegan    = "Began"
	reasonRejected = "Rejected"
	reasonInjected = "Injected"
	reasonUnsteady = "SteadyState"
	reasonEnding   = "Ending"
	reasonStuck    = "Stuck"
	reasonResumed  = "Resumed"
	reasonFinished = "Finished"
	reasonApproval = "ApprovalAwaited"
)

// notificationPatience is how long a notification is tried.
const notificationPatience = 24 * time.Hour

// notificationRetries spare a recipient that does not answer, and reach it soon after it
// answers again: some 300 attempts in a day.
var notificationRetries = temporal.RetryPolicy{
	InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 5 * time.Minute, MaximumAttempts: 1000,
}

// NotificationInput starts the workflow Notification.
type NotificationInput struct {
	Notification notify.Notification `json:"notification"`
	To           []notify.Recipient  `json:"to"`
}

// Notified is what the Temporal UI shows of a notification that is over.
type Notified struct {
	Summary   string   `json:"summary"`
	Delivered []string `json:"told,omitempty"`
	GivenUp   []string `json:"givenUp,omitempty"`
}

// Notification notifies all recipients of one change, each independently, and retries for
// up to a day. The disruption does not wait for it.
func Notification(ctx workflow.Context, in NotificationInput) (Notified, error) {
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
	var done Notified
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
		ScheduleToCloseTimeout: notificationPatience,
		StartToCloseTimeout:    time.Minute,
		HeartbeatTimeout:       flow.Heartbeat,
		RetryPolicy:            &notificationRetries,
		Summary:                shown("notify " + in.To.String()),
	}
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), notifier.Notify, in).Get(ctx, nil)
	if err == nil {
		return ""
	}
	why = flow.Cause(err)
	options.ScheduleToCloseTimeout, options.RetryPolicy, options.Summary = time.Hour, flow.Retries(), shown("record that "+in.To.String()+" cannot be notified")
	given := notify.Undelivered{Delivery: in, Why: why}
	if err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), notifier.GiveUpNotification, given).Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Warn("no event records that a notification was given up", "id", in.Notification.ID, "error", err)
	}
	return why
}

// shown shortens text for a summary, of which Temporal takes 400 bytes. It cuts between
// characters.
func shown(summary string) string { return text.Shorten(summary, 200) }

// notify starts a notification of a change, if the spec asks for notifications of this
// type. It returns at once and never fails: a goroutine checks the start. Without
// recipients, as in every older plan, it does nothing, so it needs no version.
func (d *disruption) notify(ctx workflow.Context, kind v1beta1.NotificationType, reason, message string) {
	to := d.Plan.Notify.Of(kind)
	if len(to) == 0 {
		return
	}
	if d.Notifications == nil {
		d.Notifications = map[string]int{}
	}
	d.Notifications[reason]++
	id := contract.NotificationID(d.ref, reason, d.Notifications[reason])
	in := NotificationInput{To: to, Notification: notify.Notification{
		ID: id, Object: d.ref, Type: kind, Reason: reason, Message: message, Time: workflow.Now(ctx),
		Phase: d.Phase, Ending: d.Ending, Kinds: d.Plan.Kinds.Names(), Targets: d.Targets, Stuck: d.Remaining, Purpose: d.Plan.Notify.Purpose, Requester: d.Plan.Requester,
	}}
	if steady := d.verdict(ctx); steady != nil && reason == reasonFinished {
		in.Notification.Verdict = steady.Verdict
	}
	child := startNotification(ctx, in)
	d.notifying++
	free, _ := workflow.NewDisconnectedContext(ctx)
	workflow.Go(free, func(ctx workflow.Context) {
		defer func() { d.notifying-- }()
		started(ctx, child, id)
	})
}

// startNotification starts the workflow that notifies people. That workflow outlives this
// one.
func startNotification(ctx workflow.Context, in NotificationInput) workflow.ChildWorkflowFuture {
	free, _ := workflow.NewDisconnectedContext(ctx)
	n := in.Notification
	return workflow.ExecuteChildWorkflow(workflow.WithChildOptions(free, workflow.ChildWorkflowOptions{
		WorkflowID: contract.NotificationWorkflowID(n.Object, n.ID), TaskQueue: contract.NotificationTaskQueue,
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		ParentClosePolicy:     enums.PARENT_CLOSE_POLICY_ABANDON,
		StaticSummary:         shown(fmt.Sprintf("%s: %s of %s %s/%s", n.Type, n.Reason, n.ObjectWord(), n.Object.Namespace, n.Object.Name)),
	}), contract.NotificationWorkflowType, in)
}

// started waits until Temporal has started a notification, for which it needs no worker,
// and logs a failure.
func started(ctx workflow.Context, child workflow.ChildWorkflowFuture, id string) {
	if err := child.GetChildWorkflowExecution().Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Warn("notification not started", "id", id, "error", err)
	}
}

// notifyOnce notifies unless it already did for this reason.
func (d *disruption) notifyOnce(ctx workflow.Context, kind v1beta1.NotificationType, reason, message string) {
	if d.Notifications[reason] == 0 {
		d.notify(ctx, kind, reason, message)
	}
}

// awaitNotifications waits until Temporal has started all notifications: a run that ends
// earlier would discard them. Temporal needs no worker for that.
func (d *disruption) awaitNotifications(ctx workflow.Context) {
	if d.notifying > 0 {
		free, _ := workflow.NewDisconnectedContext(ctx)
		_ = workflow.Await(free, func() bool { return d.notifying == 0 })
	}
}

// notifyPlan notifies that the disruption begins, or why it never will.
func (d *disruption) notifyPlan(ctx workflow.Context) {
	switch {
	case d.Plan.Rejected != "":
		d.notify(ctx, v1beta1.NotificationError, reasonRejected, "Nothing is injected: "+d.Plan.Rejected)
	case d.Plan.CleanOnly == "":
		d.notify(ctx, v1beta1.NotificationInfo, reasonBegan, fmt.Sprintf("Targets are chosen from %s on; it ends at %s.", flow.Clock(d.Plan.CreateAt), flow.Clock(d.Plan.ExpireAt)))
	}
}

// notifyInjected notifies, once, that all targets are disrupted.
func (d *disruption) notifyInjected(ctx workflow.Context) {
	if d.Injected {
		d.notifyOnce(ctx, v1beta1.NotificationSuccess, reasonInjected, sentence(State{Plan: d.Plan, Phase: v1beta1.PhaseHolding, Progress: d.Progress}))
	}
}

// notifyEnding notifies why the disruption ends early, unless a person just ended it.
func (d *disruption) notifyEnding(ctx workflow.Context) {
	kind := v1beta1.NotificationInfo
	if d.Plan.CleanOnly != "" || d.Plan.Rejected != "" {
		return
	}
	switch v1beta1.ClassOf(d.Ending) {
	case v1beta1.ClassFailed:
		kind = v1beta1.NotificationError
	case v1beta1.ClassAborted, v1beta1.ClassNotSteady, v1beta1.ClassEmergencyStop, v1beta1.ClassCancelled:
		kind = v1beta1.NotificationWarning
	}
	d.notifyOnce(ctx, kind, reasonEnding, "Cleaning up all targets: "+d.Ending+".")
}

// notifyStuck notifies that a person must decide, or that no decision is needed any more.
func (d *disruption) notifyStuck(ctx workflow.Context) {
	if !d.stuck() {
		d.notify(ctx, v1beta1.NotificationSuccess, reasonResumed, "The stuck targets are clean.")
		return
	}
	first := d.Left[0]
	d.notify(ctx, v1beta1.NotificationError, reasonStuck, fmt.Sprintf("Not clean: %s, such as %s of target %s on node %s: %s. %s.",
		flow.Number(d.Remaining, "chaos pod"), first.Pod, first.Target, first.Node, first.Why, advice(d.ref)))
}

// notifyResume notifies of a person's decision.
func (d *disruption) notifyResume(ctx workflow.Context, r contract.Resume) {
	kind, what := v1beta1.NotificationSuccess, "retries the clean-up"
	if r.Action == contract.ActionRelease {
		kind, what = v1beta1.NotificationWarning, "releases the targets that are not clean"
	}
	message := cmp.Or(r.By, "Somebody") + " " + what
	if len(r.Targets) > 0 {
		message += " on " + strings.Join(r.Targets, ", ")
	}
	if r.Reason != "" {
		message += ": " + r.Reason
	}
	d.notify(ctx, kind, reasonResumed, message+".")
}

// notifyFinished notifies of the result.
func (d *disruption) notifyFinished(ctx workflow.Context, r Result) {
	if d.Plan.Rejected != "" {
		return // the rejection was notified
	}
	kind := v1beta1.NotificationCompletion
	wrong := r.Verdict == v1beta1.VerdictFailed || r.Verdict == v1beta1.VerdictAborted
	if wrong || d.ReleasedPods > 0 || len(d.NotVerified) > 0 {
		kind = v1beta1.NotificationWarning
	}
	message := strings.ToUpper(r.Summary[:1]) + r.Summary[1:] + "."
	if d.Plan.CleanOnly == "" && d.Shards > 0 && !d.Injected && !d.waits() {
		kind = v1beta1.NotificationWarning
		message += " Not all targets were injected."
	}
	d.notifyOnce(ctx, kind, reasonFinished, message)
}
