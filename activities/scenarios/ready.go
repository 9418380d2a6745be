package scenarios

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// showReady writes the conditions Ready and Stalled, which follow from the rest of the
// status.
func showReady(s *v1beta1.DisruptionScenarioStatus, generation int64) {
	ready := metav1.Condition{
		Type: v1beta1.ConditionReady, Status: metav1.ConditionFalse, ObservedGeneration: generation,
		Reason: cmp.Or(string(s.Phase), "Pending"), Message: s.Message,
	}
	if s.Phase.Over() {
		ready.Reason = cmp.Or(string(s.Verdict), string(s.Phase))
	}
	stalled := ready
	stalled.Type, stalled.Status = v1beta1.ConditionStalled, metav1.ConditionTrue
	switch passed := s.Phase == v1beta1.ScenarioFinished && s.Verdict == v1beta1.VerdictPassed; {
	case passed:
		ready.Status = metav1.ConditionTrue
		meta.RemoveStatusCondition(&s.Conditions, v1beta1.ConditionStalled)
	case s.Phase.Over():
		meta.SetStatusCondition(&s.Conditions, stalled)
	}
	meta.SetStatusCondition(&s.Conditions, ready)
}
