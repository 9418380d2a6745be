package activities

import (
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// A deleted disruption has no condition that a user could read, so an event names the nodes
// that may not be clean.
func TestFinishRecordsUnverifiedNodes(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(1, nil)
	ref := c.started("calm", all)
	for _, pod := range c.ChaosPodsOf(ref) {
		c.removes(&pod)
	}
	in := status.FinishInput{Disruption: ref, Ending: v1beta1.EndingDeleted, NotVerified: []string{"node n1: the node is not ready, so it could not be searched"}}
	if left := do[int](c, c.Finish, in); left != 0 {
		t.Fatalf("%d chaos pods are left", left)
	}
	c.wantEvent("NotVerified", "node n1: the node is not ready")
	if events := c.EventsOf("Cleaned"); len(events) != 0 {
		t.Errorf("event %q though a node may not be clean", events[0].Message)
	}
}

// rules C6, C9, C10: before a disruption's finalizer is removed, its owner has recorded
// that it began.
func TestFinishNotesARun(t *testing.T) {
	c := newCluster(t)
	one := intstr.FromInt32(1)
	spec := v1beta1.DisruptionSpec{Faults: v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}}, Count: &one, Selector: map[string]string{"app": "web"}}
	named := metav1.ObjectMeta{Name: "parent", Namespace: c.Shop}
	made := func(resource string, parent runtime.Object) {
		c.Helper()
		c.Must(c.Plain.Post().Namespace(c.Shop).Resource(resource).Body(parent).Do(t.Context()).Into(parent))
	}
	s := &v1beta1.DisruptionScenario{ObjectMeta: named, Spec: v1beta1.DisruptionScenarioSpec{Steps: []v1beta1.ScenarioStep{
		{Name: "first", Disruptions: []v1beta1.ScenarioDisruption{{Template: spec}, {Template: spec}}},
	}}}
	made("disruptionscenarios", s)
	s.Status = v1beta1.DisruptionScenarioStatus{Phase: v1beta1.ScenarioRunning, Steps: []v1beta1.ScenarioStepStatus{
		{Name: "first", Phase: v1beta1.ScenarioRunning, StartedAt: metav1.Now()},
	}}
	c.Must(c.Plain.Put().Namespace(c.Shop).Resource("disruptionscenarios").Name(s.Name).SubResource("status").Body(s).Do(t.Context()).Error())
	target := v1beta1.TargetResource{Kind: v1beta1.TargetDeployment, Name: "web"}
	cron := &v1beta1.DisruptionCron{ObjectMeta: named, Spec: v1beta1.DisruptionCronSpec{Schedule: "@daily", TargetResource: target, DisruptionTemplate: spec}}
	made("disruptioncrons", cron)
	rollout := &v1beta1.DisruptionRollout{ObjectMeta: named, Spec: v1beta1.DisruptionRolloutSpec{TargetResource: target, DisruptionTemplate: spec}}
	made("disruptionrollouts", rollout)
	for _, test := range []struct {
		kind, resource, name string
		parent               metav1.Object
		noted                func() []types.UID
	}{
		{v1beta1.KindDisruptionScenario, "disruptionscenarios", s.ChildName(0, 1), s, func() (uids []types.UID) {
			for _, run := range s.Status.Steps[0].Disruptions {
				uids = append(uids, run.UID)
			}
			return uids
		}},
		{v1beta1.KindDisruptionCron, "disruptioncrons", cron.ChildName(), cron, func() []types.UID { return runUIDs(cron.Status.History) }},
		{v1beta1.KindDisruptionRollout, "disruptionrollouts", rollout.ChildName(), rollout, func() []types.UID { return runUIDs(rollout.Status.History) }},
	} {
		t.Run(test.kind, func(t *testing.T) {
			d := &v1beta1.Disruption{ObjectMeta: metav1.ObjectMeta{
				Name: test.name, Namespace: c.Shop, Finalizers: []string{v1beta1.DisruptionFinalizer},
				Annotations:     map[string]string{v1beta1.AnnotationScheduledAt: "2026-11-25T12:00:00Z"},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(test.parent, v1beta1.GroupVersion.WithKind(test.kind))},
			}, Spec: spec}
			made("disruptions", d)
			c.Must(c.Plain.Delete().Namespace(c.Shop).Resource("disruptions").Name(d.Name).Do(t.Context()).Error())
			do[int](c, c.Finish, status.FinishInput{Disruption: d.Ref()})
			if _, err := c.Disruptions.Get(t.Context(), d.Ref()); !apierrors.IsNotFound(err) {
				t.Errorf("still there after Finish: %v", err)
			}
			c.Must(c.Plain.Get().Namespace(c.Shop).Resource(test.resource).Name("parent").Do(t.Context()).Into(test.parent.(runtime.Object)))
			if got := test.noted(); !slices.Equal(got, []types.UID{d.UID}) {
				t.Errorf("noted %v, want %s", got, d.UID)
			}
		})
	}
}

func runUIDs(runs []v1beta1.DisruptionRun) (uids []types.UID) {
	for _, run := range runs {
		uids = append(uids, run.UID)
	}
	return uids
}

func TestWasInjected(t *testing.T) {
	c := newCluster(t)
	ref := c.Disruption("calm", nil)
	if do[bool](c, c.WasInjected, ref) {
		t.Error("one of which nothing was injected was injected")
	}
	c.Must(c.Objects.UpdateStatus(t.Context(), ref, func(d *v1beta1.Disruption) {
		now := metav1.Now()
		d.Status.InjectedTime = &now
	}))
	if !do[bool](c, c.WasInjected, ref) {
		t.Error("one with status.injectedTime was not injected")
	}
	ref.UID = "another"
	if do[bool](c, c.WasInjected, ref) {
		t.Error("a disruption that is gone counts as injected")
	}
}
