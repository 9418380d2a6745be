package survival

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/world"
)

// TestScenario (rules C10, C11): whichever program is killed at whatever moment,
// each disruption of a scenario is created once, an approval given meanwhile
// counts, and a deletion ends what runs.
func TestScenario(t *testing.T) {
	s := begin(t, 5)
	template := v1beta1.ScenarioDisruption{Template: s.Disruption("", 2).Spec}
	plan := &v1beta1.DisruptionScenario{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Shop, Name: "gameday"},
		Spec: v1beta1.DisruptionScenarioSpec{Steps: []v1beta1.ScenarioStep{
			{Name: "both", OnFailure: v1beta1.OnFailureContinue, Disruptions: []v1beta1.ScenarioDisruption{template, template}},
			{Name: "look", Approval: &v1beta1.ScenarioApproval{Message: "is the shop open?"}},
			{Name: "skipped", When: &v1beta1.ScenarioCondition{Step: "both", Verdict: []v1beta1.Verdict{v1beta1.VerdictPassed}}, Disruptions: []v1beta1.ScenarioDisruption{template}},
			{Name: "last", Disruptions: []v1beta1.ScenarioDisruption{template}},
		}},
	}
	s.Must(s.Disruptions.Create(t.Context(), plan))
	first, second := s.child(plan, 0, 0), s.child(plan, 0, 1)
	s.worker.Kill()
	s.worker.Start()
	s.Injected(first)
	s.Injected(second)
	uids := [2]types.UID{first.UID, second.UID}

	s.worker.Kill()
	for _, d := range []*v1beta1.Disruption{first, second} {
		s.Must(s.Disruptions.Delete(t.Context(), d.DeepCopy()))
	}
	s.worker.Start()
	s.Vanishes(first)
	s.Vanishes(second)
	world.Eventually(t, s.Patience, "it waits for a person", func() bool {
		return s.readScenario(plan) && plan.Status.Phase == v1beta1.ScenarioSuspended
	})
	if runs := plan.Status.Steps[0].Disruptions; len(runs) != 2 || runs[0].UID != uids[0] || runs[1].UID != uids[1] || plan.Status.Steps[0].Verdict != v1beta1.VerdictAborted {
		t.Errorf("the first step is %+v, want the disruptions %s, and Aborted as they were deleted", plan.Status.Steps[0], uids)
	}

	s.bridge.Kill()
	s.Must(s.Disruptions.Patch(t.Context(), plan.DeepCopy(), client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"`+v1beta1.AnnotationApprovedBy+`look":"ann"}}}`))))
	s.bridge.Start()
	last := s.child(plan, 3, 0)
	s.Injected(last)
	s.readScenario(plan)
	if steps := plan.Status.Steps; len(steps) != 4 || steps[1].ApprovedBy != "ann" || steps[2].Phase != v1beta1.ScenarioSkipped {
		t.Errorf("steps %+v, want the approval by ann, and the third skipped", steps)
	}
	s.Must(s.Disruptions.Delete(t.Context(), plan.DeepCopy()))
	s.worker.Kill()
	s.bridge.Kill()
	s.worker.Start()
	s.bridge.Start()
	s.Vanishes(last)
	s.NothingLeft(last)
	world.Eventually(t, s.Patience, "the scenario is gone, after its disruptions", func() bool { return !s.readScenario(plan) })
}

// child waits for a disruption of a scenario.
func (w survival) child(plan *v1beta1.DisruptionScenario, step, i int) *v1beta1.Disruption {
	d := &v1beta1.Disruption{}
	world.Eventually(w, w.Patience, plan.ChildName(step, i)+" begins", func() bool {
		err := w.Disruptions.Get(w.Context(), client.ObjectKey{Namespace: plan.Namespace, Name: plan.ChildName(step, i)}, d)
		w.Must(client.IgnoreNotFound(err))
		return err == nil
	})
	return d
}

// readScenario is false when it is gone.
func (w survival) readScenario(plan *v1beta1.DisruptionScenario) bool {
	err := w.Disruptions.Get(w.Context(), client.ObjectKeyFromObject(plan), plan)
	w.Must(client.IgnoreNotFound(err))
	return err == nil
}
