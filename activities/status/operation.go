package status

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Operation is what the condition Operating says.
type Operation struct {
	// Given is true when no target is waited for.
	Given           bool
	Reason, Message string
}

// ShowOperation writes how far a disruption has come that is an operation on its targets.
func ShowOperation(d *v1beta1.Disruption, o Operation) {
	given := metav1.ConditionFalse
	if o.Given {
		given = metav1.ConditionTrue
	}
	SetCondition(d, v1beta1.ConditionOperating, given, o.Reason, o.Message)
}
