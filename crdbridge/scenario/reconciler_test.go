package scenario

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/sdk/activity"
	temporalclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/squall-chaos/squall/activities/scenarios"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/emergencystop"
	"github.com/squall-chaos/squall/crdbridge/internal/bridgetest"
	"github.com/squall-chaos/squall/crdbridge/temporal"
	"github.com/squall-chaos/squall/test/apiserver"
	"github.com/squall-chaos/squall/test/temporalserver"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/scenario"
	"github.com/squall-chaos/squall/workflows/start"
)

func TestMain(m *testing.M) { bridgetest.Main(m) }

// bridge has the controller of scenarios, a real Temporal, and a worker that runs
// scenarios. The tests play the disruptions of the scenarios.
type bridge struct {
	*bridgetest.Bridge
	there temporalclient.Client
	kube  kubernetes.Interface
}

func begin(t *testing.T) *bridge {
	t.Helper()
	b := &bridge{there: temporalserver.Shared(t).Dial(temporalclient.DefaultNamespace)}
	b.Bridge = bridgetest.New(t, bridgetest.Controllers(func(shared *bridgetest.Bridge, m manager.Manager, _ *temporal.Workflows) error {
		workflows, err := temporal.Setup(m, b.there, prometheus.NewRegistry(), bridgetest.PollInterval)
		if err != nil {
			return err
		}
		go func() { // nothing else reads what concerns Disruptions
			for {
				select {
				case <-workflows.Problems.Changed:
				case <-t.Context().Done():
					return
				}
			}
		}()
		return errors.Join(Setup(m, workflows), emergencystop.Setup(m, shared.ChaosNamespace, shared.Watched))
	}))
	config := apiserver.Start(t)
	objects, err := status.NewDisruptions(config)
	b.Must(err)
	kube, err := kubernetes.NewForConfig(config)
	b.Must(err)
	b.kube = kube
	w := worker.New(b.there, contract.TaskQueue, worker.Options{})
	w.RegisterWorkflowWithOptions(scenario.Workflow, workflow.RegisterOptions{Name: contract.ScenarioWorkflowType})
	w.RegisterActivity(&scenarios.Activities{Client: objects.Client(), Stops: objects, Temporal: b.there, Events: status.Events{Kube: kube, Lost: func(_ context.Context, event *corev1.Event, err error) {
		t.Errorf("event %s is lost: %v", event.Reason, err)
	}}})
	b.Must(w.Start())
	t.Cleanup(w.Stop)
	b.Start()
	return b
}

// step has count disruptions.
func step(name string, count int) v1beta1.ScenarioStep {
	one := intstr.FromInt32(1)
	s := v1beta1.ScenarioStep{Name: name}
	for range count {
		s.Disruptions = append(s.Disruptions, v1beta1.ScenarioDisruption{Template: v1beta1.DisruptionSpec{
			Faults: v1beta1.Faults{ContainerFailure: &v1beta1.ContainerFailure{}}, Count: &one,
			Selector: map[string]string{"app": "shop"}, Duration: &v1beta1.Duration{Duration: time.Minute},
		}})
	}
	return s
}

func (b *bridge) create(name string, steps ...v1beta1.ScenarioStep) *v1beta1.DisruptionScenario {
	b.T.Helper()
	return b.createSpec(name, v1beta1.DisruptionScenarioSpec{Steps: steps})
}

func (b *bridge) createSpec(name string, spec v1beta1.DisruptionScenarioSpec) *v1beta1.DisruptionScenario {
	b.T.Helper()
	s := &v1beta1.DisruptionScenario{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: name}, Spec: spec}
	b.Must(b.Kube.Create(b.T.Context(), s))
	left := s.DeepCopy()
	b.T.Cleanup(func() {
		_ = b.Kube.Delete(context.Background(), left)
		_ = b.Kube.Patch(context.Background(), left, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
	})
	return s
}

// see reads s again; false if it is gone.
func (b *bridge) see(s *v1beta1.DisruptionScenario) bool {
	b.T.Helper()
	now := &v1beta1.DisruptionScenario{}
	err := b.Kube.Get(b.T.Context(), client.ObjectKeyFromObject(s), now)
	b.Must(client.IgnoreNotFound(err))
	*s = *now.DeepCopy()
	return err == nil
}

// waitsFor waits until s is in a phase of a step.
func (b *bridge) waitsFor(s *v1beta1.DisruptionScenario, phase v1beta1.ScenarioPhase, step string) {
	b.T.Helper()
	name := s.Name
	bridgetest.Eventually(b.T, bridgetest.Soon, name+" is "+string(phase)+" "+step, func() bool {
		return b.see(s) && s.Status.Phase == phase && s.Status.Step == step
	})
}

// child reads a disruption of s, and gives it the finalizer that its workflow would remove.
func (b *bridge) child(s *v1beta1.DisruptionScenario, step, i int) *v1beta1.Disruption {
	b.T.Helper()
	d := &v1beta1.Disruption{}
	name := s.ChildName(step, i)
	bridgetest.Eventually(b.T, bridgetest.Soon, name+" is created", func() bool {
		err := b.Kube.Get(b.T.Context(), client.ObjectKey{Namespace: s.Namespace, Name: name}, d)
		b.Must(client.IgnoreNotFound(err))
		return err == nil
	})
	if !s.Owns(d) || d.Labels[v1beta1.LabelScenario] != s.Name {
		b.T.Errorf("%s is not marked as one of %s: %+v", name, s.Name, d.ObjectMeta)
	}
	b.Must(b.Kube.Patch(b.T.Context(), d, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["`+v1beta1.DisruptionFinalizer+`"]}}`))))
	b.T.Cleanup(func() { b.release(d) })
	return d
}

// finish ends a disruption, as its own workflow does.
func (b *bridge) finish(d *v1beta1.Disruption, ending string) {
	b.T.Helper()
	b.Must(b.Kube.Status().Patch(b.T.Context(), d.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Finished","ending":"`+ending+`","injectionStatus":"PreviouslyInjected"}}`))))
	b.release(d)
}

// release removes the finalizer.
func (b *bridge) release(d *v1beta1.Disruption) {
	err := b.Kube.Patch(context.Background(), d.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
	b.Must(client.IgnoreNotFound(err))
}

// goes waits until a disruption is being deleted, which its finalizer still holds.
func (b *bridge) goes(d *v1beta1.Disruption) {
	b.T.Helper()
	bridgetest.Eventually(b.T, bridgetest.Soon, d.Name+" is being deleted", func() bool {
		now := &v1beta1.Disruption{}
		b.Must(b.Kube.Get(b.T.Context(), client.ObjectKeyFromObject(d), now))
		return now.DeletionTimestamp != nil
	})
}

// result waits for the end of the workflow of s.
func (b *bridge) result(s *v1beta1.DisruptionScenario) (r scenario.Result) {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.T.Context(), bridgetest.Soon)
	defer cancel()
	b.Must(b.there.GetWorkflow(ctx, id(s), "").Get(ctx, &r))
	return r
}

// wantEvents wants the events of s, by reason and the first word of the message.
func (b *bridge) wantEvents(s *v1beta1.DisruptionScenario, want ...string) {
	b.T.Helper()
	events, err := b.kube.CoreV1().Events(s.Namespace).List(b.T.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(s.UID)})
	b.Must(err)
	var got []string
	for _, event := range events.Items {
		first, _, _ := strings.Cut(strings.ReplaceAll(event.Message, ":", " "), " ")
		got = append(got, event.Reason+" "+first)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		b.T.Errorf("events %q, want %q", got, want)
	}
}

func id(s *v1beta1.DisruptionScenario) string {
	return contract.ScenarioWorkflowID(contract.ScenarioRef{Namespace: s.Namespace, Name: s.Name, UID: s.UID})
}

// Disruptions side by side, a wait, an approval in an annotation, and a disruption
// after it.
func TestAScenarioIsCarriedOut(t *testing.T) {
	b := begin(t)
	s := b.create("gameday", step("both", 2), v1beta1.ScenarioStep{Name: "rest", Wait: &v1beta1.Duration{Duration: time.Second}},
		v1beta1.ScenarioStep{Name: "look", Approval: &v1beta1.ScenarioApproval{Message: "is the shop well?"}}, step("last", 1))
	one, two := b.child(s, 0, 0), b.child(s, 0, 1)
	b.waitsFor(s, v1beta1.ScenarioRunning, "both")
	if !slices.Contains(s.Finalizers, v1beta1.CronFinalizer) {
		t.Errorf("finalizers %v", s.Finalizers)
	}
	b.finish(one, "expired")
	b.finish(two, "expired")
	b.waitsFor(s, v1beta1.ScenarioSuspended, "look")
	if !strings.Contains(s.Status.Message, "is the shop well?") || len(s.Status.Steps) != 3 || s.Status.Steps[0].Verdict != v1beta1.VerdictPassed ||
		s.Status.Steps[0].Disruptions[1].Ending != "expired" || s.Status.Steps[1].EndedAt.Sub(s.Status.Steps[1].StartedAt.Time) < time.Second {
		t.Errorf("status %+v", s.Status)
	}
	b.Must(b.Kube.Patch(t.Context(), s.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+v1beta1.AnnotationApprovedBy+`look":"ann"}}}`))))
	last := b.child(s, 3, 0)
	b.finish(last, "expired")
	b.waitsFor(s, v1beta1.ScenarioFinished, "")
	if s.Status.Verdict != v1beta1.VerdictPassed || s.Status.Steps[2].ApprovedBy != "ann" {
		t.Errorf("status %+v", s.Status)
	}
	if r := b.result(s); r.Verdict != v1beta1.VerdictPassed {
		t.Errorf("result %+v", r)
	}
	b.wantEvents(s, "StepBegan both", "StepBegan rest", "ApprovalAwaited look", "StepBegan last", "Passed All")
	b.Must(b.Kube.Delete(t.Context(), s.DeepCopy()))
	bridgetest.Eventually(t, bridgetest.Soon, "it goes", func() bool { return !b.see(s) })
}

// A deleted scenario deletes its disruptions, and disappears after the last.
func TestADeletedScenarioWaitsForItsDisruptions(t *testing.T) {
	b := begin(t)
	s := b.create("gameday", step("both", 2), step("never", 1))
	made := s.DeepCopy()
	one, two := b.child(s, 0, 0), b.child(s, 0, 1)
	b.waitsFor(s, v1beta1.ScenarioRunning, "both")
	b.finish(one, "expired")
	b.Must(b.Kube.Delete(t.Context(), s.DeepCopy()))
	b.goes(two)
	b.waitsFor(s, v1beta1.ScenarioStopping, "both")
	b.release(two)
	bridgetest.Eventually(t, bridgetest.Soon, "it goes", func() bool { return !b.see(s) })
	if r := b.result(made); r.Verdict != v1beta1.VerdictAborted {
		t.Errorf("result %+v", r)
	}
	err := b.Kube.Get(t.Context(), client.ObjectKey{Namespace: made.Namespace, Name: made.ChildName(1, 0)}, &v1beta1.Disruption{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the next step began: %v", err)
	}
}

// A scenario that is stopped in Temporal stays to be read. So does one that was terminated
// there, and it begins nothing twice.
func TestAScenarioIsStoppedInTemporal(t *testing.T) {
	b := begin(t)
	s := b.create("gameday", step("first", 1), step("never", 1))
	d := b.child(s, 0, 0)
	b.waitsFor(s, v1beta1.ScenarioRunning, "first")
	b.Must(b.there.TerminateWorkflow(t.Context(), id(s), "", "a person did it"))
	bridgetest.Eventually(t, bridgetest.Soon, "another workflow has begun", func() bool {
		found, err := b.there.DescribeWorkflowExecution(t.Context(), id(s), "")
		b.Must(err)
		return found.WorkflowExecutionInfo.CloseTime == nil
	})
	b.Must(start.SignalScenario(t.Context(), b.there, contract.ScenarioRef{Namespace: s.Namespace, Name: s.Name, UID: s.UID}, contract.SignalEnd, contract.End{Reason: "the sale begins"}))
	b.goes(d)
	b.release(d)
	b.waitsFor(s, v1beta1.ScenarioFinished, "")
	if s.Status.Verdict != v1beta1.VerdictAborted || !strings.Contains(s.Status.Message, "the sale begins") || len(s.Status.Steps) != 1 || s.Status.Steps[0].Disruptions[0].UID != d.UID {
		t.Errorf("status %+v", s.Status)
	}
}

// A scenario with probes shows that no program runs them, until one does.
func TestAScenarioWithoutAProber(t *testing.T) {
	b := begin(t)
	s := b.create("gameday", step("first", 1))
	ready := v1beta1.ProbeHandler{PodsReady: &v1beta1.PodsReadyProbe{Selector: map[string]string{"app": "shop"}}}
	probed := b.createSpec("probed", v1beta1.DisruptionScenarioSpec{
		Steps:       []v1beta1.ScenarioStep{step("first", 1)},
		SteadyState: &v1beta1.SteadyState{Probes: []v1beta1.Probe{{Name: "shop", ProbeHandler: ready}}},
	})
	orchestrated := func(status metav1.ConditionStatus, reason, text string) {
		t.Helper()
		bridgetest.Eventually(t, 2*time.Minute, "the scenario with probes shows "+reason, func() bool {
			b.see(probed)
			c := meta.FindStatusCondition(probed.Status.Conditions, v1beta1.ConditionOrchestrated)
			return c != nil && c.Status == status && c.Reason == reason && strings.Contains(c.Message, text)
		})
	}
	orchestrated(metav1.ConditionFalse, "NoProber", "Deployment squall-probes")
	b.waitsFor(s, v1beta1.ScenarioRunning, "first")
	if c := meta.FindStatusCondition(s.Status.Conditions, v1beta1.ConditionOrchestrated); c != nil {
		t.Errorf("the scenario without probes has the condition %+v", c)
	}
	if len(probed.Status.Steps) > 0 {
		t.Errorf("steps %+v began, want none before the probes are asked", probed.Status.Steps)
	}
	w := worker.New(b.there, contract.ProbeTaskQueue, worker.Options{})
	w.RegisterActivityWithOptions(func() error { return nil }, activity.RegisterOptions{Name: "AskProbes"})
	b.Must(w.Start())
	t.Cleanup(w.Stop)
	orchestrated(metav1.ConditionTrue, "TemporalReached", "")
}

// The rules of templates that the schema cannot hold are judged before anything begins.
func TestAScenarioIsRejected(t *testing.T) {
	b := begin(t)
	wrong := step("second", 1)
	wrong.Disruptions[0].Template.Selector = nil
	s := b.create("gameday", step("first", 1), wrong)
	b.waitsFor(s, v1beta1.ScenarioRejected, "")
	var all v1beta1.DisruptionList
	b.Must(b.Kube.List(t.Context(), &all, client.InNamespace(s.Namespace)))
	if len(all.Items) > 0 || !strings.Contains(s.Status.Message, "spec.steps[1].disruptions[0].template.selector") {
		t.Errorf("%d disruptions, message %q", len(all.Items), s.Status.Message)
	}
}

// While an EmergencyStop exists nothing begins.
func TestAScenarioMeetsAnEmergencyStop(t *testing.T) {
	b := begin(t)
	b.StopAll("scenarios")
	s := b.create("gameday", step("first", 1))
	b.waitsFor(s, v1beta1.ScenarioFinished, "")
	begun := slices.ContainsFunc(s.Status.Steps, func(step v1beta1.ScenarioStepStatus) bool { return len(step.Disruptions) > 0 })
	if s.Status.Verdict != v1beta1.VerdictAborted || !strings.Contains(s.Status.Message, "payment is down") || begun {
		t.Errorf("status %+v", s.Status)
	}
}

// An EmergencyStop ends a DisruptionScenario in every state in which it waits. No further
// step begins after the stop is deleted.
func TestAnEmergencyStopEndsAScenarioThatWaits(t *testing.T) {
	b := begin(t)
	for phase, first := range map[v1beta1.ScenarioPhase]v1beta1.ScenarioStep{
		v1beta1.ScenarioWaiting:   {Name: "calm", Wait: &v1beta1.Duration{Duration: time.Hour}},
		v1beta1.ScenarioSuspended: {Name: "calm", Approval: &v1beta1.ScenarioApproval{Message: "look"}},
		v1beta1.ScenarioRunning:   step("calm", 1),
	} {
		t.Run(string(phase), func(t *testing.T) {
			s := b.create("gameday-"+strings.ToLower(string(phase)), first, step("next", 1))
			b.waitsFor(s, phase, "calm")
			var d *v1beta1.Disruption
			if phase == v1beta1.ScenarioRunning {
				d = b.child(s, 0, 0)
			}
			stop := b.StopAll("waits")
			if d != nil {
				b.goes(d)
				b.finish(d, v1beta1.EndingEmergencyStop+"waits")
			}
			b.waitsFor(s, v1beta1.ScenarioFinished, "")
			if s.Status.Verdict != v1beta1.VerdictAborted || !strings.Contains(s.Status.Message, "payment is down") || len(s.Status.Steps) != 1 {
				t.Errorf("status %+v", s.Status)
			}
			b.Must(b.Kube.Delete(t.Context(), stop))
		})
	}
}
