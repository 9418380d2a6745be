package crdtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apiserver"
)

// one is a step of one disruption, with a template.
func one(template string) string {
	return "steps: [{name: a, disruptions: [{template: {" + template + "}}]}]"
}

// wholeRun is a scenario with this steady state of the whole run.
func wholeRun(steady string) string {
	return "steps: [{name: a, wait: 5m}]\nsteadyState: {" + steady + "}"
}

const burns = "count: 1, selector: {app: web}, cpuPressure: {}"

// scenarios are judged alike by both.
var scenarios = []manifest{
	{"with everything", `
reporting: {slackChannel: chaos, purpose: to be sure of it}
steps:
- {name: slow, onFailure: Continue, disruptions: [{template: {` + burns + `}}, {template: {count: 50%, selector: {app: db}, duration: 5m, network: {delay: 100}}}]}
- {name: calm, wait: 5m}
- {name: look, approval: {message: is the shop open}}
- {name: 2nd-time, disruptions: [{template: {` + burns + `}}]}`, ""},
	{"a wait in nanoseconds", "steps: [{name: a, wait: 1000000000}]", ""},
	{"a wait of a day", "steps: [{name: a, wait: 24h}]", ""},
	{"a step after one that failed", "steps: [{name: a, onFailure: Continue, disruptions: [{template: {" + burns + "}}]}, {name: b, wait: 5m, when: {step: a, verdict: [Failed, Aborted]}}]", ""},
	{"a step after one that passed", "steps: [{name: a, disruptions: [{template: {" + burns + "}}]}, {name: b, wait: 5m, when: {step: a, verdict: [Passed]}}]", ""},
	{"a condition without a verdict", "steps: [{name: a, disruptions: [{template: {" + burns + "}}]}, {name: b, wait: 5m, when: {step: a, verdict: []}}]", "spec.steps[1].when.verdict"},
	{"a condition of an unknown verdict", "steps: [{name: a, disruptions: [{template: {" + burns + "}}]}, {name: b, wait: 5m, when: {step: a, verdict: [Passed, Good]}}]", "spec.steps[1].when.verdict[1]"},
	{"a condition of one verdict twice", "steps: [{name: a, disruptions: [{template: {" + burns + "}}]}, {name: b, wait: 5m, when: {step: a, verdict: [Passed, Passed]}}]", "spec.steps[1].when.verdict[1]"},
	{"without steps", "steps: []", "spec.steps"},
	{"of too many steps", "steps: [" + strings.Repeat("{name: a, wait: 5m},", 33) + "]", "spec.steps"},
	{"steps of one name", "steps: [{name: a, wait: 5m}, {name: a, wait: 6m}]", "Duplicate value"},
	{"a step of a bad name", "steps: [{name: A b, wait: 5m}]", "spec.steps[0].name"},
	{"a step of a name of 51 characters", "steps: [{name: " + strings.Repeat("a", 51) + ", wait: 5m}]", ""},
	{"a step of a name of 52 characters", "steps: [{name: " + strings.Repeat("a", 52) + ", wait: 5m}]", "spec.steps[0].name"},
	{"a step that does nothing", "steps: [{name: a}]", "want exactly one of disruptions, wait and approval"},
	{"a step that does two things", "steps: [{name: a, wait: 5m, approval: {message: b}}]", "want exactly one of disruptions, wait and approval"},
	{"a step of no disruptions", "steps: [{name: a, disruptions: []}]", "spec.steps[0].disruptions"},
	{"a step of nine disruptions", "steps: [{name: a, disruptions: [" + strings.Repeat("{template: {"+burns+"}},", 9) + "]}]", "spec.steps[0].disruptions"},
	{"a wait that may fail", "steps: [{name: a, wait: 5m, onFailure: Continue}]", "only disruptions have a verdict"},
	{"an unknown way on", "steps: [{name: a, onFailure: Retry, disruptions: [{template: {" + burns + "}}]}]", "spec.steps[0].onFailure"},
	{"a wait that was meant as seconds", "steps: [{name: a, wait: 90}]", "want a duration of 1s to 24h"},
	{"a wait of a week", "steps: [{name: a, wait: 168h}]", "want a duration of 1s to 24h"},
	{"an approval of nothing", "steps: [{name: a, approval: {message: ''}}]", "spec.steps[0].approval.message"},
	{"a template with a kind out of bounds", one("count: 1, selector: {app: web}, network: {drop: 101}"), "spec.steps[0].disruptions[0].template.network.drop"},
	{"a template without a count", one("selector: {app: web}, cpuPressure: {}"), "template.count"},
	{"probes of the whole", wholeRun("probes: [{name: a, " + asksOnce + ", budget: {percent: 5, window: 5m}}, {name: b, phases: [During], onFailure: Record, podsReady: {selector: {app: web}, min: 2}}], gateTimeoutSeconds: 3600"), ""},
	{"a steady state of nothing", "steps: [{name: a, wait: 5m}]\nsteadyState: null", ""},
	{"no probes of the whole", wholeRun("probes: []"), "spec.steadyState.probes"},
	{"a probe of targets that the whole has not", wholeRun("probes: [{name: a, scope: PerTarget, tcpSocket: {port: 80}}]"), "the scenario as a whole has no targets"},
	{"a control group of the whole", wholeRun("controlGroup: 1, probes: [{name: a, scope: PerTarget, tcpSocket: {port: 80}}]"), "spec.steadyState.controlGroup"},
	{"a gate of two hours", wholeRun("gateTimeoutSeconds: 7200, probes: [{name: a, " + asksOnce + "}]"), "at most 3600 for a scenario"},
	{"a recovery of two hours", wholeRun("recoveryTimeoutSeconds: 7200, probes: [{name: a, " + asksOnce + "}]"), "at most 3600 for a scenario"},
	{"a probe of the whole without a host", wholeRun("probes: [{name: a, tcpSocket: {port: 80}}]"), "scope Once "},
	{"a probe of the whole of a bad selector", wholeRun("probes: [{name: a, podsReady: {selector: {app: 'w w'}}}]"), "spec.steadyState.probes[0].podsReady.selector"},
	{"a name of 37 characters", named37(0), ""},
	{"a name of 38 characters", named37(1), "use at most 37 characters, not 38"},
}

// together is a step with two disruptions of the pods of app web.
func together(first, second string) string {
	return "steps: [{name: a, disruptions: [{template: {selector: {app: web}, " + first + "}}, {template: {selector: {app: web}, " + second + "}}]}]"
}

// Disruptions of one step that want the same targets.
var crowded = []manifest{
	{"all pods twice", together("count: 100%, network: {drop: 1}", "count: 100%, cpuPressure: {}"), "set allowDisruptedTargets: true in both"},
	{"all pods and one of them", together("count: 1, network: {drop: 1}", "count: 100%, cpuPressure: {}"), "set allowDisruptedTargets: true in both"},
	{"more than all pods", together("count: 50%, network: {drop: 1}", "count: 51%, cpuPressure: {}"), "set allowDisruptedTargets: true in both"},
	{"half of the pods each", together("count: 50%, network: {drop: 1}", "count: 50%, cpuPressure: {}"), ""},
	{"almost all pods and one of them", together("count: 1, network: {drop: 1}", "count: 99%, cpuPressure: {}"), ""},
	{"one of both shares its targets", together("count: 100%, allowDisruptedTargets: true, network: {drop: 1}", "count: 100%, cpuPressure: {}"), "set allowDisruptedTargets: true in both"},
	{"both share their targets", together("count: 100%, allowDisruptedTargets: true, network: {drop: 1}", "count: 100%, allowDisruptedTargets: true, cpuPressure: {}"), ""},
	{"the same fault, although both share", together("count: 100%, allowDisruptedTargets: true, cpuPressure: {}", "count: 1, allowDisruptedTargets: true, cpuPressure: {}"), "another step"},
	{"other pods", together("count: 100%, network: {drop: 1}, advancedSelector: [{key: tier, operator: In, values: [front]}]", "count: 100%, cpuPressure: {}"), ""},
	{"the same pods by both selectors", together("count: 100%, network: {drop: 1}, advancedSelector: [{key: tier, operator: In, values: [front]}]", "count: 100%, cpuPressure: {}, advancedSelector: [{key: tier, operator: In, values: [front]}]"), "set allowDisruptedTargets: true in both"},
	{"other pods by their annotations", together("count: 100%, network: {drop: 1}, filter: {annotations: {a: b}}", "count: 100%, cpuPressure: {}, filter: {annotations: {a: c}}"), ""},
	{"the same pods by their annotations", together("count: 100%, network: {drop: 1}, filter: {annotations: {a: b}}", "count: 100%, cpuPressure: {}, filter: {annotations: {a: b}}"), "set allowDisruptedTargets: true in both"},
	{"nodes and pods of one label", together("count: 100%, level: node, network: {drop: 1}", "count: 100%, cpuPressure: {}"), ""},
	{"pods that are still to be created", together("count: 100%, onInit: true, network: {drop: 1}", "count: 100%, network: {drop: 1}"), ""},
	{"three disruptions of which the last two want the same pods",
		"steps: [{name: a, disruptions: [{template: {selector: {app: db}, count: 100%, network: {drop: 1}}}, {template: {selector: {app: web}, count: 2, network: {drop: 1}}}, {template: {selector: {app: web}, count: 100%, cpuPressure: {}}}]}]", "allowDisruptedTargets: true in both"},
	{"the same pods in two steps",
		"steps: [{name: a, disruptions: [{template: {selector: {app: web}, count: 100%, cpuPressure: {}}}]}, {name: b, disruptions: [{template: {selector: {app: web}, count: 100%, cpuPressure: {}}}]}]", ""},
	{"a selector that is null", "steps: [{name: a, disruptions: [{template: {selector: null, filter: null, advancedSelector: [{key: app, operator: Exists}], count: 100%, network: {drop: 1}}}, {template: {advancedSelector: [{key: app, operator: Exists}], count: 100%, cpuPressure: {}}}]}]", "set allowDisruptedTargets: true in both"},
	{"one of two selectors is null", "steps: [{name: a, disruptions: [{template: {selector: null, advancedSelector: [{key: app, operator: Exists}], count: 100%, network: {drop: 1}}}, {template: {selector: {app: web}, advancedSelector: null, count: 100%, cpuPressure: {}}}]}]", ""},
}

// worseScenarios are refused by Validate, and by the API server only once the
// disruption is to be created (decision 0009).
var worseScenarios = []manifest{
	{"a template without a kind", one("count: 1, selector: {app: web}"), "no kind is asked for"},
	{"a template of everything", one("count: 1, cpuPressure: {}"), "selector and advancedSelector are both empty"},
	{"a template with a moment", one(burns + ", triggers: {inject: {notBefore: '2027-01-01T00:00:00Z'}}"), "the step may begin later"},
	{"a template of a moment", one(burns + ", duration: 1ms"), "shorter than 1s"},
}

// conditions are refused by Validate alone: rules that compare steps cost more than the
// API server allows.
var conditions = []manifest{
	{"a step that is never done", "steps: [{name: a, disruptions: [{template: {" + burns + "}}]}, {name: b, wait: 5m, when: {step: a, verdict: [Failed]}}]", "this step is never done"},
	{"a condition about nothing", "steps: [{name: b, wait: 5m, when: {step: a, verdict: [Passed]}}]", "no step of disruptions that comes before"},
	{"a condition about itself", "steps: [{name: a, when: {step: a, verdict: [Passed]}, disruptions: [{template: {" + burns + "}}]}]", "no step of disruptions that comes before"},
	{"a condition about a later step", "steps: [{name: b, wait: 5m, when: {step: a, verdict: [Passed]}}, {name: a, disruptions: [{template: {" + burns + "}}]}]", "no step of disruptions that comes before"},
	{"a condition about a wait", "steps: [{name: a, wait: 5m}, {name: b, wait: 5m, when: {step: a, verdict: [Passed]}}]", "no step of disruptions that comes before"},
}

func TestConditionsOfSteps(t *testing.T) {
	for _, m := range conditions {
		t.Run(m.name, func(t *testing.T) {
			local, _ := scenarioOf(t, m)
			m.check(t, "Validate", local.Validate().ToAggregate())
		})
	}
}

func named37(more int) string {
	return "apiVersion: chaos.squall.dev/v1beta1\nkind: DisruptionScenario\nmetadata: {name: " + strings.Repeat("a", 37+more) + ", namespace: default}\nspec: {steps: [{name: a, wait: 5m}]}\n"
}

func TestScenariosAPIServerAgreesWithValidate(t *testing.T) {
	client, err := dynamic.NewForConfig(apiserver.Start(t))
	if err != nil {
		t.Fatal(err)
	}
	there := client.Resource(v1beta1.GroupVersion.WithResource("disruptionscenarios")).Namespace("default")
	for _, m := range slices.Concat(scenarios, crowded) {
		t.Run(m.name, func(t *testing.T) {
			local, object := scenarioOf(t, m)
			m.check(t, "Validate", local.Validate().ToAggregate())
			answer, err := there.Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
			m.check(t, "the API server", err)
			if strings.Contains(m.text, ": null") { // it keeps a null, which a create drops
				_, err = there.Apply(t.Context(), object.GetName(), object, metav1.ApplyOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: "gitops"})
				m.check(t, "server-side apply", err)
			}
			if m.refused != "" || t.Failed() {
				return
			}
			stored := &v1beta1.DisruptionScenario{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(answer.Object, stored); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(local.Spec, stored.Spec); diff != "" {
				t.Errorf("the API server's defaults are not Default's (-Default +server):\n%s", diff)
			}
		})
	}
}

func TestTemplatesOfScenariosAreJudgedAsDisruptions(t *testing.T) {
	client := disruptions(t)
	for _, m := range worseScenarios {
		t.Run(m.name, func(t *testing.T) {
			local, _ := scenarioOf(t, m)
			m.check(t, "Validate", local.Validate().ToAggregate())
			if strings.Contains(m.name, "moment") && !strings.Contains(m.name, "of a") {
				return // only what repeats or begins later cannot have one
			}
			spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&local.Spec.Steps[0].Disruptions[0].Template)
			if err != nil {
				t.Fatal(err)
			}
			child := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "chaos.squall.dev/v1beta1", "kind": "Disruption",
				"metadata": map[string]any{"name": local.ChildName(0, 0), "namespace": "default"}, "spec": spec,
			}}
			_, err = client.Create(t.Context(), child, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			m.check(t, "the API server, of its disruption,", err)
		})
	}
}

// The reason of decision 0009: were two specifications with their rules accepted,
// the rules could stay.
func TestNoListOfSpecificationsKeepsItsRules(t *testing.T) {
	client, err := dynamic.NewForConfig(apiserver.Start(t))
	if err != nil {
		t.Fatal(err)
	}
	resource := v1beta1.GroupVersion.WithResource("customresourcedefinitions")
	resource.Group, resource.Version = "apiextensions.k8s.io", "v1"
	there := client.Resource(resource)
	crd, err := there.Get(t.Context(), "disruptions.chaos.squall.dev", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	version := crd.Object["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
	properties := version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)["properties"].(map[string]any)
	properties["specs"] = map[string]any{"type": "array", "maxItems": int64(2), "items": properties["spec"]}
	delete(properties, "spec")
	delete(version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any), "required")
	_, err = there.Update(t.Context(), crd, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	if err == nil || !strings.Contains(err.Error(), "exceeds budget") {
		t.Errorf("a list of two specifications: %v, want that the rules exceed the budget", err)
	}
}

func scenarioOf(t *testing.T, m manifest) (*v1beta1.DisruptionScenario, *unstructured.Unstructured) {
	t.Helper()
	text := []byte(strings.Replace(string(m.object()), "kind: Disruption\n", "kind: DisruptionScenario\n", 1))
	local := &v1beta1.DisruptionScenario{}
	if err := yaml.UnmarshalStrict(text, local); err != nil {
		t.Fatal(err)
	}
	local.Default()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &object.Object); err != nil {
		t.Fatal(err)
	}
	return local, object
}
