package deploy

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apiserver"
)

// aNamespace makes a namespace that agrees to be disrupted.
func aNamespace(t *testing.T, kube kubernetes.Interface) string {
	t.Helper()
	made, err := kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "policed-", Labels: map[string]string{v1beta1.LabelDisruptions: v1beta1.DisruptionsAllowed},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made.Name
}

// policed makes a policy of rules until the test ends, and waits until the API server
// applies it. For that it adds a rule that denies container failure in a namespace. Each
// rule names its namespaces, as the tests share their API server. The policy has the name
// of that namespace.
func policed(t *testing.T, namespace string, rules ...any) {
	t.Helper()
	rules = append(rules, map[string]any{"name": "seen", "kinds": []any{"container-failure"}, "namespaces": []any{namespace}})
	policies := dynamic.NewForConfigOrDie(apiserver.Start(t)).Resource(schema.GroupVersionResource{Group: "chaos.squall.dev", Version: "v1beta1", Resource: "disruptionpolicies"})
	policy := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "chaos.squall.dev/v1beta1", "kind": "DisruptionPolicy", "metadata": map[string]any{"name": namespace}, "spec": map[string]any{"rules": rules},
	}}
	if _, err := policies.Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := policies.Delete(context.Background(), namespace, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	seen := disruptionWith("seen", map[string]any{"cpuPressure": nil, "containerFailure": map[string]any{}})
	refused(t, func() error { return tried(t, "", namespace, "disruptions", seen) }, `of DisruptionPolicy "`+namespace+`"`)
}

// tried creates an object by a dry run.
func tried(t *testing.T, user, namespace, resource string, object *unstructured.Unstructured) error {
	t.Helper()
	_, err := resourcesAs(t, user, resource, namespace).Create(t.Context(), object, dryRun)
	return err
}

// rule D4: the API server knows each fault by both names that rules use.
func TestRulesAboutEachKindAtAdmission(t *testing.T) {
	kube := installed(t)
	t.Run("by label value", func(t *testing.T) {
		refusesEachFault(t, kube, func(row v1beta1.KindRow) string { return string(row.Kind) })
	})
	t.Run("by field", func(t *testing.T) {
		refusesEachFault(t, kube, func(row v1beta1.KindRow) string { return row.Field })
	})
}

// refusesEachFault wants the sample of each fault refused by the rule that names the fault so.
func refusesEachFault(t *testing.T, kube kubernetes.Interface, name func(v1beta1.KindRow) string) {
	t.Helper()
	namespace := aNamespace(t, kube)
	var rules []any
	for _, row := range v1beta1.KindTable() {
		rules = append(rules, map[string]any{
			"name": "no-" + string(row.Kind), "kinds": []any{name(row)}, "namespaces": []any{namespace}, "reason": "a line\nand another",
		})
	}
	policed(t, namespace, rules...)
	for _, row := range v1beta1.KindTable() {
		text, err := os.ReadFile("samples/" + string(row.Kind) + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		sample := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &sample.Object); err != nil {
			t.Fatal(err)
		}
		err = tried(t, "", namespace, "disruptions", sample)
		message := fmt.Sprintf(`it is denied by rule "no-%s" of DisruptionPolicy "%s": a line and another`, row.Kind, namespace)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), message) {
			t.Errorf("%s: %v, want %s", row.Kind, err, message)
		}
	}
}

// rule D4: the API server refuses Disruptions, crons and scenarios that a rule denies
// regardless of time and targets. It accepts those that depend on time or targets.
func TestRulesAtAdmission(t *testing.T) {
	kube := installed(t)
	tests := []struct {
		name          string
		rule          map[string]any
		pods, ofNodes bool // refuses disruptions of them
	}{
		{"everything", nil, true, true},
		{"pods", map[string]any{"level": "pod"}, true, false},
		{"nodes", map[string]any{"level": "node"}, false, true},
		{"its kind of pods", map[string]any{"kinds": []any{"cpu-pressure", "network-disruption"}, "level": "pod"}, true, false},
		{"its kind", map[string]any{"kinds": []any{"cpu-pressure"}}, true, true},
		{"another kind", map[string]any{"kinds": []any{"node-failure"}}, false, false},
		{"another namespace", map[string]any{"namespaces": []any{"nowhere"}}, false, false},
		{"a window", map[string]any{"windows": []any{map[string]any{"timeZone": "UTC"}}}, false, false},
		{"some targets", map[string]any{"targetSelector": map[string]any{"matchLabels": map[string]any{"tier": "db"}}}, false, false},
		{"so many at once", map[string]any{"atMost": map[string]any{"targets": int64(0)}}, false, false},
	}
	var namespaces []string
	var rules []any
	for i, c := range tests {
		namespaces = append(namespaces, aNamespace(t, kube))
		rule := map[string]any{"name": fmt.Sprintf("tried-%d", i), "namespaces": []any{namespaces[i]}}
		for field, value := range c.rule {
			rule[field] = value
		}
		rules = append(rules, rule)
	}
	policy := aNamespace(t, kube)
	policed(t, policy, rules...)
	for i, c := range tests {
		message := fmt.Sprintf(`rule "tried-%d" of DisruptionPolicy "%s"`, i, policy)
		onNodes := map[string]any{"level": "node"}
		for _, try := range []struct {
			resource string
			object   *unstructured.Unstructured
			refuses  bool
		}{
			{"disruptions", aDisruption("asked"), c.pods},
			{"disruptioncrons", aCron("asked", nil), c.pods},
			{"disruptions", disruptionWith("asked", onNodes), c.ofNodes},
			{"disruptionscenarios", lastOfThree("asked", nil), c.pods},
			{"disruptionscenarios", aScenario("asked", map[string]any{"name": "calm", "wait": "1m"}, aStep("last", onNodes)), c.ofNodes},
			{"disruptionscenarios", aScenario("asked", aStep("first", onNodes), aStep("last", nil)), c.pods || c.ofNodes},
			{"disruptionscenarios", aScenario("asked", map[string]any{"name": "calm", "wait": "1m"}), false},
		} {
			err := tried(t, "", namespaces[i], try.resource, try.object)
			if try.refuses != (apierrors.IsForbidden(err) && strings.Contains(err.Error(), message)) || !try.refuses && err != nil {
				t.Errorf("%s, %s %v: %v, want it refused: %t", c.name, try.resource, try.object.Object["spec"], err, try.refuses)
			}
		}
	}
}

// rule D4: a tenant and an administrator are refused alike. Existing objects can still be
// changed otherwise. The worker itself judges its runs.
func TestUsersThatRulesRefuseAtAdmission(t *testing.T) {
	kube := installed(t)
	namespace := aNamespace(t, kube)
	policed(t, namespace)
	_, err := kube.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "tenant"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "squall-disruptions"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "policed-tenant"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the tenant may disrupt", func() bool { return tried(t, "policed-tenant", namespace, "disruptions", aDisruption("asked")) == nil })
	failing := disruptionWith("failing", map[string]any{"cpuPressure": nil, "containerFailure": map[string]any{}})
	message := `rule "seen" of DisruptionPolicy "` + namespace + `"`
	for _, user := range []string{"", "policed-tenant"} {
		if err := tried(t, user, namespace, "disruptions", failing); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), message) {
			t.Errorf("by %q: %v, want it refused by %s", user, err, message)
		}
	}
	if err := tried(t, workerUser, namespace, "disruptions", failing); err == nil || strings.Contains(err.Error(), message) {
		t.Errorf("a run by the worker: %v, want the message of another policy, as it is no run", err)
	}

	if _, err := disruptionsIn(t, "", namespace).Create(t.Context(), aDisruption("before"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	patch := func(body string) error {
		_, err := disruptionsIn(t, "", namespace).Patch(t.Context(), "before", types.MergePatchType, []byte(body), dryRunOfPatch)
		return err
	}
	if err := patch(`{"spec":{"cpuPressure":null,"containerFailure":{}}}`); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), message) {
		t.Errorf("an edit: %v, want it refused by %s", err, message)
	}
	if err := patch(`{"metadata":{"labels":{"a":"b"},"finalizers":["finalizer.chaos.squall.dev"]}}`); err != nil {
		t.Errorf("its metadata cannot be changed: %v", err)
	}
}

// rule D6: the API server also refuses what a rule about environments denies, for every
// object that makes disruptions.
func TestRulesAboutEnvironmentsAtAdmission(t *testing.T) {
	namespace := aNamespace(t, installed(t))
	policed(t, namespace, map[string]any{"name": "ours", "namespaces": []any{namespace}, "exceptEnvironments": []any{"test", "staging"}, "reason": "see the wiki"})
	for resource, o := range map[string]*unstructured.Unstructured{"disruptions": disruptionWith("web", nil), "disruptioncrons": aCron("noon", nil)} {
		for environment, refused := range map[string]bool{"": true, "prod": true, "test": false, "staging": false} {
			o.SetAnnotations(nil)
			if environment != "" {
				o.SetAnnotations(map[string]string{v1beta1.AnnotationEnvironment: environment})
			}
			want := `rule "ours" of DisruptionPolicy "` + namespace + `" (its annotation chaos.squall.dev/environment is none of: test, staging): see the wiki`
			if err := tried(t, "", namespace, resource, o); (err != nil) != refused || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s meant for %q: %v, want it refused: %t, by %s", resource, environment, err, refused, want)
			}
		}
	}
}
