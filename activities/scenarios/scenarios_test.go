package scenarios

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apiserver"
	"github.com/squall-chaos/squall/workflows/contract"
)

func TestMain(m *testing.M) { os.Exit(apiserver.Run(m)) }

// cluster is a namespace of an API server with a DisruptionScenario of one step.
type cluster struct {
	*testing.T
	*Activities
	objects *status.Disruptions
	made    *v1beta1.DisruptionScenario
	ref     contract.ScenarioRef
}

func begin(t *testing.T, disruptions int, change ...func(*v1beta1.DisruptionSpec)) *cluster {
	t.Helper()
	config := apiserver.Start(t)
	config.QPS = -1
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := status.NewDisruptions(config)
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{T: t, objects: objects, Activities: &Activities{Client: objects.Client(), Stops: objects, Events: &recorded{}}}
	namespace, err := kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "scenarios-"}}, metav1.CreateOptions{})
	c.must(err)
	one := intstr.FromInt32(1)
	step := v1beta1.ScenarioStep{Name: "all"}
	for range disruptions {
		template := v1beta1.DisruptionSpec{Faults: v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}}, Count: &one, Selector: map[string]string{"app": "shop"}}
		for _, f := range change {
			f(&template)
		}
		step.Disruptions = append(step.Disruptions, v1beta1.ScenarioDisruption{Template: template})
	}
	c.made = &v1beta1.DisruptionScenario{ObjectMeta: metav1.ObjectMeta{Name: "gameday", Namespace: namespace.Name}, Spec: v1beta1.DisruptionScenarioSpec{Steps: []v1beta1.ScenarioStep{step}}}
	c.must(c.Client.Post().Namespace(namespace.Name).Resource(scenarios).Body(c.made).Do(t.Context()).Into(c.made))
	c.ref = contract.ScenarioRef{Namespace: namespace.Name, Name: "gameday", UID: c.made.UID}
	return c
}

func (c *cluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

func (c *cluster) begun(known ...v1beta1.ScenarioRun) BegunStep {
	c.Helper()
	begun, err := c.BeginStep(c.Context(), BeginStepInput{Scenario: c.ref, Generation: c.made.Generation, Known: known})
	c.must(err)
	return begun
}

// finalize is the last deed of a disruption's workflow.
func (c *cluster) finalize(d *v1beta1.Disruption) {
	c.Helper()
	c.must(c.objects.RemoveFinalizer(c.Context(), d.Ref(), func(*v1beta1.Disruption) error { return nil }))
}

// names are the names of the existing disruptions.
func (c *cluster) names() (all []string) {
	c.Helper()
	var list v1beta1.DisruptionList
	c.must(c.Client.Get().Namespace(c.ref.Namespace).Resource(disruptions).Do(c.Context()).Into(&list))
	for _, d := range list.Items {
		all = append(all, d.Name)
	}
	return all
}

// there are the targets of any disruption.
type there []string

func (names there) Healthy(context.Context, *v1beta1.Disruption) (found []targets.Candidate, _ error) {
	for _, name := range names {
		found = append(found, targets.Candidate{Target: v1beta1.InjectionTarget{Name: name, UID: types.UID(name)}})
	}
	return found, nil
}

// Two faults on the same pods: without room for both, neither begins. A step that began
// continues whatever pods exist later.
func TestAStepWithoutEnoughTargetsDoesNotBegin(t *testing.T) {
	faults := []v1beta1.Faults{{CPUPressure: &v1beta1.CPUPressure{}}, {Network: &v1beta1.NetworkDisruption{Drop: 10}}}
	c := begin(t, 2, func(spec *v1beta1.DisruptionSpec) { spec.Faults, faults = faults[0], faults[1:] })
	c.Targets = there{"web-0"}
	if begun := c.begun(); !strings.Contains(begun.Stopped, "allowDisruptedTargets") || len(begun.Runs)+len(c.names()) != 0 {
		t.Fatalf("begun %+v, there are %v, want nothing, and the field that allows it", begun, c.names())
	}
	c.Targets = there{"web-0", "web-1"}
	if begun := c.begun(); begun.Stopped != "" || len(begun.Runs) != 2 {
		t.Errorf("begun %+v, want both", begun)
	}
	c.Targets = there{}
	if begun := c.begun(); begun.Stopped != "" || len(begun.Runs) != 2 {
		t.Errorf("begun again %+v, want the same two", begun)
	}
}

// rule C10: an attempt whose answer was lost creates nothing twice. A disruption in
// status that was deleted since is not created again.
func TestAStepBeginsOnce(t *testing.T) {
	c := begin(t, 3)
	first, again := c.begun(), c.begun()
	if len(first.Runs) != 3 || first.Stopped != "" || !slices.Equal(first.Runs, again.Runs) || len(c.names()) != 3 {
		t.Fatalf("begun %+v, then %+v; there are %v", first, again, c.names())
	}
	runs, err := c.SeeRuns(t.Context(), RunsInput{Scenario: c.ref, Runs: first.Runs})
	c.must(err)
	if runs[0].Ending != "" || runs[1].Ending != "" {
		t.Errorf("they are said to be over: %+v", runs)
	}
	d, err := c.disruption(t.Context(), c.ref, runs[0].Name)
	c.must(err)
	cleaned := metav1.Date(2026, 11, 23, 12, 10, 0, 0, time.UTC)
	d.Status.Phase, d.Status.Ending, d.Status.CleanedAt = v1beta1.PhaseFinished, "expired", &cleaned
	d.Status.SteadyState = &v1beta1.SteadyStateStatus{Verdict: v1beta1.VerdictFailed}
	c.must(c.Client.Put().Namespace(d.Namespace).Resource(disruptions).Name(d.Name).SubResource("status").Body(d).Do(t.Context()).Error())
	c.finalize(d)
	c.must(c.EndRuns(t.Context(), RunsInput{Scenario: c.ref, Runs: runs}))
	for _, run := range runs[1:] {
		other, err := c.disruption(t.Context(), c.ref, run.Name)
		c.must(err)
		c.finalize(other)
	}
	c.Temporal = without{contract.WorkflowID(v1beta1.DisruptionRef{Namespace: c.ref.Namespace, Name: runs[2].Name, UID: runs[2].UID})}
	if left := c.names(); len(left) != 1 || left[0] != "disruption-scenario-gameday-1-1" {
		t.Errorf("left are %v, want the one that was over", left)
	}
	runs, err = c.SeeRuns(t.Context(), RunsInput{Scenario: c.ref, Runs: runs})
	c.must(err)
	if runs[0].Ending != "expired" || runs[0].Verdict != v1beta1.VerdictFailed || runs[1].Ending != "deleted" || runs[1].Verdict != v1beta1.VerdictAborted {
		t.Errorf("runs %+v", runs)
	}
	if runs[2].Ending != v1beta1.EndingNeverBegan || runs[2].Verdict != v1beta1.VerdictAborted {
		t.Errorf("the run without a workflow is %+v, want %s", runs[2], v1beta1.EndingNeverBegan)
	}
	if known := c.begun(first.Runs...); len(known.Runs) != 3 || len(c.names()) != 1 {
		t.Errorf("begun again %+v, there are %v", known, c.names())
	}
}

// without is a Temporal that has every workflow except the one of this ID.
type without struct{ id string }

func (w without) DescribeWorkflowExecution(_ context.Context, id, _ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	if id == w.id {
		return nil, serviceerror.NewNotFound("workflow not found")
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{}, nil
}

// rule C10: a worker may die between creating disruptions and reporting them. If they
// are deleted then, only the note that was written before shows that they began. A
// report in between keeps that note.
func TestARunThatIsDeletedBeforeItsReportBeginsOnce(t *testing.T) {
	c := begin(t, 2)
	at := v1beta1.DisruptionScenarioStatus{Phase: v1beta1.ScenarioRunning, Step: "all", Steps: []v1beta1.ScenarioStepStatus{{Name: "all", Phase: v1beta1.ScenarioRunning, StartedAt: metav1.Now()}}}
	c.must(c.ReportScenario(t.Context(), ReportInput{Scenario: c.ref, Status: at}))
	first := c.begun()
	gone, err := c.disruption(t.Context(), c.ref, first.Runs[1].Name)
	c.must(err)
	for range 2 {
		c.must(Note(t.Context(), c.Client, gone))
	}
	c.must(c.Client.Delete().Namespace(gone.Namespace).Resource(disruptions).Name(gone.Name).Do(t.Context()).Error())
	if left := c.names(); len(left) != 2 {
		t.Fatalf("there are %v: what is deleted before the bridge has seen it cannot be noted", left)
	}
	c.finalize(gone)
	at.Message = "its probes say so"
	c.must(c.ReportScenario(t.Context(), ReportInput{Scenario: c.ref, Status: at}))
	if again := c.begun(); again.Stopped != "" || !slices.Equal(again.Runs, first.Runs) || len(c.names()) != 1 {
		t.Errorf("begun again %+v, want %+v; there are %v", again, first, c.names())
	}
	s, err := c.get(t.Context(), c.ref)
	c.must(err)
	if !slices.Equal(s.Status.Steps[0].Disruptions, first.Runs[1:]) || s.Status.Message != at.Message {
		t.Errorf("status %+v, want %v noted in it", s.Status, first.Runs[1])
	}
	// The resumed workflow knows only the second one.
	if known := c.begun(first.Runs[1]); len(known.Runs) != 2 || known.Runs[1] != first.Runs[0] || len(c.names()) != 1 {
		t.Errorf("begun with the second one known %+v, there are %v", known, c.names())
	}
	c.ref.UID, gone.OwnerReferences[0].UID = "another", "another"
	if err := Note(t.Context(), c.Client, gone); err != nil {
		t.Errorf("noted of a scenario that is gone: %v", err)
	}
}

type recorded []string

func (t *recorded) Of(_ context.Context, kind string, s metav1.Object, eventType, reason, message, _ string) {
	*t = append(*t, strings.Join([]string{kind, s.GetNamespace(), s.GetName(), string(s.GetUID()), eventType, reason, message}, " "))
}

// The deletion of a DisruptionScenario does not wait for the worker, so events report
// how it ended even when it is gone.
func TestEventsOfAScenarioThatIsGone(t *testing.T) {
	c, events := begin(t, 1), recorded{}
	c.Events, c.ref.UID = &events, "gone"
	status := v1beta1.DisruptionScenarioStatus{Phase: v1beta1.ScenarioStopping, Step: "all", Message: "Its disruptions are deleted: so it is."}
	c.must(c.ReportScenario(t.Context(), ReportInput{Scenario: c.ref, Status: status}))
	status = v1beta1.DisruptionScenarioStatus{Phase: v1beta1.ScenarioFinished, Message: "No further step is done: so it is.", Verdict: v1beta1.VerdictAborted}
	c.must(c.ReportScenario(t.Context(), ReportInput{Scenario: c.ref, Status: status}))
	about := "DisruptionScenario " + c.ref.Namespace + " gameday gone Warning "
	want := recorded{about + "Stopping all: Its disruptions are deleted: so it is.", about + "Aborted No further step is done: so it is."}
	if !slices.Equal(events, want) {
		t.Errorf("recorded %q, want %q", events, want)
	}
}

// rule S19
func TestRunsAreAskedForByWhoAskedForTheScenario(t *testing.T) {
	s := &v1beta1.DisruptionScenario{Spec: v1beta1.DisruptionScenarioSpec{Steps: []v1beta1.ScenarioStep{{Disruptions: make([]v1beta1.ScenarioDisruption, 1)}}}}
	if d := disruptionOf(s, 0, 0); len(d.Annotations) > 0 {
		t.Errorf("annotations %v of one of which nobody knows who asked for it", d.Annotations)
	}
	s.Annotations = v1beta1.Requester{User: "ann", Groups: []string{"shop"}}.Annotations()
	s.Annotations[v1beta1.AnnotationApprovedBy+"look"] = "bob"
	s.Annotations[v1beta1.AnnotationEnvironment] = "staging"
	if d := disruptionOf(s, 0, 0); len(d.Annotations) != 3 || v1beta1.RequesterOf(d).User != "ann" || d.Annotations[v1beta1.AnnotationEnvironment] != "staging" {
		t.Errorf("annotations %v, want who asked for the scenario, and its environment", d.Annotations)
	}
}

func TestWhatKeepsAStepFromBeginning(t *testing.T) {
	for _, part := range []struct {
		name, text string
		change     func(*v1beta1.DisruptionSpec)
		prepare    func(*cluster)
	}{
		{"somebody else's disruption has the name", "disruption-scenario-gameday-1-1 that is not part of this scenario", nil, func(c *cluster) {
			other := disruptionOf(c.made, 0, 0)
			other.OwnerReferences = nil
			c.must(c.Client.Post().Namespace(c.ref.Namespace).Resource(disruptions).Body(other).Do(c.Context()).Error())
		}},
		{"it was edited", "edited after the scenario began", nil, func(c *cluster) { c.made.Generation-- }},
		{"another one has its name", "is gone", nil, func(c *cluster) { c.ref.UID = "another" }},
		{"the API server refuses it", "the API server refuses Disruption disruption-scenario-gameday-1-1", func(s *v1beta1.DisruptionSpec) { s.CPUPressure = nil }, nil},
	} {
		t.Run(part.name, func(t *testing.T) {
			change := part.change
			if change == nil {
				change = func(*v1beta1.DisruptionSpec) {}
			}
			c := begin(t, 1, change)
			if part.prepare != nil {
				part.prepare(c)
			}
			before := len(c.names())
			if begun := c.begun(); !strings.Contains(begun.Stopped, part.text) || len(begun.Runs) > 0 || len(c.names()) != before {
				t.Errorf("begun %+v, there are %v", begun, c.names())
			}
		})
	}
}

// A disruption that was not injected everywhere proves nothing, however long it lasted.
func TestVerdictOf(t *testing.T) {
	steady := &v1beta1.SteadyStateStatus{Verdict: v1beta1.VerdictFailed}
	for name, c := range map[string]struct {
		status v1beta1.DisruptionStatus
		want   v1beta1.Verdict
	}{
		"of its probes":          {v1beta1.DisruptionStatus{Ending: "expired", InjectionStatus: v1beta1.PreviouslyInjected, SteadyState: steady}, v1beta1.VerdictFailed},
		"without probes":         {v1beta1.DisruptionStatus{Ending: "expired", InjectionStatus: v1beta1.PreviouslyInjected}, v1beta1.VerdictPassed},
		"injected nowhere":       {v1beta1.DisruptionStatus{Ending: "expired", InjectionStatus: v1beta1.PreviouslyNotInjected}, v1beta1.VerdictInconclusive},
		"not at all its targets": {v1beta1.DisruptionStatus{Ending: "expired", InjectionStatus: v1beta1.PreviouslyPartiallyInjected}, v1beta1.VerdictInconclusive},
		"ended early":            {v1beta1.DisruptionStatus{Ending: "cancelled", InjectionStatus: v1beta1.PreviouslyInjected}, v1beta1.VerdictAborted},
		"rejected":               {v1beta1.DisruptionStatus{Phase: v1beta1.PhaseRejected}, v1beta1.VerdictAborted},
	} {
		t.Run(name, func(t *testing.T) {
			if got := verdictOf(&v1beta1.Disruption{Status: c.status}); got != c.want {
				t.Errorf("verdict %s, want %s", got, c.want)
			}
		})
	}
}

// The plan has the steady state of the whole run, without the probes' handlers.
func TestThePlanHasTheSteadyState(t *testing.T) {
	c := begin(t, 1)
	c.made.Spec.SteadyState = &v1beta1.SteadyState{Probes: []v1beta1.Probe{{Name: "shop", ProbeHandler: v1beta1.ProbeHandler{
		TCPSocket: &v1beta1.TCPSocketProbe{Host: "db.shop.svc", Port: intstr.FromInt32(80)}}}}}
	c.must(c.Client.Put().Namespace(c.made.Namespace).Resource(scenarios).Name(c.made.Name).Body(c.made).Do(t.Context()).Error())
	plan, err := c.ReadScenario(t.Context(), contract.ScenarioInput{Scenario: c.ref})
	c.must(err)
	if plan.SteadyState == nil || plan.SteadyState.GateTimeoutSeconds != 60 || plan.SteadyState.Probes[0].TCPSocket != nil {
		t.Errorf("planned %+v, want the steady state with its defaults and without handlers", plan.SteadyState)
	}
}

// Events on a DisruptionScenario: its step, and probes that failed.
func TestEventOfAChange(t *testing.T) {
	at := func(phase v1beta1.ScenarioPhase, verdict v1beta1.Verdict) v1beta1.DisruptionScenarioStatus {
		return v1beta1.DisruptionScenarioStatus{Phase: phase, Step: "a", SteadyState: &v1beta1.SteadyStateStatus{Probes: []v1beta1.ProbeStatus{{Name: "shop", Verdict: verdict}}}}
	}
	for _, c := range []struct {
		name        string
		before, now v1beta1.DisruptionScenarioStatus
		want        string
	}{
		{"a step", v1beta1.DisruptionScenarioStatus{}, at(v1beta1.ScenarioRunning, ""), "StepBegan"},
		{"nothing", at(v1beta1.ScenarioRunning, ""), at(v1beta1.ScenarioRunning, ""), ""},
		{"lost", at(v1beta1.ScenarioRunning, ""), at(v1beta1.ScenarioRunning, v1beta1.VerdictFailed), "SteadyStateLost"},
		{"lost before", at(v1beta1.ScenarioRunning, v1beta1.VerdictFailed), at(v1beta1.ScenarioRunning, v1beta1.VerdictFailed), ""},
		{"lost, and it ends for that", at(v1beta1.ScenarioRunning, ""), at(v1beta1.ScenarioStopping, v1beta1.VerdictAborted), "Stopping"},
	} {
		if got, _ := eventOf(c.before, c.now); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
