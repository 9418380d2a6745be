package disruption

import (
	"cmp"
	"fmt"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/activities/notify"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/flow"
	"github.com/squall-chaos/squall/workflows/notification"
)

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
	in := notification.Input{To: to, Notification: notify.Notification{
		ID: id, Object: d.ref, Type: kind, Reason: reason, Message: message, Time: workflow.Now(ctx),
		Phase: d.Phase, Ending: d.Ending, Kinds: d.Plan.Kinds.Names(), Targets: d.Targets, Stuck: d.Remaining, Purpose: d.Plan.Notify.Purpose, Requester: d.Plan.Requester,
	}}
	if steady := d.verdict(ctx); steady != nil && reason == notification.ReasonFinished {
		in.Notification.Verdict = steady.Verdict
	}
	child := notification.Start(ctx, in)
	d.notifying++
	free, _ := workflow.NewDisconnectedContext(ctx)
	workflow.Go(free, func(ctx workflow.Context) {
		defer func() { d.notifying-- }()
		notification.AwaitStart(ctx, child, id)
	})
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
		d.notify(ctx, v1beta1.NotificationError, notification.ReasonRejected, "Nothing is injected: "+d.Plan.Rejected)
	case d.Plan.CleanOnly == "":
		d.notify(ctx, v1beta1.NotificationInfo, notification.ReasonBegan, fmt.Sprintf("Targets are chosen from %s on; it ends at %s.", flow.Clock(d.Plan.CreateAt), flow.Clock(d.Plan.ExpireAt)))
	}
}

// notifyInjected notifies, once, that all targets are disrupted.
func (d *disruption) notifyInjected(ctx workflow.Context) {
	if d.Injected {
		d.notifyOnce(ctx, v1beta1.NotificationSuccess, notification.ReasonInjected, sentence(State{Plan: d.Plan, Phase: v1beta1.PhaseHolding, Progress: d.Progress}))
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
	d.notifyOnce(ctx, kind, notification.ReasonEnding, "Cleaning up all targets: "+d.Ending+".")
}

// notifyStuck notifies that a person must decide, or that no decision is needed any more.
func (d *disruption) notifyStuck(ctx workflow.Context) {
	if !d.stuck() {
		d.notify(ctx, v1beta1.NotificationSuccess, notification.ReasonResumed, "The stuck targets are clean.")
		return
	}
	first := d.Left[0]
	d.notify(ctx, v1beta1.NotificationError, notification.ReasonStuck, fmt.Sprintf("Not clean: %s, such as %s of target %s on node %s: %s. %s.",
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
	d.notify(ctx, kind, notification.ReasonResumed, message+".")
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
	d.notifyOnce(ctx, kind, notification.ReasonFinished, message)
}
