package scenarios

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// How programs that do not know Squall see a DisruptionScenario.
func TestWhatKstatusSeesOfAScenario(t *testing.T) {
	for name, c := range map[string]struct {
		phase   v1beta1.ScenarioPhase
		verdict v1beta1.Verdict
		want    status.Status
	}{
		"running":            {v1beta1.ScenarioRunning, "", status.InProgressStatus},
		"waits for a person": {v1beta1.ScenarioSuspended, "", status.InProgressStatus},
		"passed":             {v1beta1.ScenarioFinished, v1beta1.VerdictPassed, status.CurrentStatus},
		"failed":             {v1beta1.ScenarioFinished, v1beta1.VerdictFailed, status.FailedStatus},
		"inconclusive":       {v1beta1.ScenarioFinished, v1beta1.VerdictInconclusive, status.FailedStatus},
		"rejected":           {v1beta1.ScenarioRejected, "", status.FailedStatus},
	} {
		t.Run(name, func(t *testing.T) {
			s := &v1beta1.DisruptionScenario{}
			s.APIVersion, s.Kind, s.Generation = v1beta1.GroupVersion.String(), "DisruptionScenario", 1
			s.Status.Phase, s.Status.Verdict, s.Status.Message = c.phase, c.verdict, "step one"
			showReady(&s.Status, s.Generation)
			once := s.DeepCopy()
			showReady(&s.Status, s.Generation)
			if diff := cmp.Diff(once, s); diff != "" {
				t.Errorf("a second time (-once +twice):\n%s", diff)
			}
			document, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			object := &unstructured.Unstructured{}
			if err := object.UnmarshalJSON(document); err != nil {
				t.Fatal(err)
			}
			if got, err := status.Compute(object); err != nil || got.Status != c.want {
				t.Errorf("Compute() = %+v, %v, want %s", got, err, c.want)
			}
		})
	}
}
