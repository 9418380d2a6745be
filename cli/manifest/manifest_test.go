package manifest

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestNearest(t *testing.T) {
	known := []string{"count", "selector", "duration", "level", "network", "dns"}
	for wrong, want := range map[string]string{
		"cuont": "count", "selektor": "selector", "Duration": "duration", "netwrok": "network", "levels": "level",
		"purpose": "", "x": "", "": "", "dnss": "dns",
	} {
		if got := Nearest(wrong, known); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", wrong, got, want)
		}
	}
}

func TestWhereDocumentsBegin(t *testing.T) {
	stream := "# a\n---\nkind: A\napiVersion: b/v1\n--- # c\nkind: B\napiVersion: b/v1\ntext: |\n  ---\n---x: 1\n---"
	var lines []int
	for _, d := range Read("f", []byte(stream)) {
		lines = append(lines, d.Line)
	}
	if want := []int{3, 6}; !slices.Equal(lines, want) {
		t.Errorf("documents begin on lines %v, want %v", lines, want)
	}
}

// The moment of the creation is the one of the check, as nothing is created.
func TestTriggersAreJudgedNow(t *testing.T) {
	text := "apiVersion: chaos.squall.dev/v1beta1\nkind: Disruption\nmetadata: {name: a}\n" +
		"spec: {selector: {a: b}, count: 1, cpuPressure: {}, triggers: {inject: {notBefore: \"2027-06-01T00:00:00Z\"}}}\n"
	for _, test := range []struct {
		now  string
		want string
	}{{"2027-01-01T00:00:00Z", ""}, {"2026-01-01T00:00:00Z", "want at most 8760h"}} {
		now, err := time.Parse(time.RFC3339, test.now)
		if err != nil {
			t.Fatal(err)
		}
		documents := Read("f", []byte(text))
		Check(documents, Rules{Now: now})
		got := strings.Join(documents[0].Problems, "\n")
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("at %s: problems = %q, want %q", test.now, got, test.want)
		}
		if !documents[0].Disruption.CreationTimestamp.IsZero() {
			t.Errorf("at %s: the document says that it was created", test.now)
		}
	}
}

// A value of another type, and a policy that the API server refuses, get the path of the
// field, the value and what is allowed.
func TestTheSchemaIsJudged(t *testing.T) {
	const head = "apiVersion: chaos.squall.dev/v1beta1\nmetadata: {name: a}\n"
	for document, want := range map[string][]string{
		"kind: Disruption\nspec: {selector: {a: b}, count: 1, network: {delay: 200ms, drop: 40%}}": nil,
		"kind: Disruption\nspec: {selector: {a: b}, count: 1, network: {drop: 101%, bandwidthLimit: \"1024\"}}": {
			`spec.network.bandwidthLimit: want the type integer, found "1024"; write 1024`, `spec.network.drop: "101%" should match`},
		"kind: Disruption\nspec: {selector: {a: true}, count: 1.5, cpuPressure: {}}": {"spec.count: want the type integer, found 1.5", "spec.selector.a: want the type string, found true"},
		"kind: DisruptionPolicy\nspec: {}":                                           {"spec.rules: is required"},
		"kind: DisruptionPolicy\nspec: {rules: [{name: x, windows: [{timeZone: UTC, from: \"25:00\", to: \"09:00\"}]}]}": {
			`spec.rules[0].windows[0].from: "25:00" should match`},
		"kind: DisruptionPolicy\nspec: {rules: [{name: x, kinds: [cpu-pressure]}]}": nil,
	} {
		got := Read("f", []byte(head+document))[0].Problems
		matches := func(problem, wanted string) bool { return strings.HasPrefix(problem, wanted) }
		slices.Sort(got)
		if !slices.EqualFunc(got, want, matches) {
			t.Errorf("problems of %s: %q, want %q", document, got, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("apiVersion: chaos.squall.dev/v1beta1\nkind: Disruption\nspec: {cuont: 1}\n---\nkind: List\napiVersion: v1\nitems: [{}]")
	f.Add("kind: DisruptionCron\napiVersion: chaos.squall.dev/v1beta1\nspec: {schedule: '@every 1s', disruptionTemplate: {}}")
	f.Add("kind: DisruptionScenario\napiVersion: chaos.squall.dev/v1beta1\nspec: {steps: [{name: a, disruptions: [{template: {}}]}]}")
	f.Add("kind: EmergencyStop\napiVersion: chaos.squall.dev/v1beta1\nspec: {reason: 1}")
	f.Fuzz(func(t *testing.T, text string) {
		documents := Read("f", []byte(text))
		Check(documents, Rules{Now: time.Unix(0, 0)})
		for _, d := range documents {
			if d.Disruption == nil && d.DisruptionCron == nil && d.DisruptionRollout == nil && d.DisruptionScenario == nil && d.EmergencyStop == nil && d.Policy == nil && !d.Foreign && len(d.Problems) == 0 {
				t.Errorf("nothing is said of %+v", d)
			}
		}
	})
}

// Queries are parsed in each object that has probes, and the problem has field, value and
// reason.
func TestQueriesAreParsed(t *testing.T) {
	const head = "apiVersion: chaos.squall.dev/v1beta1\nmetadata: {name: a}\n"
	steady := func(query string) string {
		return "steadyState: {probes: [{name: errors, periodSeconds: 10, prometheus: {query: '" + query + "', comparison: < 1}}]}"
	}
	const faults = "count: 1, cpuPressure: {}, "
	for at, document := range map[string]func(query string) string{
		"spec.steadyState": func(query string) string {
			return "kind: Disruption\nspec: {selector: {a: b}, " + faults + steady(query) + "}"
		},
		"spec.disruptionTemplate.steadyState": func(query string) string {
			return "kind: DisruptionCron\nspec: {schedule: 0 12 * * *, targetResource: {kind: deployment, name: web}, disruptionTemplate: {" + faults + steady(query) + "}}"
		},
		"spec.steps[0].disruptions[0].template.steadyState": func(query string) string {
			return "kind: DisruptionScenario\nspec: {steps: [{name: a, disruptions: [{template: {selector: {a: b}, " + faults + steady(query) + "}}]}]}"
		},
	} {
		for query, want := range map[string]string{
			"sum(rate(errors_total[1m]))": "",
			"sum(rate(errors_total[1m)":   at + `.probes[0].prometheus.query: Invalid value: "sum(rate(errors_total[1m)": invalid PromQL`,
		} {
			documents := Read("f", []byte(head+document(query)))
			Check(documents, Rules{Now: time.Now()})
			got := strings.Join(documents[0].Problems, "\n")
			if (got == "") != (want == "") || !strings.Contains(got, want) {
				t.Errorf("%s: problems = %q, want %q", at, got, want)
			}
		}
	}
}
