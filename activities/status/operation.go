package status

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Operation is the content of the condition Operating.
type Operation struct {
	// Given is true when the disruption waits for no target.
	Given           bool
	Reason, Message string
}

// ShowOperation writes the progress of a disruption that is an operation on its
// targets.
func ShowOperation(d *v1beta1.Disruption, o Operation) {
	given := metav1.ConditionFalse
	if o.Given {
		given = metav1.ConditionTrue
	}
	SetCondition(d, v1beta1.ConditionOperating, given, o.Reason, o.Message)
}
