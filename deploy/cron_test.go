package deploy

import (
	"os"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/squall-chaos/squall/test/apiserver"
)

const cronSample = "samples/disruption-cron.yaml"

const (
	workerUser = "system:serviceaccount:squall-system:squall-worker"
	bridgeUser = "system:serviceaccount:squall-system:squall-crdbridge"
)

var dryRun = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}

// bind gives a user a ClusterRole in a namespace, or everywhere.
func bind(t *testing.T, kube kubernetes.Interface, user, role, namespace string) {
	t.Helper()
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	meta := metav1.ObjectMeta{GenerateName: "test-", Namespace: namespace}
	var err error
	if namespace == "" {
		_, err = kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref}, metav1.CreateOptions{})
	} else {
		_, err = kube.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// resourcesAs returns the resources of Squall in a namespace as a user sees them, or the
// administrator if user is empty.
func resourcesAs(t *testing.T, user, resource, namespace string) dynamic.ResourceInterface {
	t.Helper()
	config := apiserver.Start(t)
	if user != "" {
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(schema.GroupVersionResource{Group: "chaos.squall.dev", Version: "v1beta1", Resource: resource}).Namespace(namespace)
}

// aCron repeats the disruption of aDisruption, with other fields in its template.
func aCron(name string, template map[string]any) *unstructured.Unstructured {
	spec := map[string]any{"count": int64(1), "cpuPressure": map[string]any{}}
	for field, value := range template {
		spec[field] = value
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "chaos.squall.dev/v1beta1", "kind": "DisruptionCron", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"schedule": "@weekly", "targetResource": map[string]any{"kind": "deployment", "name": "web"}, "disruptionTemplate": spec,
		},
	}}
}

// The sample is accepted unchanged, from a user with the roles for it.
func TestCronSample(t *testing.T) {
	kube := installed(t)
	bind(t, kube, "sampler", "squall-disruptions", "default")
	bind(t, kube, "sampler", "squall-disruption-crons", "default")
	text, err := os.ReadFile(cronSample)
	if err != nil {
		t.Fatal(err)
	}
	sample := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &sample.Object); err != nil {
		t.Fatal(err)
	}
	sample.SetNamespace("default")
	for _, user := range []string{"", "sampler"} {
		var last error
		eventually(t, cronSample+" by "+user, func() bool { // the API server applies new rights after a moment
			_, last = resourcesAs(t, user, "disruptioncrons", "default").Create(t.Context(), sample, dryRun)
			return !apierrors.IsForbidden(last)
		})
		if last != nil {
			t.Errorf("%s by %q: %v", cronSample, user, last)
		}
	}
}

// rule C1: a cron gives no rights beyond those to a Disruption. The template is judged by
// the rights of its author, and its runs need the right to create Disruptions.
func TestACronNeedsTheRightsOfItsRuns(t *testing.T) {
	kube := installed(t)
	// cron-only may create crons and no Disruptions; the tenant may create both.
	for _, user := range []string{"cron-only", "cron-tenant", "cron-operator"} {
		bind(t, kube, user, "squall-disruption-crons", "default")
	}
	for _, user := range []string{"cron-tenant", "cron-operator"} {
		bind(t, kube, user, "squall-disruptions", "default")
	}
	// A right to disrupt another namespace does not count here.
	bind(t, kube, "cron-only", "squall-disruptions", "kube-public")
	bind(t, kube, "cron-operator", "squall-node-disruptions", "")
	bind(t, kube, "cron-operator", "squall-unsafe-disruptions", "")
	bind(t, kube, "cron-operator", "squall-long-disruptions", "default")
	create := func(user string, template map[string]any) error {
		_, err := resourcesAs(t, user, "disruptioncrons", "default").Create(t.Context(), aCron("asked", template), dryRun)
		return err
	}
	root := map[string]any{"paths": []any{"/data"}, "probability": "10%"}
	for _, c := range []struct {
		name     string
		template map[string]any
		missing  string
	}{
		{"a pod", nil, ""},
		{"the node of a pod", map[string]any{"cpuPressure": nil, "nodeFailure": map[string]any{"shutdown": true}}, "nodedisruptions"},
		{"hosts that the operator protects", map[string]any{"network": map[string]any{"drop": int64(10), "disableDefaultAllowedHosts": true}}, "unsafedisruptions"},
		{"no safety nets", map[string]any{"unsafeMode": map[string]any{"disableAll": true}}, "unsafedisruptions"},
		{"all traffic", map[string]any{"unsafeMode": map[string]any{"disableNeitherHostNorPort": true}}, "unsafedisruptions"},
		{"too many", map[string]any{"unsafeMode": map[string]any{"disableCountTooLarge": true}}, "unsafedisruptions"},
		{"a limit of its own", map[string]any{"unsafeMode": map[string]any{"config": map[string]any{"countTooLarge": map[string]any{"clusterThreshold": int64(90)}}}}, "unsafedisruptions"},
		{"a root that fails", map[string]any{"cpuPressure": nil, "diskFailure": root, "unsafeMode": map[string]any{"allowRootDiskFailure": true}}, "unsafedisruptions"},
		{"a day and a second", map[string]any{"duration": "24h1s"}, "longdisruptions"},
		{"a day and a bit, as a number", map[string]any{"duration": int64(24*3600*1e9 + 1)}, "longdisruptions"},
	} {
		t.Run(c.name, func(t *testing.T) {
			refused(t, func() error { return create("cron-only", c.template) }, "cron-only needs the right to create disruptions.chaos.squall.dev in default")
			if c.missing == "" {
				eventually(t, "cron-tenant may", func() bool { return create("cron-tenant", c.template) == nil })
			} else {
				refused(t, func() error { return create("cron-tenant", c.template) }, "cron-tenant needs the right to create "+c.missing+".chaos.squall.dev")
			}
			eventually(t, "cron-operator may", func() bool { return create("cron-operator", c.template) == nil })
		})
	}
}

// rule C1: an edit cannot write what a creation could not. A user without the rights to a
// cron's runs cannot resume it either.
func TestAnEditOfACronNeedsTheRightToo(t *testing.T) {
	kube := installed(t)
	bind(t, kube, "cron-editor", "squall-disruption-crons", "default")
	bind(t, kube, "cron-editor", "squall-disruptions", "default")
	administrator := resourcesAs(t, "", "disruptioncrons", "default")
	ofNodes := aCron("of-nodes", map[string]any{"cpuPressure": nil, "nodeFailure": map[string]any{}})
	ofNodes.Object["spec"].(map[string]any)["paused"] = true
	for _, cron := range []*unstructured.Unstructured{aCron("of-pods", nil), ofNodes} {
		if _, err := administrator.Create(t.Context(), cron, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	patch := func(name, body string) error {
		_, err := resourcesAs(t, "cron-editor", "disruptioncrons", "default").Patch(t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	eventually(t, "cron-editor may edit", func() bool { return patch("of-pods", `{"spec":{"schedule":"@daily"}}`) == nil })
	const message = "create nodedisruptions.chaos.squall.dev"
	refused(t, func() error {
		return patch("of-pods", `{"spec":{"disruptionTemplate":{"cpuPressure":null,"nodeFailure":{}}}}`)
	}, message)
	refused(t, func() error { return patch("of-nodes", `{"spec":{"paused":false}}`) }, message)
	refused(t, func() error {
		return patch("of-nodes", `{"spec":{"targetResource":{"name":"other"}}}`)
	}, message)
	for _, body := range []string{`{"metadata":{"labels":{"a":"b"}}}`, `{"metadata":{"finalizers":["finalizer.chaos.squall.dev"]}}`} {
		if err := patch("of-nodes", body); err != nil {
			t.Errorf("patch with %s: %v, want it accepted", body, err)
		}
	}
}

// Pods of Squall and of the cluster itself are no targets of a cron either.
func TestNoCronInNamespacesOfTheSystem(t *testing.T) {
	installed(t)
	for _, namespace := range []string{"squall-system", "squall-chaos", "kube-system"} {
		refused(t, func() error {
			_, err := resourcesAs(t, "", "disruptioncrons", namespace).Create(t.Context(), aCron("inside", nil), dryRun)
			return err
		}, "pods of "+namespace+" are never targets")
	}
}

// rule C2: the programs make and delete only runs of crons, whatever rights they have. Of a
// cron they change only its finalizers.
func TestProgramsMakeRunsOnly(t *testing.T) {
	kube := installed(t)
	// The test gives them more rights than the base does, so that the policy alone limits
	// them.
	for _, user := range []string{workerUser, bridgeUser} {
		bind(t, kube, user, "squall-disruptions", "default")
		bind(t, kube, user, "squall-disruption-crons", "default")
		bind(t, kube, user, "squall-disruption-rollouts", "default")
	}
	run := func(name, kind, owner string, controller bool) *unstructured.Unstructured {
		d := aDisruption(name)
		d.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: "chaos.squall.dev/v1beta1", Kind: kind, Name: owner, UID: "b3a8cc1d-0000-0000-0000-000000000000", Controller: &controller,
		}})
		return d
	}
	nodes := run("disruption-cron-noon", "DisruptionCron", "noon", true)
	nodes.Object["spec"].(map[string]any)["nodeFailure"] = map[string]any{}
	delete(nodes.Object["spec"].(map[string]any), "cpuPressure")
	create := func(user string, d *unstructured.Unstructured) error {
		_, err := resourcesAs(t, user, "disruptions", "default").Create(t.Context(), d, dryRun)
		return err
	}
	for _, allowed := range []*unstructured.Unstructured{run("disruption-cron-noon", "DisruptionCron", "noon", true), run("disruption-rollout-noon", "DisruptionRollout", "noon", true), nodes} {
		eventually(t, "the worker makes a run", func() bool { return create(workerUser, allowed) == nil })
	}
	const message = "make and delete Disruptions that are runs of a DisruptionCron, DisruptionRollout or DisruptionScenario, and no others but those that are over"
	for name, d := range map[string]*unstructured.Unstructured{
		"nobody's":              aDisruption("disruption-cron-noon"),
		"another owner's":       run("disruption-cron-noon", "ConfigMap", "noon", true),
		"of another name":       run("disruption-cron-dusk", "DisruptionCron", "noon", true),
		"not its controller's":  run("disruption-cron-noon", "DisruptionCron", "noon", false),
		"of a cron's name":      run("disruption-cron-noon", "DisruptionRollout", "noon", true),
		"of a rollout's name":   run("disruption-rollout-noon", "DisruptionCron", "noon", true),
		"of no name of its own": run("x", "DisruptionCron", "noon", true),
	} {
		t.Run(name, func(t *testing.T) { refused(t, func() error { return create(workerUser, d) }, message) })
	}
	// The bridge makes none of nodes, and the usual rules judge a user's.
	refused(t, func() error { return create(bridgeUser, nodes) }, "nodedisruptions", "the worker of Squall alone makes")

	for user, d := range map[string]*unstructured.Unstructured{"": aDisruption("a-persons"), workerUser: run("disruption-cron-noon", "DisruptionCron", "noon", true)} {
		if _, err := resourcesAs(t, user, "disruptions", "default").Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(user, name string) error {
		return resourcesAs(t, user, "disruptions", "default").Delete(t.Context(), name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	}
	for _, user := range []string{workerUser, bridgeUser} {
		refused(t, func() error { return remove(user, "a-persons") }, message)
		eventually(t, user+" deletes a run", func() bool { return remove(user, "disruption-cron-noon") == nil })
	}
	status := func(body string) {
		t.Helper()
		if _, err := resourcesAs(t, "", "disruptions", "default").Patch(t.Context(), "a-persons", types.MergePatchType, []byte(body), metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}
	finalizers := func(body string) {
		t.Helper()
		if _, err := resourcesAs(t, "", "disruptions", "default").Patch(t.Context(), "a-persons", types.MergePatchType, []byte(`{"metadata":{"finalizers":`+body+`}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, phase := range []string{"Finished", "Rejected"} {
		status(`{"status":{"phase":"` + phase + `"}}`)
		eventually(t, "the bridge deletes what is over", func() bool { return remove(bridgeUser, "a-persons") == nil })
		refused(t, func() error { return remove(workerUser, "a-persons") }, message)
		finalizers(`["finalizer.chaos.squall.dev"]`)
		refused(t, func() error { return remove(bridgeUser, "a-persons") }, message)
		finalizers(`null`)
	}
	status(`{"status":{"phase":"Holding"}}`)
	refused(t, func() error { return remove(bridgeUser, "a-persons") }, message)

	if _, err := resourcesAs(t, "", "disruptioncrons", "default").Create(t.Context(), aCron("held", nil), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	patch := func(body string) error {
		_, err := resourcesAs(t, bridgeUser, "disruptioncrons", "default").Patch(t.Context(), "held", types.MergePatchType, []byte(body), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	eventually(t, "the bridge adds its finalizer", func() bool { return patch(`{"metadata":{"finalizers":["finalizer.chaos.squall.dev"]}}`) == nil })
	refused(t, func() error { return patch(`{"spec":{"paused":true}}`) }, "may change the finalizers")
	refused(t, func() error { return patch(`{"metadata":{"annotations":{"a":"b"}}}`) }, "may change the finalizers")
}

// rule C4: the worker alone makes Disruptions with the marks of a run. An administrator
// cannot, not even by an edit.
func TestOnlyTheWorkerMakesRuns(t *testing.T) {
	kube := installed(t)
	bind(t, kube, workerUser, "squall-disruptions", "default")
	controller := true
	owner := metav1.OwnerReference{APIVersion: "chaos.squall.dev/v1beta1", Kind: "DisruptionCron", Name: "dusk", UID: "b3a8cc1d-0000-0000-0000-000000000000", Controller: &controller}
	ofRollouts := owner
	ofRollouts.Kind = "DisruptionRollout"
	const message = "the worker of Squall alone makes Disruptions that are runs of a DisruptionCron"
	administrator := resourcesAs(t, "", "disruptions", "default")
	marks := map[string]struct {
		mark func(*unstructured.Unstructured)
		edit string
	}{
		"an owner": {func(d *unstructured.Unstructured) { d.SetOwnerReferences([]metav1.OwnerReference{owner}) }, `{"metadata":{"ownerReferences":[{"apiVersion":"chaos.squall.dev/v1beta1","kind":"DisruptionCron","name":"dusk","uid":"b3a8cc1d-0000-0000-0000-000000000000"}]}}`},
		"a label": {func(d *unstructured.Unstructured) {
			d.SetLabels(map[string]string{"chaos.squall.dev/disruption-cron-name": "dusk"})
		}, `{"metadata":{"labels":{"chaos.squall.dev/disruption-cron-name":"noon"}}}`},
		"a label of rollouts": {func(d *unstructured.Unstructured) {
			d.SetLabels(map[string]string{"chaos.squall.dev/disruption-rollout-name": "dusk"})
		}, `{"metadata":{"labels":{"chaos.squall.dev/disruption-rollout-name":"noon"}}}`},
		"a rollout as owner": {func(d *unstructured.Unstructured) { d.SetOwnerReferences([]metav1.OwnerReference{ofRollouts}) }, `{"metadata":{"ownerReferences":[{"apiVersion":"chaos.squall.dev/v1beta1","kind":"DisruptionRollout","name":"dusk","uid":"b3a8cc1d-0000-0000-0000-000000000000"}]}}`},
		"an annotation": {func(d *unstructured.Unstructured) {
			d.SetAnnotations(map[string]string{"chaos.squall.dev/scheduled-at": "2026-11-23T12:00:00Z"})
		}, `{"metadata":{"annotations":{"chaos.squall.dev/scheduled-at":"2026-11-23T12:00:00Z"}}}`},
	}
	if _, err := administrator.Create(t.Context(), aDisruption("unmarked"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	patch := func(name, body string) error {
		_, err := administrator.Patch(t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	ofTheWorker := aDisruption("disruption-cron-dusk")
	for name, m := range marks {
		t.Run(name, func(t *testing.T) {
			d := aDisruption("passes-for-a-run")
			m.mark(d)
			refused(t, func() error { _, err := administrator.Create(t.Context(), d, dryRun); return err }, message)
			refused(t, func() error { return patch("unmarked", m.edit) }, message)
		})
	}
	for _, name := range []string{"an owner", "a label", "an annotation"} {
		marks[name].mark(ofTheWorker)
	}
	eventually(t, "the worker makes a run", func() bool {
		_, err := resourcesAs(t, workerUser, "disruptions", "default").Create(t.Context(), ofTheWorker, metav1.CreateOptions{})
		return err == nil
	})
	refused(t, func() error { return patch("disruption-cron-dusk", marks["a label"].edit) }, message)
	for _, body := range []string{`{"metadata":{"finalizers":["finalizer.chaos.squall.dev"]}}`, `{"metadata":{"labels":{"a":"b"}}}`, `{"metadata":{"ownerReferences":null}}`} {
		if err := patch("disruption-cron-dusk", body); err != nil {
			t.Errorf("patch of a run with %s: %v, want it accepted", body, err)
		}
	}
}

// A cron is refused if its runs last until the next one is due, as it could never run.
// Admission does not judge conditions that depend on a setting of the controller.
func TestACronThatCannotRunIsRefused(t *testing.T) {
	installed(t)
	create := func(schedule string, template map[string]any) error {
		c := aCron("asked", template)
		c.Object["spec"].(map[string]any)["schedule"] = schedule
		_, err := resourcesAs(t, "", "disruptioncrons", "default").Create(t.Context(), c, dryRun)
		return err
	}
	const message = "has runs 60s apart, and a run lasts 3600s: choose a shorter disruptionTemplate.duration, or a rarer schedule"
	var last error
	eventually(t, "the policy is there", func() bool { // the API server applies a new policy after a moment
		last = create("* * * * *", nil)
		return last != nil && strings.Contains(last.Error(), message)
	})
	lasting := func(duration any) map[string]any { return map[string]any{"duration": duration} }
	for _, c := range []struct {
		name, schedule string
		template       map[string]any
		refused        bool
	}{
		{"every minute, half a minute long", "* * * * *", lasting("30s"), false},
		{"every minute, a minute long", "CRON_TZ=Europe/Berlin  */1 9 * * mon", lasting("1m"), true},
		{"every minute, a number of nanoseconds", "* * * * *", lasting(int64(time.Minute)), true},
		{"every ten minutes, the default of an hour", "*/10 * * * *", nil, true},
		{"every ten minutes, five minutes long", "*/10 * * * *", lasting("5m"), false},
		{"every hour, an hour long", "30 * * * *", nil, true},
		{"every hour by its name", "@hourly", nil, true},
		{"every two hours", "0 */2 * * *", nil, false},
		{"every day, a day long", "0 12 * * *", lasting("24h"), true},
		{"on a day of the week, a day long", "0 12 * * mon", lasting("24h"), false},
		{"a pause in its own words", "@every 90m", lasting("2h"), true},
		{"a longer pause", "@every 90m", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := create(c.schedule, c.template)
			if refused := err != nil && strings.Contains(err.Error(), "or a rarer schedule"); refused != c.refused || err != nil && !refused {
				t.Errorf("create = %v, want a refusal: %t", err, c.refused)
			}
		})
	}
}
