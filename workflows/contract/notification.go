package contract

import (
	"fmt"
	"strings"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// NotificationWorkflowType is the registered name of the workflow that tells people
// of one thing that happened to a disruption.
const NotificationWorkflowType = "Notification"

// NotificationTaskQueue is where it runs, with its activities: however many wait for
// somebody who does not answer, they take nothing from a cleaning.
const NotificationTaskQueue = "squall-notifications"

// NotificationID is what happened to a disruption for the nth time. Whoever is told
// sees it.
func NotificationID(ref v1beta1.DisruptionRef, reason string, nth int) string {
	return fmt.Sprintf("%s/%s-%d", ref.UID, strings.ToLower(reason), nth)
}

// NotificationWorkflowID is the workflow of a notification: one that is started
// again is the same.
func NotificationWorkflowID(ref v1beta1.DisruptionRef, id string) string {
	return fmt.Sprintf("notification/%s/%s/%s", ref.Namespace, ref.Name, id)
}
