package deploy

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/squall-chaos/squall/api/v1beta1"
)

const scenarioSample = "samples/disruption-scenario.yaml"

// aStep returns a step with a disruption like that of aDisruption for each of the given
// changes.
func aStep(name string, templates ...map[string]any) map[string]any {
	var disruptions []any
	for _, changes := range templates {
		spec := map[string]any{"count": int64(1), "selector": map[string]any{"app": "web"}, "cpuPressure": map[string]any{}}
		for field, value := range changes {
			spec[field] = value
		}
		disruptions = append(disruptions, map[string]any{"template": spec})
	}
	return map[string]any{"name": name, "disruptions": disruptions}
}

func aScenario(name string, steps ...any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "chaos.squall.dev/v1beta1", "kind": "DisruptionScenario", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"steps": steps},
	}}
}

// lastOfThree is a scenario whose last disruption is the given one: the rules apply to all.
func lastOfThree(name string, template map[string]any) *unstructured.Unstructured {
	return aScenario(name, aStep("first", nil), map[string]any{"name": "calm", "wait": "1m"}, aStep("last", nil, template))
}

// The sample is accepted unchanged, from a user with the roles for it.
func TestScenarioSample(t *testing.T) {
	kube := installed(t)
	bind(t, kube, "player", "squall-disruptions", "default")
	bind(t, kube, "player", "squall-disruption-scenarios", "default")
	text, err := os.ReadFile(scenarioSample)
	if err != nil {
		t.Fatal(err)
	}
	sample := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &sample.Object); err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"", "player"} {
		eventually(t, scenarioSample+" by "+user, func() bool { return tried(t, user, "default", "disruptionscenarios", sample) == nil })
	}
}

// rule C12: the disruptions of a scenario give no rights beyond those to a Disruption.
func TestAScenarioNeedsTheRightsOfAllItsRuns(t *testing.T) {
	kube := installed(t)
	for _, user := range []string{"scenario-only", "scenario-tenant", "scenario-operator"} {
		bind(t, kube, user, "squall-disruption-scenarios", "default")
	}
	for _, user := range []string{"scenario-tenant", "scenario-operator"} {
		bind(t, kube, user, "squall-disruptions", "default")
	}
	bind(t, kube, "scenario-operator", "squall-node-disruptions", "")
	bind(t, kube, "scenario-operator", "squall-unsafe-disruptions", "")
	bind(t, kube, "scenario-operator", "squall-long-disruptions", "default")
	create := func(user string, template map[string]any) error {
		return tried(t, user, "default", "disruptionscenarios", lastOfThree("asked", template))
	}
	for _, c := range []struct {
		name     string
		template map[string]any
		missing  string
	}{
		{"a pod", nil, ""},
		{"a node", map[string]any{"level": "node"}, "nodedisruptions"},
		{"the node of a pod", map[string]any{"cpuPressure": nil, "nodeFailure": map[string]any{"shutdown": true}}, "nodedisruptions"},
		{"hosts that the operator protects", map[string]any{"network": map[string]any{"drop": int64(10), "disableDefaultAllowedHosts": true}}, "unsafedisruptions"},
		{"no safety nets", map[string]any{"unsafeMode": map[string]any{"disableAll": true}}, "unsafedisruptions"},
		{"all traffic", map[string]any{"unsafeMode": map[string]any{"disableNeitherHostNorPort": true}}, "unsafedisruptions"},
		{"too many", map[string]any{"unsafeMode": map[string]any{"disableCountTooLarge": true}}, "unsafedisruptions"},
		{"a limit of its own", map[string]any{"unsafeMode": map[string]any{"config": map[string]any{"countTooLarge": map[string]any{"clusterThreshold": int64(90)}}}}, "unsafedisruptions"},
		{"a root that fails", map[string]any{"unsafeMode": map[string]any{"allowRootDiskFailure": true}}, "unsafedisruptions"},
		{"a day and a second", map[string]any{"duration": "24h1s"}, "longdisruptions"},
		{"a day and a bit, as a number", map[string]any{"duration": int64(24*3600*1e9 + 1)}, "longdisruptions"},
	} {
		t.Run(c.name, func(t *testing.T) {
			refused(t, func() error { return create("scenario-only", c.template) }, "scenario-only needs the right to create disruptions.chaos.squall.dev in default")
			if c.missing == "" {
				eventually(t, "scenario-tenant may", func() bool { return create("scenario-tenant", c.template) == nil })
			} else {
				refused(t, func() error { return create("scenario-tenant", c.template) }, "scenario-tenant needs the right to create "+c.missing+".chaos.squall.dev")
			}
			eventually(t, "scenario-operator may", func() bool { return create("scenario-operator", c.template) == nil })
		})
	}
	for _, namespace := range []string{"squall-system", "squall-chaos", "kube-system"} {
		refused(t, func() error {
			return tried(t, "", namespace, "disruptionscenarios", lastOfThree("inside", nil))
		}, "pods of "+namespace+" are never targets")
	}
}

// largest is a scenario of as many disruptions as the schema allows, each of many kinds.
// The last is the given one.
func largest(last map[string]any) *unstructured.Unstructured {
	var hosts []any
	for i := range 8 {
		hosts = append(hosts, map[string]any{"host": fmt.Sprintf("db-%d.example.com", i), "port": int64(5432)})
	}
	many := map[string]any{
		"network": map[string]any{"drop": int64(10), "hosts": hosts}, "duration": "24h", "unsafeMode": map[string]any{},
		"memoryPressure": map[string]any{"targetPercent": "50%"},
	}
	var steps []any
	for i := range 32 {
		templates := slices.Repeat([]map[string]any{many}, 8)
		if i == 31 && last != nil {
			templates[7] = last
		}
		steps = append(steps, aStep(fmt.Sprintf("step-%d", i), templates...))
	}
	return aScenario("largest", steps...)
}

// The largest scenario is judged in full. Its cost neither skips the rules nor causes a
// refusal, also with as many rules as a DisruptionPolicy may have.
func TestTheLargestScenarioIsJudged(t *testing.T) {
	kube := installed(t)
	namespace := aNamespace(t, kube)
	bind(t, kube, "scenario-large", "squall-disruption-scenarios", namespace)
	bind(t, kube, "scenario-large", "squall-disruptions", namespace)
	var rules []any
	for i := range 31 {
		rules = append(rules, map[string]any{
			"name": fmt.Sprintf("rule-%d", i), "kinds": []any{"dns-disruption", "grpc-disruption", "node-failure", "pod-replacement", "disk-failure", "dns", "grpc", "nodeFailure", "podReplacement", "diskFailure"}, "namespaces": []any{namespace},
		})
	}
	policed(t, namespace, rules...)
	create := func(last map[string]any) error {
		began := time.Now()
		err := tried(t, "scenario-large", namespace, "disruptionscenarios", largest(last))
		t.Logf("after %s", time.Since(began))
		return err
	}
	var last error
	eventually(t, "the largest scenario is let in", func() bool {
		last = create(nil)
		return !apierrors.IsForbidden(last)
	})
	if last != nil {
		t.Fatal(last)
	}
	refused(t, func() error { return create(map[string]any{"level": "node"}) }, "nodedisruptions")
	refused(t, func() error { return create(map[string]any{"duration": "24h1s"}) }, "longdisruptions")
	refused(t, func() error { return create(map[string]any{"cpuPressure": nil, "containerFailure": map[string]any{}}) }, `of DisruptionPolicy "`+namespace+`"`)
}

// rule C12: the programs make runs of scenarios by their names and numbers. Of a scenario
// they change only its finalizers.
func TestProgramsMakeRunsOfScenariosOnly(t *testing.T) {
	kube := installed(t)
	for _, user := range []string{workerUser, bridgeUser} {
		bind(t, kube, user, "squall-disruptions", "default")
		bind(t, kube, user, "squall-disruption-scenarios", "default")
	}
	run := func(name, kind string) *unstructured.Unstructured {
		controller := true
		d := aDisruption(name)
		d.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: "chaos.squall.dev/v1beta1", Kind: kind, Name: "day", UID: "b3a8cc1d-0000-0000-0000-000000000000", Controller: &controller,
		}})
		return d
	}
	for _, name := range []string{"disruption-scenario-day-1-1", "disruption-scenario-day-32-8"} {
		eventually(t, "the worker makes "+name, func() bool {
			return tried(t, workerUser, "default", "disruptions", run(name, "DisruptionScenario")) == nil
		})
	}
	const message = "runs of a DisruptionCron, DisruptionRollout or DisruptionScenario, and no others"
	for _, name := range []string{"disruption-scenario-day", "disruption-scenario-day-1", "disruption-scenario-day-1-9", "disruption-scenario-day-0-1",
		"disruption-scenario-day-x-1", "disruption-scenario-day-a-1-1", "disruption-scenario-night-1-1", "disruption-scenario-da-1-1", "x"} {
		refused(t, func() error {
			return tried(t, workerUser, "default", "disruptions", run(name, "DisruptionScenario"))
		}, message)
	}
	refused(t, func() error {
		return tried(t, workerUser, "default", "disruptions", run("disruption-scenario-day-1-1", "DisruptionCron"))
	}, message)

	marked := aDisruption("passes-for-a-run")
	marked.SetLabels(map[string]string{v1beta1.LabelScenario: "day"})
	for _, d := range []*unstructured.Unstructured{marked, run("disruption-scenario-day-1-1", "DisruptionScenario")} {
		refused(t, func() error { return tried(t, "", "default", "disruptions", d) }, "the worker of Squall alone makes Disruptions that are runs")
	}
	if _, err := resourcesAs(t, "", "disruptions", "default").Create(t.Context(), aDisruption("of-no-scenario"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	refused(t, func() error {
		return patched(t, "", "disruptions", "of-no-scenario", `{"metadata":{"labels":{"`+v1beta1.LabelScenario+`":"day"}}}`)
	}, "the worker of Squall alone makes Disruptions that are runs")

	if _, err := resourcesAs(t, "", "disruptionscenarios", "default").Create(t.Context(), lastOfThree("held", nil), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{workerUser, bridgeUser} {
		eventually(t, user+" adds its finalizer", func() bool {
			return patched(t, user, "disruptionscenarios", "held", `{"metadata":{"finalizers":["finalizer.chaos.squall.dev"]}}`) == nil
		})
		for _, body := range []string{`{"spec":{"steps":[{"name":"calm","wait":"1m"}]}}`, `{"metadata":{"annotations":{"a":"b"}}}`} {
			refused(t, func() error { return patched(t, user, "disruptionscenarios", "held", body) }, "may change the finalizers")
		}
	}
}

// patched changes an object by a dry run.
func patched(t *testing.T, user, resource, name, body string) error {
	t.Helper()
	_, err := resourcesAs(t, user, resource, "default").Patch(t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// rule C13: a user with the right approves a scenario in their own name, while it waits for
// that. Then the scenario continues.
func TestApprovals(t *testing.T) {
	kube := installed(t)
	for _, user := range []string{"approver", "colleague", "scenario-owner"} {
		bind(t, kube, user, "squall-disruption-scenarios", "default")
		bind(t, kube, user, "squall-disruptions", "default")
	}
	bind(t, kube, "approver", "squall-scenario-approvals", "default")
	bind(t, kube, "colleague", "squall-scenario-approvals", "default")
	bind(t, kube, "approver-only", "squall-scenario-approvals", "default")
	administrator := resourcesAs(t, "", "disruptionscenarios", "default")
	look := map[string]any{"name": "look", "approval": map[string]any{"message": "is the shop open"}}
	again := map[string]any{"name": "again", "approval": map[string]any{"message": "is it still"}}
	approval := func(step, user string) string {
		return fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1beta1.AnnotationApprovedBy+step, user)
	}
	patch := func(user, body string) error { return patched(t, user, "disruptionscenarios", "asks", body) }
	phase := func(look, again string) {
		t.Helper()
		body := fmt.Sprintf(`{"status":{"steps":[{"name":"look","phase":%q,"startedAt":"2026-11-23T12:00:00Z"},{"name":"again","phase":%q,"startedAt":"2026-11-23T12:00:00Z"}]}}`, look, again)
		if _, err := administrator.Patch(t.Context(), "asks", types.MergePatchType, []byte(body), metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}
	const notNow = "no step of that name waits for an approval now"
	approved := aScenario("approved", look)
	approved.SetAnnotations(map[string]string{v1beta1.AnnotationApprovedBy + "look": "approver"})
	refused(t, func() error { return tried(t, "approver", "default", "disruptionscenarios", approved) }, notNow)
	if _, err := administrator.Create(t.Context(), aScenario("asks", look, again), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	refused(t, func() error { return patch("approver", approval("look", "approver")) }, notNow)
	phase("Suspended", "Running")
	eventually(t, "approver may", func() bool { return patch("approver", approval("look", "approver")) == nil })
	eventually(t, "approver-only may", func() bool { return patch("approver-only", approval("look", "approver-only")) == nil })
	refused(t, func() error { return patch("scenario-owner", approval("look", "scenario-owner")) }, "scenario-owner needs the right to approve disruptionscenarios.chaos.squall.dev in default")
	refused(t, func() error { return patch("approver", approval("look", "colleague")) }, "must be approver")
	for _, step := range []string{"again", "other"} {
		refused(t, func() error { return patch("approver", approval(step, "approver")) }, notNow)
	}
	// The right to approve does not include edits of the steps.
	refused(t, func() error { return patch("approver-only", `{"spec":{"steps":[{"name":"calm","wait":"1m"}]}}`) }, "needs the right to create disruptions")
	// Its author may change other annotations.
	if err := patch("scenario-owner", `{"metadata":{"annotations":{"team":"shop"}}}`); err != nil {
		t.Errorf("another annotation: %v, want it accepted", err)
	}

	_, err := resourcesAs(t, "approver", "disruptionscenarios", "default").Patch(t.Context(), "asks", types.MergePatchType, []byte(approval("look", "approver")), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const stays = "an approval stays as it was given"
	for user, body := range map[string]string{
		"colleague": approval("look", "colleague"), "approver": strings.Replace(approval("look", ""), `""`, "null", 1), "": `{"metadata":{"annotations":null}}`,
	} {
		refused(t, func() error { return patch(user, body) }, stays)
	}
	phase("Finished", "Suspended")
	eventually(t, "the next step is approved beside it", func() bool { return patch("colleague", approval("again", "colleague")) == nil })
	if err := patch("scenario-owner", `{"metadata":{"labels":{"team":"shop"}}}`); err != nil {
		t.Errorf("a label on an approved scenario: %v, want it accepted", err)
	}
}
