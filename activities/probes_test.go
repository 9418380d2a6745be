package activities

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/squall-chaos/squall/activities/choose"
	"github.com/squall-chaos/squall/activities/prepare"
	"github.com/squall-chaos/squall/activities/probe"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/activities/steadystate"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apiserver"
	"github.com/squall-chaos/squall/workflows/contract"
)

// guarded adds one probe: a pod with the targets' label has to be ready.
func guarded(spec *v1beta1.DisruptionSpec) {
	one := intstr.FromInt32(1)
	spec.SteadyState = &v1beta1.SteadyState{Probes: []v1beta1.Probe{{
		Name: "ready", PeriodSeconds: 1,
		ProbeHandler: v1beta1.ProbeHandler{PodsReady: &v1beta1.PodsReadyProbe{Selector: map[string]string{"app": "web"}, Min: &one}},
	}}}
}

// prober sets the prober of this cluster.
func (c *testCluster) prober() {
	c.Prober = &steadystate.Prober{Kube: c.Client, APIServer: apiserver.Start(c.T).Host, Version: "test"}
}

func TestAskProbesOpensTheGate(t *testing.T) {
	c := newCluster(t)
	c.prober()
	pod := c.MakeTargets(1, nil)[0]
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	_, err := c.Client.CoreV1().Pods(c.Shop).UpdateStatus(c.Context(), pod, metav1.UpdateOptions{})
	c.Must(err)
	ref := c.Disruption("guarded", guarded)
	plan := do[prepare.Plan](c, c.Prepare, ref)
	if plan.SteadyState == nil || plan.SteadyState.GateTimeoutSeconds != 60 || plan.SteadyState.Probes[0].PodsReady != nil {
		t.Fatalf("Prepare plans %+v, want the steady state with its defaults and without handlers", plan.SteadyState)
	}
	began := time.Now()
	result := do[steadystate.Result](c, c.AskProbes, steadystate.Input{Disruption: ref, Phase: v1beta1.ProbeBefore, Session: 1, Began: began})
	// AskProbes checks for its end once a second, and asks meanwhile.
	most := 1 + int64(time.Since(began).Seconds())
	if got := result.Probes; len(got) != 1 || got[0].State != v1beta1.ProbeSuccess || !got[0].Answered || got[0].Text != "1 of 1 pods are ready, want 1" {
		t.Errorf("AskProbes = %+v, want success", got)
	}
	if got := c.Counts.Of("squall_probe_answers_total"); got < 1 || got > most {
		t.Errorf("squall_probe_answers_total = %d, want 1 to %d", got, most)
	}
}

// The probes of a scenario ask in its namespace, without targets.
func TestAskProbesOfAScenario(t *testing.T) {
	c := newCluster(t)
	c.prober()
	var spec v1beta1.DisruptionSpec
	guarded(&spec)
	scenario := &v1beta1.DisruptionScenario{
		ObjectMeta: metav1.ObjectMeta{Name: "gameday", Namespace: c.Shop},
		Spec: v1beta1.DisruptionScenarioSpec{
			SteadyState: spec.SteadyState, Steps: []v1beta1.ScenarioStep{{Name: "rest", Wait: &v1beta1.Duration{Duration: time.Minute}}},
		},
	}
	c.Must(c.Disruptions.Client().Post().Namespace(c.Shop).Resource("disruptionscenarios").Body(scenario).Do(c.Context()).Into(scenario))
	ref := contract.ScenarioRef{Namespace: c.Shop, Name: scenario.Name, UID: scenario.UID}
	asks := steadystate.Input{Scenario: &ref, Phase: v1beta1.ProbeBefore, Session: 1, Began: time.Now()}
	pod := c.MakeTargets(1, nil)[0]
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	_, err := c.Client.CoreV1().Pods(c.Shop).UpdateStatus(c.Context(), pod, metav1.UpdateOptions{})
	c.Must(err)
	if got := do[steadystate.Result](c, c.AskProbes, asks).Probes; len(got) != 1 || got[0].State != v1beta1.ProbeSuccess || got[0].Targets != 0 {
		t.Errorf("AskProbes = %+v, want success of no targets", got)
	}
	another := ref
	another.UID = "another"
	if _, _, err := steadystate.FindAsked(c.Context(), c.probing, steadystate.Input{Scenario: &another}); err == nil {
		t.Error("the probes of a scenario of the same name are asked")
	}
	scenario.Spec.SteadyState = nil
	c.Must(c.Disruptions.Client().Put().Namespace(c.Shop).Resource("disruptionscenarios").Name(scenario.Name).Body(scenario).Do(c.Context()).Error())
	if _, _, err := steadystate.FindAsked(c.Context(), c.probing, asks); err == nil || !strings.Contains(err.Error(), "has no steady state") {
		t.Errorf("without a steady state: %v", err)
	}
}

// A query reads only series of the namespace of its Disruption or scenario, also at level
// node.
func TestQueriesReadTheNamespaceOfTheirObject(t *testing.T) {
	c := newCluster(t)
	c.prober()
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.PostFormValue("query")
		_, _ = w.Write([]byte(`{"data":{"resultType":"scalar","result":[1,"1"]}}`))
	}))
	defer server.Close()
	c.Prober.Rate = probe.NewRate(1000)
	c.Prober.Prometheus = func() (*probe.Prometheus, error) {
		return &probe.Prometheus{URL: server.URL, NamespaceLabel: "namespace"}, nil
	}
	steady := &v1beta1.SteadyState{Probes: []v1beta1.Probe{{
		Name: "up", TimeoutSeconds: 60, ProbeHandler: v1beta1.ProbeHandler{Prometheus: &v1beta1.PrometheusProbe{Query: "up", Comparison: "> 0"}},
	}}}
	scenario := &v1beta1.DisruptionScenario{
		ObjectMeta: metav1.ObjectMeta{Name: "queries", Namespace: c.Shop},
		Spec: v1beta1.DisruptionScenarioSpec{
			SteadyState: steady, Steps: []v1beta1.ScenarioStep{{Name: "rest", Wait: &v1beta1.Duration{Duration: time.Minute}}},
		},
	}
	c.Must(c.Disruptions.Client().Post().Namespace(c.Shop).Resource("disruptionscenarios").Body(scenario).Do(c.Context()).Into(scenario))
	pods := c.Disruption("pods", func(spec *v1beta1.DisruptionSpec) { spec.SteadyState = steady })
	nodes := c.Disruption("nodes", func(spec *v1beta1.DisruptionSpec) { spec.SteadyState, spec.Level = steady, v1beta1.LevelNode })
	for _, ref := range []v1beta1.DisruptionRef{pods, nodes} {
		do[prepare.Plan](c, c.Prepare, ref)
	}
	for _, in := range []steadystate.Input{
		{Disruption: pods}, {Disruption: nodes}, {Scenario: &contract.ScenarioRef{Namespace: c.Shop, Name: scenario.Name, UID: scenario.UID}},
	} {
		got = ""
		found, release, err := steadystate.FindAsked(c.Context(), c.probing, in)
		c.Must(err)
		answer := found.By.Ask(c.Context(), found.Spec.WithDefaults().Probes[0], nil)
		release()
		if found.By.Rate != c.Prober.Rate {
			t.Errorf("%+v: the questions are not bounded", in)
		}
		if want := fmt.Sprintf("up{namespace=%q}", c.Shop); got != want || answer.Result != probe.Success {
			t.Errorf("%+v: the server got %q, want %q; %+v", in, got, want, answer)
		}
	}
}

// Phase After also asks targets that are no longer disrupted, but no pod that is gone.
func TestWhichTargetsAreAsked(t *testing.T) {
	c := newCluster(t)
	c.prober()
	pods := c.MakeTargets(3, nil)
	ref := c.Disruption("guarded", func(spec *v1beta1.DisruptionSpec) {
		guarded(spec)
		three := intstr.FromInt32(3)
		spec.Count = &three
	})
	c.started("other", func(spec *v1beta1.DisruptionSpec) { spec.Selector = map[string]string{"app": "nothing"} })
	do[prepare.Plan](c, c.Prepare, ref)
	do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref})
	_, err := c.Targets.End(c.Context(), ref, 0, "test", func(target targets.Target) targets.Ending {
		if target.UID == pods[0].UID {
			return targets.Ending{Why: "let go"}
		}
		return targets.Ending{}
	})
	c.Must(err)
	c.Must(c.Client.CoreV1().Pods(c.Shop).Delete(c.Context(), pods[1].Name, *metav1.NewDeleteOptions(0)))
	asked := func(phase v1beta1.ProbePhase) map[string]bool {
		names := map[string]bool{}
		asks, release, err := steadystate.FindAsked(c.Context(), c.probing, steadystate.Input{Disruption: ref, Phase: phase})
		c.Must(err)
		defer release()
		found, err := asks.Targets(c.Context())
		c.Must(err)
		for _, target := range found {
			names[target.Name] = asks.Pod(target.UID) != nil
		}
		return names
	}
	for phase, want := range map[v1beta1.ProbePhase]map[string]bool{
		v1beta1.ProbeDuring: {pods[2].Name: true},
		v1beta1.ProbeAfter:  {pods[0].Name: true, pods[2].Name: true},
	} {
		c.Eventually("in "+string(phase)+" the right targets are asked", func() bool { return reflect.DeepEqual(asked(phase), want) })
	}
}

// rule P18: status, conditions and events agree, and two equal reports record one event.
func TestReportSteadyState(t *testing.T) {
	c := newCluster(t)
	ref := c.Disruption("guarded", guarded)
	lost := status.SteadyStateReport{
		Disruption: ref, Change: status.SteadyStateAborted, Message: "probe ready: 0 of 1 pods are ready",
		Status: v1beta1.SteadyStateStatus{
			Phase: v1beta1.ProbeDuring, Verdict: v1beta1.VerdictAborted, Summary: "probe ready was lost",
			Probes: []v1beta1.ProbeStatus{{Name: "ready", State: v1beta1.ProbeFailure, Verdict: v1beta1.VerdictAborted}},
		},
	}
	for range 2 {
		do[struct{}](c, c.ReportSteadyState, lost)
	}
	c.WantCondition(ref, v1beta1.ConditionSteadyState, metav1.ConditionFalse, "0 of 1 pods are ready")
	c.WantCondition(ref, v1beta1.ConditionAborted, metav1.ConditionTrue, "0 of 1 pods are ready")
	c.wantEvent("SteadyStateLost", "0 of 1 pods are ready")
	c.wantEvent("DisruptionAborted", "0 of 1 pods are ready")
	shown := c.Get(ref).Status.SteadyState
	if shown == nil || shown.Verdict != v1beta1.VerdictAborted || len(shown.Probes) != 1 || shown.Probes[0].State != v1beta1.ProbeFailure {
		t.Errorf("status.steadyState = %+v, want what was reported", shown)
	}
}

// A late write of an earlier decision changes nothing, except that the disruption was
// aborted.
func TestALateReportChangesNothing(t *testing.T) {
	var d v1beta1.Disruption
	at := time.Now()
	report := func(change status.SteadyStateChange, phase v1beta1.ProbePhase, at time.Time) {
		status.ShowSteadyState(&d, status.SteadyStateReport{Change: change, Status: v1beta1.SteadyStateStatus{Phase: phase}, At: at})
	}
	report(status.SteadyStateRecovered, v1beta1.ProbeAfter, at)
	report(status.SteadyStateAborted, v1beta1.ProbeDuring, at.Add(-time.Second))
	got := map[string]metav1.ConditionStatus{}
	for _, condition := range d.Status.Conditions {
		got[condition.Type] = condition.Status
	}
	want := map[string]metav1.ConditionStatus{v1beta1.ConditionSteadyState: metav1.ConditionTrue, v1beta1.ConditionAborted: metav1.ConditionTrue}
	if !reflect.DeepEqual(got, want) || d.Status.SteadyState.Phase != v1beta1.ProbeAfter {
		t.Errorf("conditions %v in phase %s, want %v in phase After", got, d.Status.SteadyState.Phase, want)
	}
}
