package status

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// CleanerWait describes the chaos pods whose cleaners wait for room on their nodes, of
// which first is one.
func CleanerWait(n int, first chaospod.LeftPod) string {
	text := fmt.Sprintf("target %s: %s", first.Target, first.Why)
	if n > 1 {
		text = fmt.Sprintf("%s wait; %s", chaospod.ForPeople(n), text)
	}
	return text
}

// ShowCleanerWait returns a change that shows for what cleaners wait, or that they do not
// wait any more if wait is empty. A disruption that is clean stays so: an abandoned attempt
// may still write.
func ShowCleanerWait(wait string) func(*v1beta1.Disruption) {
	return func(d *v1beta1.Disruption) {
		shown := meta.FindStatusCondition(d.Status.Conditions, v1beta1.ConditionCleaned)
		switch {
		case shown != nil && shown.Status == metav1.ConditionTrue:
		case wait != "":
			SetCondition(d, v1beta1.ConditionCleaned, metav1.ConditionFalse, v1beta1.ReasonWaitingForRoom, wait)
		case shown != nil && shown.Reason == v1beta1.ReasonWaitingForRoom:
			meta.RemoveStatusCondition(&d.Status.Conditions, v1beta1.ConditionCleaned)
		}
	}
}
