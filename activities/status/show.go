package status

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/text"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// ShowPlan returns a change that writes the plan for a disruption, as it began, into a
// status without one. carrier is the workflow that carries it out.
func ShowPlan(begun *v1beta1.Disruption, carrier v1beta1.WorkflowRef) func(*v1beta1.Disruption) {
	now := metav1.Now()
	return func(live *v1beta1.Disruption) {
		s := &live.Status
		if s.StartTime != nil {
			return
		}
		s.Phase, s.SpecHash, s.Kinds = v1beta1.PhasePending, begun.Spec.Hash(), begun.Spec.Kinds().String()
		s.ObservedGeneration = begun.Generation
		s.InjectionStatus = v1beta1.NotInjected
		s.StartTime, s.ExpiryTime = &now, &metav1.Time{Time: begun.Spec.Expiry(begun.CreationTimestamp.Time)}
		s.Workflow = &carrier
		SetCondition(live, v1beta1.ConditionAccepted, metav1.ConditionTrue, "WorkflowRunning", "workflow "+carrier.ID+" carries it out")
	}
}

// ShowRejected writes why a disruption will never be carried out.
func ShowRejected(d *v1beta1.Disruption, reason, why string) {
	d.Status.Phase, d.Status.SpecHash = v1beta1.PhaseRejected, d.Spec.Hash()
	d.Status.InjectionStatus, d.Status.Ending = v1beta1.NotInjected, why
	SetCondition(d, v1beta1.ConditionAccepted, metav1.ConditionFalse, reason, why)
}

// SetCondition sets a condition for the generation that is carried out.
func SetCondition(d *v1beta1.Disruption, conditionType string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&d.Status.Conditions, metav1.Condition{
		Type: conditionType, Status: status, Reason: reason, Message: text.Shorten(text.Line(message), 32000),
		ObservedGeneration: d.Status.ObservedGeneration,
	})
}
