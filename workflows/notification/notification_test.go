package notification

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/squall-chaos/squall/activities/notify"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// Rule M3: a webhook that fails for an hour, with some twenty attempts, is notified in
// the end. A webhook that fails for good is given up after a day, and an event records that.
func TestANotificationIsTriedForADay(t *testing.T) {
	for _, c := range []struct {
		away    time.Duration
		want    string
		givenUp int
	}{
		{time.Hour, "notified: webhook", 0},
		{48 * time.Hour, "notified: none; given up: webhook: the webhook answered 500", 1},
	} {
		t.Run("away for "+c.away.String(), func(t *testing.T) {
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestWorkflowEnvironment()
			env.RegisterActivity(&notify.Activities{})
			began, attempts, givenUp := env.Now(), 0, 0
			env.OnActivity(a.Notify, mock.Anything, mock.Anything).Return(func(_ context.Context, in notify.Delivery) error {
				if attempts++; in.Notification.ID != "u1/stuck-1" {
					t.Errorf("attempt %d has the ID %s", attempts, in.Notification.ID)
				}
				if env.Now().Sub(began) < c.away {
					return temporal.NewApplicationError("the webhook answered 500", "NotDelivered")
				}
				return nil
			})
			env.OnActivity(a.GiveUpNotification, mock.Anything, mock.Anything).Return(func(_ context.Context, in notify.Undelivered) error {
				givenUp++
				return nil
			})
			env.ExecuteWorkflow(Workflow, Input{Notification: notify.Notification{ID: "u1/stuck-1"}, To: []notify.Recipient{{Way: notify.Webhook, Least: v1beta1.NotificationInfo}}})
			var done Result
			if err := env.GetWorkflowResult(&done); err != nil {
				t.Fatal(err)
			}
			if done.Summary != c.want || givenUp != c.givenUp || attempts < 15 || attempts > 400 {
				t.Errorf("%q after %d attempts, given up %d times; want %q", done.Summary, attempts, givenUp, c.want)
			}
		})
	}
}
