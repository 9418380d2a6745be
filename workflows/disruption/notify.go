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

// notifier notifies people of changes, if the spec asks for it.
type notifier struct {
	*disruption
	// starting counts the notifications whose start Temporal has not confirmed yet.
	starting int
}

// send starts a notification of a change, if the spec asks for notifications of this
// type. It returns at once and never fails: a goroutine checks the start. Without
// recipients, as in every older plan, it does nothing, so it needs no version.
func (n *notifier) send(ctx workflow.Context, kind v1beta1.NotificationType, reason, message string) {
	to := n.Plan.Notify.Of(kind)
	if len(to) == 0 {
		return
	}
	if n.Notifications == nil {
		n.Notifications = map[string]int{}
	}
	n.Notifications[reason]++
	id := contract.NotificationID(n.ref, reason, n.Notifications[reason])
	in := notification.Input{To: to, Notification: notify.Notification{
		ID: id, Object: n.ref, Type: kind, Reason: reason, Message: message, Time: workflow.Now(ctx),
		Phase: n.Phase, Ending: n.Ending, Kinds: n.Plan.Kinds.Names(), Targets: n.Targets, Stuck: n.Remaining, Purpose: n.Plan.Notify.Purpose, Requester: n.Plan.Requester,
	}}
	if steady := n.verdict(ctx); steady != nil && reason == notification.ReasonFinished {
		in.Notification.Verdict = steady.Verdict
	}
	child := notification.Start(ctx, in)
	n.starting++
	free, _ := workflow.NewDisconnectedContext(ctx)
	workflow.Go(free, func(ctx workflow.Context) {
		defer func() { n.starting-- }()
		notification.AwaitStart(ctx, child, id)
	})
}

// once notifies unless it already did for this reason.
func (n *notifier) once(ctx workflow.Context, kind v1beta1.NotificationType, reason, message string) {
	if n.Notifications[reason] == 0 {
		n.send(ctx, kind, reason, message)
	}
}

// awaitStarts waits until Temporal has started all notifications: a run that ends
// earlier would discard them. Temporal needs no worker for that.
func (n *notifier) awaitStarts(ctx workflow.Context) {
	if n.starting > 0 {
		free, _ := workflow.NewDisconnectedContext(ctx)
		_ = workflow.Await(free, func() bool { return n.starting == 0 })
	}
}

// planned notifies that the disruption begins, or why it never will.
func (n *notifier) planned(ctx workflow.Context) {
	switch {
	case n.Plan.Rejected != "":
		n.send(ctx, v1beta1.NotificationError, notification.ReasonRejected, "Nothing is injected: "+n.Plan.Rejected)
	case n.Plan.CleanOnly == "":
		n.send(ctx, v1beta1.NotificationInfo, notification.ReasonBegan, fmt.Sprintf("Targets are chosen from %s on; it ends at %s.", flow.Clock(n.Plan.CreateAt), flow.Clock(n.Plan.ExpireAt)))
	}
}

// injected notifies, once, that all targets are disrupted.
func (n *notifier) injected(ctx workflow.Context) {
	if n.Injected {
		n.once(ctx, v1beta1.NotificationSuccess, notification.ReasonInjected, sentence(State{Plan: n.Plan, Phase: v1beta1.PhaseHolding, Progress: n.Progress}))
	}
}

// ends notifies why the disruption ends early, unless a person just ended it.
func (n *notifier) ends(ctx workflow.Context) {
	kind := v1beta1.NotificationInfo
	if n.Plan.CleanOnly != "" || n.Plan.Rejected != "" {
		return
	}
	switch v1beta1.ClassOf(n.Ending) {
	case v1beta1.ClassFailed:
		kind = v1beta1.NotificationError
	case v1beta1.ClassAborted, v1beta1.ClassNotSteady, v1beta1.ClassEmergencyStop, v1beta1.ClassCancelled:
		kind = v1beta1.NotificationWarning
	}
	n.once(ctx, kind, notification.ReasonEnding, "Cleaning up all targets: "+n.Ending+".")
}

// stuckChanged notifies that a person must decide, or that no decision is needed any more.
func (n *notifier) stuckChanged(ctx workflow.Context) {
	if !n.stuck() {
		n.send(ctx, v1beta1.NotificationSuccess, notification.ReasonResumed, "The stuck targets are clean.")
		return
	}
	first := n.Left[0]
	n.send(ctx, v1beta1.NotificationError, notification.ReasonStuck, fmt.Sprintf("Not clean: %s, such as %s of target %s on node %s: %s. %s.",
		flow.Number(n.Remaining, "chaos pod"), first.Pod, first.Target, first.Node, first.Why, advice(n.ref)))
}

// resumed notifies of a person's decision.
func (n *notifier) resumed(ctx workflow.Context, r contract.Resume) {
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
	n.send(ctx, kind, notification.ReasonResumed, message+".")
}

// finished notifies of the result.
func (n *notifier) finished(ctx workflow.Context, r Result) {
	if n.Plan.Rejected != "" {
		return // the rejection was notified
	}
	kind := v1beta1.NotificationCompletion
	wrong := r.Verdict == v1beta1.VerdictFailed || r.Verdict == v1beta1.VerdictAborted
	if wrong || n.ReleasedPods > 0 || len(n.NotVerified) > 0 {
		kind = v1beta1.NotificationWarning
	}
	message := strings.ToUpper(r.Summary[:1]) + r.Summary[1:] + "."
	if n.Plan.CleanOnly == "" && n.Shards > 0 && !n.Injected && !n.waits() {
		kind = v1beta1.NotificationWarning
		message += " Not all targets were injected."
	}
	n.once(ctx, kind, notification.ReasonFinished, message)
}
