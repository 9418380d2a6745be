package notify

import (
	"context"
	"fmt"

	"go.temporal.io/sdk/activity"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/squall-chaos/squall/activities/metric"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// Activities has the clients for notifications. Its methods are registered with a
// Temporal worker under their own names.
type Activities struct {
	Settings Settings
	Kube     kubernetes.Interface
}

// Delivery is a notification for one recipient.
type Delivery struct {
	Notification Notification `json:"notification"`
	To           Recipient    `json:"to"`
}

// Undelivered is a notification that is no longer retried.
type Undelivered struct {
	Delivery Delivery `json:"delivery"`
	Why      string   `json:"why"`
}

// Notify makes one attempt to notify one recipient. A recipient may receive the same ID
// twice, if the first answer was lost.
func (a *Activities) Notify(ctx context.Context, in Delivery) error {
	ctx, stop := untilWorkerStops(ctx)
	defer stop()
	var err error
	switch in.To.Way {
	case Webhook:
		err = a.Settings.postEvent(ctx, in.Notification)
	case SlackChannel, SlackUser:
		err = a.Settings.postSlack(ctx, in.To, in.Notification)
	default:
		err = fmt.Errorf("this worker does not know the notification type %q; a newer worker does", in.To.Way)
	}
	if err == nil {
		metric.Notifications.Add(ctx, 1, "sent")
	}
	return err
}

// GiveUpNotification counts a notification that was not delivered, and records an event
// on the disruption or DisruptionScenario.
func (a *Activities) GiveUpNotification(ctx context.Context, in Undelivered) error {
	metric.Notifications.Add(ctx, 1, "given-up")
	n := in.Delivery.Notification
	log := activity.GetLogger(ctx)
	log.Warn("notification given up", "id", n.ID, "to", in.Delivery.To.String(), "why", in.Why)
	events := status.Events{Kube: a.Kube, Lost: func(ctx context.Context, event *corev1.Event, err error) {
		metric.EventsLost.Add(ctx, 1, "")
		log.Warn("event not recorded", "reason", event.Reason, "message", event.Message, "error", err)
	}}
	message := fmt.Sprintf("%s was not notified of %s: %s", in.Delivery.To, n.Reason, in.Why)
	key := n.ID + " " + in.Delivery.To.String()
	if n.ObjectWord() == scenario {
		named := &v1beta1.DisruptionScenario{ObjectMeta: status.Named(n.Object).ObjectMeta}
		events.Of(ctx, v1beta1.KindDisruptionScenario, named, corev1.EventTypeWarning, "NotNotified", message, key)
		return nil
	}
	events.Warn(ctx, status.Named(n.Object), "NotNotified", message, key)
	return nil
}

// untilWorkerStops ends ctx when the worker stops: a recipient that does not answer
// must not delay that. Another worker makes the next attempt.
func untilWorkerStops(ctx context.Context) (context.Context, context.CancelFunc) {
	if !activity.IsActivity(ctx) {
		return ctx, func() {}
	}
	stopped := activity.GetWorkerStopChannel(ctx)
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-stopped:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
