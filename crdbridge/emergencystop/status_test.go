package emergencystop

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// The status of a stop names the obstacle it waits for.
func TestAStopNamesWhyNothingGoesOn(t *testing.T) {
	for _, test := range []struct{ reason, clean, message string }{
		{"TemporalReached", "Cleaning", "disruptions that have not ended: 1"},
		{"TemporalUnreachable", "TemporalUnreachable", "Temporal cannot be reached"},
		{"NoWorker", "NoWorker", "no worker runs"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			d := v1beta1.Disruption{Status: v1beta1.DisruptionStatus{Conditions: []metav1.Condition{
				{Type: v1beta1.ConditionOrchestrated, Status: metav1.ConditionFalse, Reason: test.reason},
			}}}
			d.Finalizers = []string{v1beta1.DisruptionFinalizer}
			stop := v1beta1.EmergencyStop{}
			s := &stopSnapshot{stops: []v1beta1.EmergencyStop{stop}, disruptions: []v1beta1.Disruption{d}}
			clean := s.status(&stop).Conditions[0]
			if clean.Reason != test.clean || !strings.Contains(clean.Message, test.message) {
				t.Errorf("Clean is %s, %q; want %s with %q", clean.Reason, clean.Message, test.clean, test.message)
			}
		})
	}
}
