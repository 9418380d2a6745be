package contract

import (
	"fmt"
	"strings"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// NotificationWorkflowType is the registered name of the workflow that notifies people of
// one change of a disruption.
const NotificationWorkflowType = "Notification"

// NotificationTaskQueue is the queue of these workflows and their activities: however
// many wait for a recipient that does not answer, they take nothing from a cleaning.
const NotificationTaskQueue = "squall-notifications"

// NotificationID identifies the nth notification of a disruption for a reason. Recipients
// see it.
func NotificationID(ref v1beta1.DisruptionRef, reason string, nth int) string {
	return fmt.Sprintf("%s/%s-%d", ref.UID, strings.ToLower(reason), nth)
}

// NotificationWorkflowID is the ID of a notification's workflow: the same when it is
// started again.
func NotificationWorkflowID(ref v1beta1.DisruptionRef, id string) string {
	return fmt.Sprintf("notification/%s/%s/%s", ref.Namespace, ref.Name, id)
}
