package report

import (
	"encoding/xml"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/chart"
	"github.com/squall-chaos/squall/cli/view"
)

var update = flag.Bool("update", false, "write testdata instead of comparing with it")

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func at(seconds int) *metav1.Time {
	return &metav1.Time{Time: noon.Add(time.Duration(seconds) * time.Second)}
}

// ended is a disruption whose probes failed, and that was injected and cleaned up.
func ended() *v1beta1.Disruption {
	count, yes := intstr.FromInt32(2), true
	return &v1beta1.Disruption{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "lossy", UID: "u1", CreationTimestamp: *at(0),
			Annotations: map[string]string{v1beta1.AnnotationRequester: "ann <ann@example.com>"}},
		Spec: v1beta1.DisruptionSpec{
			Selector: map[string]string{"app": "web"}, Count: &count, Faults: v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}},
			SteadyState: &v1beta1.SteadyState{Probes: []v1beta1.Probe{{Name: "checkout"}, {Name: "search"}}},
			Reporting:   &v1beta1.Reporting{Purpose: "does the shop <survive>?"},
		},
		Status: v1beta1.DisruptionStatus{
			Phase: v1beta1.PhaseFinished, Ending: "expired", Targets: "2/2", InjectionStatus: v1beta1.PreviouslyInjected,
			StartTime: at(1), InjectedTime: at(4), CleanedAt: at(64), CleanedVerified: &yes,
			TargetInjections: map[string]map[v1beta1.Kind]v1beta1.TargetInjection{
				"web-0": {v1beta1.KindCPUPressure: {InjectionStatus: v1beta1.Injected, Effect: &v1beta1.Effect{State: v1beta1.EffectProven, Evidence: "1.9 of 2 CPUs"}}},
				"web-1": {v1beta1.KindCPUPressure: {InjectionStatus: v1beta1.Injected}},
			},
			Conditions: []metav1.Condition{{Type: v1beta1.ConditionEffectVerified, Status: metav1.ConditionTrue, Reason: "Proven", Message: "2 of 2 targets"}},
			SteadyState: &v1beta1.SteadyStateStatus{Verdict: v1beta1.VerdictFailed, Summary: "probe checkout failed", Probes: []v1beta1.ProbeStatus{
				{Name: "checkout", State: v1beta1.ProbeFailure, Verdict: v1beta1.VerdictFailed, Text: "status 503, \x01 want 200", Targets: 2, Failing: 1},
				{Name: "search", State: v1beta1.ProbeSuccess, Verdict: v1beta1.VerdictPassed},
			}},
		},
	}
}

func reportOf(d *v1beta1.Disruption, gone bool) Report {
	described := Of(d, gone)
	described.Timeline = []Moment{
		{Time: noon, Phase: "Injecting", Wanted: 2},
		{Time: noon.Add(4 * time.Second), Phase: "Holding", Injected: 2, Wanted: 2, Probes: map[string]string{"checkout": "Success", "search": "Success"}},
		{Time: noon.Add(30 * time.Second), Phase: "Holding", Injected: 2, Wanted: 2, Probes: map[string]string{"checkout": "Failure", "search": "Success"}},
		{Time: noon.Add(64 * time.Second), Phase: "Finished", Injected: 2, Wanted: 2, Probes: map[string]string{"checkout": "Failure", "search": "Success"}},
	}
	return Report{Format: Format, File: "lossy.yaml", Outcome: described.Outcome, Why: described.Why, Began: noon, Ended: noon.Add(65 * time.Second), Disruptions: []Disruption{described}}
}

// golden compares with a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s; if it shall be so: go test ./cli/report -update (-want +got):\n%s", path, diff)
	}
}

func TestJUnit(t *testing.T) {
	text, err := reportOf(ended(), false).JUnit()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "failed.xml", text)
}

// results are the cases of the only suite, by name, as ok, failure, error or skipped.
func results(t *testing.T, r Report) map[string]string {
	t.Helper()
	text, err := r.JUnit()
	if err != nil {
		t.Fatal(err)
	}
	var read junitSuites
	if err := xml.Unmarshal(text, &read); err != nil || len(read.Suites) != 1 {
		t.Fatalf("%v, %d suites:\n%s", err, len(read.Suites), text)
	}
	found := map[string]string{}
	for _, c := range read.Suites[0].Cases {
		switch {
		case c.Failure != nil:
			found[c.Name] = "failure"
		case c.Error != nil:
			found[c.Name] = "error"
		case c.Skipped != nil:
			found[c.Name] = "skipped"
		default:
			found[c.Name] = "ok"
		}
	}
	return found
}

// The cases show which part of a run went wrong, and "verdict" is ok if the exit code is 0.
func TestCasesOfEndings(t *testing.T) {
	passed := func(d *v1beta1.Disruption) {
		s := d.Status.SteadyState
		s.Verdict, s.Probes[0].Verdict, s.Probes[0].State, s.Probes[0].Failing = v1beta1.VerdictPassed, v1beta1.VerdictPassed, v1beta1.ProbeSuccess, 0
	}
	for _, test := range []struct {
		name    string
		change  func(*v1beta1.Disruption)
		gone    bool
		outcome view.Outcome
		want    string // injected, probe checkout, cleaned up, verdict
	}{
		{"failed", func(*v1beta1.Disruption) {}, false, view.Failed, "ok failure ok failure"},
		{"passed", passed, false, view.Passed, "ok ok ok ok"},
		{"passed on fewer targets", func(d *v1beta1.Disruption) { passed(d); d.Status.InjectedTime = nil }, false, view.Passed, "skipped ok ok ok"},
		{"something is left", func(d *v1beta1.Disruption) { passed(d); d.Status.CleanedVerified = new(bool) }, false, view.Passed, "ok ok failure ok"},
		{"inconclusive", func(d *v1beta1.Disruption) {
			d.Status.SteadyState.Verdict, d.Status.SteadyState.Probes[0].Verdict = v1beta1.VerdictInconclusive, v1beta1.VerdictInconclusive
		}, false, view.Inconclusive, "ok skipped ok failure"},
		{"stuck", func(d *v1beta1.Disruption) {
			d.Status.Phase, d.Status.IsStuckOnRemoval, d.Status.CleanedAt = v1beta1.PhaseStuck, true, nil
		}, false, view.IsStuck, "ok failure failure failure"},
		{"rejected", func(d *v1beta1.Disruption) {
			d.Status = v1beta1.DisruptionStatus{Phase: v1beta1.PhaseRejected, Ending: "the worker may not"}
		}, false, view.Rejected, "failure skipped skipped failure"},
		{"goes on", func(d *v1beta1.Disruption) {
			passed(d)
			d.Status.Phase, d.Status.SteadyState.Verdict = v1beta1.PhaseHolding, ""
		}, false, Unfinished, "ok ok error error"},
		{"deleted meanwhile", func(d *v1beta1.Disruption) {
			d.Status.Phase, d.Status.SteadyState, d.DeletionTimestamp = v1beta1.PhaseCleaning, nil, at(50)
		}, true, view.Aborted, "ok skipped ok failure"},
		{"dry run", func(d *v1beta1.Disruption) {
			passed(d)
			d.Spec.DryRun, d.Status.InjectedTime = true, nil
		}, false, view.Passed, "skipped ok ok ok"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := ended()
			test.change(d)
			r := reportOf(d, test.gone)
			if r.Outcome != test.outcome {
				t.Errorf("outcome = %s (%s), want %s", r.Outcome, r.Why, test.outcome)
			}
			found := results(t, r)
			if got := strings.Join([]string{found["injected"], found["probe checkout"], found["cleaned up"], found["verdict"]}, " "); got != test.want {
				t.Errorf("cases = %s, want %s", got, test.want)
			}
		})
	}
	t.Run("refused before it was created", func(t *testing.T) {
		d := ended()
		d.Status = v1beta1.DisruptionStatus{}
		r := reportOf(d, false)
		r.Disruptions[0].Outcome, r.Disruptions[0].Why = Error, "forbidden"
		if found := results(t, r); found["injected"] != "error" || found["cleaned up"] != "skipped" || found["verdict"] != "error" {
			t.Errorf("cases = %v", found)
		}
	})
	t.Run("nothing was read", func(t *testing.T) {
		found := results(t, Report{File: "lossy.yaml", Outcome: Error, Why: "no cluster"})
		if diff := cmp.Diff(map[string]string{"verdict": "error"}, found); diff != "" {
			t.Errorf("cases (-want +got):\n%s", diff)
		}
	})
}

func TestOfScenario(t *testing.T) {
	s := &v1beta1.DisruptionScenario{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "day", UID: "s1"},
		Spec:       v1beta1.DisruptionScenarioSpec{Steps: []v1beta1.ScenarioStep{{Name: "cpu"}, {Name: "look"}, {Name: "end"}}},
		Status: v1beta1.DisruptionScenarioStatus{Phase: v1beta1.ScenarioFinished, Verdict: v1beta1.VerdictFailed, Steps: []v1beta1.ScenarioStepStatus{
			{Name: "cpu", Phase: v1beta1.ScenarioFinished, Verdict: v1beta1.VerdictFailed, StartedAt: *at(0), EndedAt: at(70),
				Disruptions: []v1beta1.ScenarioRun{{Name: "lossy", UID: "u1", Ending: "expired", Verdict: v1beta1.VerdictFailed}, {Name: "unseen", UID: "u2", Ending: "expired", Verdict: v1beta1.VerdictPassed}}},
			{Name: "look", Phase: v1beta1.ScenarioFinished, ApprovedBy: "ann", StartedAt: *at(70), EndedAt: at(80)},
		}},
	}
	later := ended()
	later.Name, later.UID = "later", "u3"
	r := Report{Outcome: view.Failed, Why: "lossy failed", Began: noon, Ended: noon.Add(time.Minute)}
	r.Scenario, r.Disruptions = OfScenario(s, map[string]Disruption{"u1": Of(ended(), false), "u3": Of(later, true)})
	var names []string
	for _, d := range r.Disruptions {
		names = append(names, d.Name+" "+string(d.Outcome))
	}
	if diff := cmp.Diff([]string{"lossy Failed", "unseen Passed", "later Failed"}, names); diff != "" {
		t.Errorf("disruptions (-want +got):\n%s", diff)
	}
	text, err := r.JUnit()
	if err != nil {
		t.Fatal(err)
	}
	var read junitSuites
	if err := xml.Unmarshal(text, &read); err != nil || len(read.Suites) != 4 {
		t.Fatalf("%v, %d suites, want that of the scenario and 3:\n%s", err, len(read.Suites), text)
	}
	cases := read.Suites[0].Cases
	if len(cases) != 4 || cases[0].Failure == nil || cases[1].Failure != nil || cases[2].Skipped == nil || cases[3].Failure == nil {
		t.Errorf("cases of the scenario: %+v", cases)
	}
}

// The page stands alone: nothing is loaded or run, and texts of other users are escaped.
func TestHTML(t *testing.T) {
	r := reportOf(ended(), false)
	text, err := r.HTML()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "failed.html", text)
	for _, never := range []string{"<script", "src=", "href=", "url(", "ann <ann@"} {
		if strings.Contains(string(text), never) {
			t.Errorf("the page has %q", never)
		}
	}
	for _, want := range []string{"prefers-color-scheme: dark", `class="shade"`, "probe checkout failed", ">Failure</text>", "1.9 of 2 CPUs", "does the shop &lt;survive&gt;?"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page does not have %q", want)
		}
	}
	for name, little := range map[string]Report{
		"nothing was read":   {File: "lossy.yaml", Outcome: Error, Why: "no cluster"},
		"nothing was seen":   {Outcome: Error, Why: "forbidden", Disruptions: []Disruption{Of(&v1beta1.Disruption{}, false)}},
		"a scenario's alone": {Outcome: view.Passed, Scenario: &Scenario{Name: "day", Steps: []Step{{Name: "look"}}}},
	} {
		if text, err := little.HTML(); err != nil || !strings.Contains(string(text), string(little.Outcome)) || strings.Contains(string(text), "<svg") {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

// The fault is shaded from the injection until the clean-up began. The answers of a history
// replace the states that were seen.
func TestChart(t *testing.T) {
	r := reportOf(ended(), false).Disruptions[0]
	r.Timeline = append(r.Timeline[:3], Moment{Time: noon.Add(60 * time.Second), Phase: "Cleaning", Injected: 2, Wanted: 2}, r.Timeline[3])
	want := []chart.Shaded{{Name: "cpuPressure", From: 4 * time.Second, To: time.Minute}}
	if diff := cmp.Diff(want, r.fault(r.span())); diff != "" {
		t.Errorf("fault (-want +got):\n%s", diff)
	}
	r.Answers = []chart.Series{{Probe: "checkout", Group: "targets", Phase: "During", Began: noon, Seconds: 1, Points: [][3]int32{{1, 0, 0}, {0, 1, 0}}}}
	if drawn := string(r.Chart()); strings.Contains(drawn, ">probes</text>") || !strings.Contains(drawn, ">checkout</text>") {
		t.Errorf("the chart has no answers:\n%s", drawn)
	}
}

// The page of pipelines names every field, because programs of others read them.
func TestFieldsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/pipelines.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []struct {
		prefix string
		fields reflect.Type
	}{{"", reflect.TypeFor[Report]()}, {".", reflect.TypeFor[Disruption]()}} {
		for field := range of.fields.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			found := false
			for _, written := range []string{of.prefix + name, of.prefix + name + "[]", name} {
				found = found || strings.Contains(string(page), "`"+written+"`")
			}
			if !found {
				t.Errorf("docs/pipelines.md does not name the field %s%s", of.prefix, name)
			}
		}
	}
}
