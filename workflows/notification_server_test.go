package workflows

import (
	"context"
	"errors"
	"path"
	"slices"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/squall-chaos/squall/activities/notify"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/notification"
)

// hook is a webhook that receives all notifications.
var hook = notify.Recipient{Way: notify.Webhook, Least: v1beta1.NotificationInfo}

// notifies sends the disruption's notifications to a webhook, whose attempts fail as
// refuse decides; nil is no error.
func (s *stage) notifies(refuse func(context.Context, notify.Delivery) error) {
	s.Helper()
	s.plan.Notify = &notify.Audience{Recipients: []notify.Recipient{hook}, Purpose: "to be sure of the retries"}
	w := worker.New(s.temporal, contract.NotificationTaskQueue, worker.Options{MaxHeartbeatThrottleInterval: beat})
	RegisterNotification(w)
	w.RegisterActivityWithOptions(func(ctx context.Context, in notify.Delivery) error {
		var err error
		if refuse != nil {
			err = refuse(ctx, in)
		}
		if err == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.notified = append(s.notified, in.Notification.ID)
		}
		return err
	}, activity.RegisterOptions{Name: "Notify"})
	w.RegisterActivityWithOptions(func(context.Context, notify.Undelivered) error { return nil }, activity.RegisterOptions{Name: "GiveUpNotification"})
	s.must(w.Start())
	s.Cleanup(w.Stop)
}

// takesID starts a notification of this ID before the disruption can.
func (s *stage) takesID(id string) {
	s.Helper()
	_, err := s.temporal.ExecuteWorkflow(s.Context(), client.StartWorkflowOptions{
		ID: contract.NotificationWorkflowID(ref, id), TaskQueue: contract.NotificationTaskQueue, StaticSummary: "somebody else's",
	}, contract.NotificationWorkflowType, notification.Input{})
	s.must(err)
}

// wantNotifications expects that these notifications were started, and that none of them
// delayed the disruption, which is over.
func (s *stage) wantNotifications(want ...string) {
	s.Helper()
	var got []string
	for _, event := range s.history("") {
		if started := event.GetChildWorkflowExecutionStartedEventAttributes(); started != nil {
			got = append(got, path.Base(started.WorkflowExecution.WorkflowId))
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("notifications (-want +got):\n%s", diff)
	}
}

// notifications runs some to their ends, and keeps the history of one.
func notifications(s *stage) {
	refusing := notify.Recipient{Way: notify.SlackChannel, To: "gone", Least: v1beta1.NotificationInfo}
	s.notifies(func(ctx context.Context, in notify.Delivery) error {
		switch {
		case in.To == refusing:
			return temporal.NewNonRetryableApplicationError("Slack answered channel_not_found", "NotDelivered", nil)
		case activity.GetInfo(ctx).Attempt < 3:
			return errors.New("the webhook answered 500")
		}
		return nil
	})
	id := contract.NotificationID(ref, notification.ReasonStuck, 7)
	s.id = contract.NotificationWorkflowID(ref, id)
	run, err := s.temporal.ExecuteWorkflow(s.Context(), client.StartWorkflowOptions{
		ID: s.id, TaskQueue: contract.NotificationTaskQueue, StaticSummary: "Error: Stuck of disruption shop/calm",
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
	}, contract.NotificationWorkflowType, notification.Input{
		Notification: notify.Notification{ID: id, Object: ref, Type: v1beta1.NotificationError, Reason: notification.ReasonStuck}, To: []notify.Recipient{hook, refusing},
	})
	s.must(err)
	var done notification.Result
	s.must(run.Get(s.Context(), &done))
	if want := "notified: webhook; given up: Slack channel gone: Slack answered channel_not_found"; done.Summary != want {
		s.Errorf("it says %q, want %q", done.Summary, want)
	}
	s.keep("notification-given-up", "")
}
