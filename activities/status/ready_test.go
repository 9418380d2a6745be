package status

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// How programs that do not know Squall see a disruption, by the library of kubectl,
// Flux and others.
func TestWhatKstatusSeesOfADisruption(t *testing.T) {
	injected := func(d *v1beta1.Disruption) { now := metav1.Now(); d.Status.InjectedTime = &now }
	phase := func(phase v1beta1.Phase) func(*v1beta1.Disruption) {
		return func(d *v1beta1.Disruption) { d.Status.Phase = phase }
	}
	finished := func(ending string, notVerified ...string) func(*v1beta1.Disruption) {
		return func(d *v1beta1.Disruption) { ShowFinished(d, FinishInput{Ending: ending, NotVerified: notVerified}) }
	}
	verdict := func(verdict v1beta1.Verdict) func(*v1beta1.Disruption) {
		return func(d *v1beta1.Disruption) {
			d.Status.SteadyState = &v1beta1.SteadyStateStatus{Verdict: verdict, Summary: "a probe was lost"}
		}
	}
	type changes []func(*v1beta1.Disruption)
	for name, c := range map[string]struct {
		changes changes
		want    status.Status
	}{
		"chosen":                      {changes{phase(v1beta1.PhaseSelecting)}, status.InProgressStatus},
		"being injected":              {changes{phase(v1beta1.PhaseInjecting)}, status.InProgressStatus},
		"injected":                    {changes{injected, phase(v1beta1.PhaseHolding)}, status.CurrentStatus},
		"being cleaned":               {changes{injected, phase(v1beta1.PhaseCleaning)}, status.InProgressStatus},
		"over":                        {changes{injected, finished("expired")}, status.CurrentStatus},
		"over, with a steady state":   {changes{injected, finished("expired"), verdict(v1beta1.VerdictPassed)}, status.CurrentStatus},
		"over, and its probes failed": {changes{injected, finished("expired"), verdict(v1beta1.VerdictFailed)}, status.FailedStatus},
		"aborted":                     {changes{injected, finished("expired"), verdict(v1beta1.VerdictAborted)}, status.FailedStatus},
		"never injected":              {changes{finished("expired")}, status.FailedStatus},
		"a dry run":                   {changes{func(d *v1beta1.Disruption) { d.Spec.DryRun = true }, finished("expired")}, status.CurrentStatus},
		"its workflow failed":         {changes{injected, finished(v1beta1.EndingFailed + "no such host")}, status.FailedStatus},
		"a node was not searched":     {changes{injected, finished("expired", "node a")}, status.FailedStatus},
		"rejected":                    {changes{func(d *v1beta1.Disruption) { ShowRejected(d, "InvalidSpec", "no fault") }}, status.FailedStatus},
		"stuck": {changes{injected, func(d *v1beta1.Disruption) {
			ShowReport(d, Report{Phase: v1beta1.PhaseStuck, Ending: "expired", Remaining: 1, Left: []chaospod.LeftPod{{Pod: "chaos-1", Why: "the disk is read-only"}}})
		}}, status.FailedStatus},
		"stuck, and resumed": {changes{injected, func(d *v1beta1.Disruption) {
			ShowReport(d, Report{Phase: v1beta1.PhaseStuck, Ending: "expired", Remaining: 1, Left: []chaospod.LeftPod{{Pod: "chaos-1", Why: "the disk is read-only"}}})
			showReady(d)
			ShowReport(d, Report{Phase: v1beta1.PhaseCleaning, Ending: "expired"})
		}}, status.InProgressStatus},
	} {
		t.Run(name, func(t *testing.T) {
			d := &v1beta1.Disruption{TypeMeta: metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: "Disruption"}}
			d.Generation, d.Status.ObservedGeneration = 1, 1
			for _, change := range c.changes {
				change(d)
			}
			showReady(d)
			document, err := json.Marshal(d)
			if err != nil {
				t.Fatal(err)
			}
			object := &unstructured.Unstructured{}
			if err := object.UnmarshalJSON(document); err != nil {
				t.Fatal(err)
			}
			got, err := status.Compute(object)
			if err != nil || got.Status != c.want || got.Message == "" && c.want == status.FailedStatus {
				t.Errorf("Compute() = %+v, %v, want %s and why\nconditions %+v", got, err, c.want, d.Status.Conditions)
			}
		})
	}
}

// Reasons stand in tables and in columns.
func TestConditionsAreOneLine(t *testing.T) {
	d := &v1beta1.Disruption{}
	SetCondition(d, v1beta1.ConditionInjected, metav1.ConditionFalse, "InjectionFailed", "dial: refused\n  dial: refused\nno answer")
	if got, want := d.Status.Conditions[0].Message, "dial: refused; no answer"; got != want {
		t.Errorf("message = %q, want %q", got, want)
	}
}
