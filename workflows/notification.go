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
)

// notifier names the activities that tell people; it is never called.
var notifier *notify.Activities

// What people are told of, as the reasons of notifications.
const (
	toldBegan    = "Began"
	toldRejected = "Rejected"
	toldInjected = "Injected"
	toldUnsteady = "SteadyState"
	toldEnding   = "Ending"
	toldStuck    = "Stuck"
	toldResumed  = "Resumed"
	toldFinished = "Finished"
	toldApproval = "ApprovalAwaited"
)

// notificationPatience is how long a notification is tried.
const notificationPatience = 24 * time.Hour

// notificationRetries spare somebody who does not answer, and reach him soon after
// he does again: some 300 attempts fill the day.
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
	Summary string   `json:"summary"`
	Told    []string `json:"told,omitempty"`
	GivenUp []string `json:"givenUp,omitempty"`
}

// Notification tells everybody of one thing that happened, each for himself, for as
// long as it takes, up to a day. The disruption does not wait for it.
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
			done.Told = append(done.Told, to.String())
		} else {
			done.GivenUp = append(done.GivenUp, to.String()+": "+failed[i])
		}
	}
	done.Summary = "told: " + cmp.Or(strings.Join(done.Told, ", "), "nobody")
	if len(done.GivenUp) > 0 {
		done.Summary += "; given up: " + strings.Join(done.GivenUp, ", ")
	}
	return done, nil
}

// deliver tells one recipient, and says why it was given up if it was.
func deliver(ctx workflow.Context, in notify.Delivery) (why string) {
	options := workflow.ActivityOptions{
		ScheduleToCloseTimeout: notificationPatience,
		StartToCloseTimeout:    time.Minute,
		HeartbeatTimeout:       heartbeat,
		RetryPolicy:            &notificationRetries,
		Summary:                shown("notify " + in.To.String()),
	}
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), notifier.Notify, in).Get(ctx, nil)
	if err == nil {
		return ""
	}
	why = cause(err)
	options.ScheduleToCloseTimeout, options.RetryPolicy, options.Summary = time.Hour, &retries, shown("record that "+in.To.String()+" cannot be notified")
	given := notify.Undelivered{Delivery: in, Why: why}
	if err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), notifier.GiveUpNotification, given).Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Warn("no event records that a notification was given up", "id", in.Notification.ID, "error", err)
	}
	return why
}

// shown fits into a summary, of which Temporal takes 400 bytes. It cuts between characters.
func shown(summary string) string { return text.Shorten(summary, 200) }

// tell starts the notification of what has just happened, if anybody wants to hear
// of it. It returns at once and never fails: what became of the start is looked at in
// the background. Without an audience, as every older plan is, it does nothing, so it
// needs no version.
func (d *disruption) tell(ctx workflow.Context, kind v1beta1.NotificationType, reason, message string) {
	to := d.Plan.Notify.Of(kind)
	if len(to) == 0 {
		return
	}
	if d.Told == nil {
		d.Told = map[string]int{}
	}
	d.Told[reason]++
	id := contract.NotificationID(d.ref, reason, d.Told[reason])
	in := NotificationInput{To: to, Notification: notify.Notification{
		ID: id, Object: d.ref, Type: kind, Reason: reason, Message: message, Time: workflow.Now(ctx),
		Phase: d.Phase, Ending: d.Ending, Kinds: d.Plan.Kinds.Names(), Targets: d.Targets, Stuck: d.Remaining, Purpose: d.Plan.Notify.Purpose, Requester: d.Plan.Requester,
	}}
	if steady := d.verdict(ctx); steady != nil && reason == toldFinished {
		in.Notification.Verdict = steady.Verdict
	}
	child := startNotification(ctx, in)
	d.telling++
	free, _ := workflow.NewDisconnectedContext(ctx)
	workflow.Go(free, func(ctx workflow.Context) {
		defer func() { d.telling-- }()
		started(ctx, child, id)
	})
}

// startNotification starts the workflow that tells people. It outlives what it tells of.
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

// started waits until Temporal has taken a notification over, which it does without any
// worker, and says so if it has not.
func started(ctx workflow.Context, child workflow.ChildWorkflowFuture, id string) {
	if err := child.GetChildWorkflowExecution().Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Warn("notification not started", "id", id, "error", err)
	}
}

// tellOnce is tell, the first time.
func (d *disruption) tellOnce(ctx workflow.Context, kind v1beta1.NotificationType, reason, message string) {
	if d.Told[reason] == 0 {
		d.tell(ctx, kind, reason, message)
	}
}

// awaitTellings waits until Temporal has taken over what was told: a run that ends
// before takes it along. Temporal does so by itself, without any worker.
func (d *disruption) awaitTellings(ctx workflow.Context) {
	if d.telling > 0 {
		free, _ := workflow.NewDisconnectedContext(ctx)
		_ = workflow.Await(free, func() bool { return d.telling == 0 })
	}
}

// tellPlan tells that it begins, or why it never will.
func (d *disruption) tellPlan(ctx workflow.Context) {
	switch {
	case d.Plan.Rejected != "":
		d.tell(ctx, v1beta1.NotificationError, toldRejected, "Nothing is injected: "+d.Plan.Rejected)
	case d.Plan.CleanOnly == "":
		d.tell(ctx, v1beta1.NotificationInfo, toldBegan, fmt.Sprintf("Targets are chosen from %s on; it ends at %s.", clock(d.Plan.CreateAt), clock(d.Plan.ExpireAt)))
	}
}

// tellInjected tells that all targets are disrupted, the first time.
func (d *disruption) tellInjected(ctx workflow.Context) {
	if d.Injected {
		d.tellOnce(ctx, v1beta1.NotificationSuccess, toldInjected, sentence(State{Plan: d.Plan, Phase: v1beta1.PhaseHolding, Progress: d.Progress}))
	}
}

// tellEnding tells why it ends before its time, unless somebody just wanted that.
func (d *disruption) tellEnding(ctx workflow.Context) {
	kind := v1beta1.NotificationInfo
	switch {
	case d.Plan.CleanOnly != "" || d.Plan.Rejected != "":
		return
	case strings.HasPrefix(d.Ending, v1beta1.EndingFailed):
		kind = v1beta1.NotificationError
	case strings.HasPrefix(d.Ending, v1beta1.EndingAborted), strings.HasPrefix(d.Ending, v1beta1.EndingNotSteady),
		strings.HasPrefix(d.Ending, v1beta1.EndingEmergencyStop), d.Ending == "cancelled":
		kind = v1beta1.NotificationWarning
	}
	d.tellOnce(ctx, kind, toldEnding, "Cleaning up all targets: "+d.Ending+".")
}

// tellStuck tells that a person must decide, or that nobody needs to any more.
func (d *disruption) tellStuck(ctx workflow.Context) {
	if !d.stuck() {
		d.tell(ctx, v1beta1.NotificationSuccess, toldResumed, "The stuck targets are clean.")
		return
	}
	first := d.Left[0]
	d.tell(ctx, v1beta1.NotificationError, toldStuck, fmt.Sprintf("Not clean: %s, such as %s of target %s on node %s: %s. %s.",
		number(d.Remaining, "chaos pod"), first.Pod, first.Target, first.Node, first.Why, advice(d.ref)))
}

// tellResume tells what a person decided.
func (d *disruption) tellResume(ctx workflow.Context, r contract.Resume) {
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
	d.tell(ctx, kind, toldResumed, message+".")
}

// tellFinished tells how it ended.
func (d *disruption) tellFinished(ctx workflow.Context, r Result) {
	if d.Plan.Rejected != "" {
		return // that was told
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
	d.tellOnce(ctx, kind, toldFinished, message)
}
