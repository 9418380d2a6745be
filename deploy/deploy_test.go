package deploy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/settings"
	"github.com/squall-chaos/squall/test/apiserver"
	"github.com/squall-chaos/squall/test/golden"
	"github.com/squall-chaos/squall/workflows/contract"
)

func TestMain(m *testing.M) { os.Exit(apiserver.Run(m)) }

// The rights of both programs in short: a wider right shows in a review as a changed line
// of testdata/rights.txt.
func TestRights(t *testing.T) {
	golden.Compare(t, "testdata/rights.txt", strings.Join(rightsOfAll(t, "."), "\n")+"\n")
}

// rightsOfAll lists the rights in the rendered objects of a directory, in order.
func rightsOfAll(t *testing.T, directory string) []string {
	t.Helper()
	objects := render(t, directory)
	var lines []string
	for _, binding := range objects {
		if !strings.HasSuffix(binding.GetKind(), "RoleBinding") {
			continue
		}
		var b rbacv1.RoleBinding
		into(t, binding, &b)
		where := "everywhere"
		if b.Namespace != "" {
			where = "in " + b.Namespace
		}
		for _, role := range objects {
			if role.GetKind() != b.RoleRef.Kind || role.GetName() != b.RoleRef.Name || role.GetNamespace() != b.Namespace {
				continue
			}
			var r rbacv1.Role
			into(t, role, &r)
			for _, rule := range r.Rules {
				lines = append(lines, rights(b.Subjects, where, rule)...)
			}
		}
	}
	slices.Sort(lines)
	return lines
}

func rights(subjects []rbacv1.Subject, where string, rule rbacv1.PolicyRule) []string {
	var lines []string
	for _, subject := range subjects {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				name := resource
				if group != "" {
					name += "." + group
				}
				if len(rule.ResourceNames) > 0 {
					name += " named " + strings.Join(rule.ResourceNames, ",")
				}
				verbs := slices.Sorted(slices.Values(rule.Verbs))
				lines = append(lines, fmt.Sprintf("%s may %s %s %s", subject.Name, strings.Join(verbs, ","), name, where))
			}
		}
	}
	return lines
}

// Chaos pods have an image of their own, with nothing but the injector. It is a setting,
// while the kustomization's image is that of the programs.
func TestImages(t *testing.T) {
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	edit(t, filepath.Join(copied, "kustomization.yaml"), "newTag: dev", "newName: registry.example/squall\n  newTag: v7")
	for _, object := range render(t, copied) {
		switch object.GetKind() {
		case "Deployment":
			pod := podOf(t, object)
			if got := pod.Spec.Containers[0].Image; got != "registry.example/squall:v7" {
				t.Errorf("%s runs %s, want the image of the kustomization", object.GetName(), got)
			}
		case "ConfigMap":
			if got, _, _ := unstructured.NestedString(object.Object, "data", "SQUALL_INJECTOR_IMAGE"); got != "squall.local/injector:dev" {
				t.Errorf("SQUALL_INJECTOR_IMAGE = %s, want that of the settings", got)
			}
		}
	}
}

// The replicas of a program are on different nodes where possible, and a drain evicts one
// of them at a time.
func TestReplicasAreSpreadAndHaveABudget(t *testing.T) {
	budgets := map[string]any{}
	for _, budget := range rendered(t, "PodDisruptionBudget") {
		selector, _, _ := unstructured.NestedMap(budget.Object, "spec", "selector")
		if most := budget.Object["spec"].(map[string]any)["maxUnavailable"]; fmt.Sprint(most) != "1" {
			t.Errorf("%s lets %v go at once, want 1", budget.GetName(), most)
		}
		budgets[budget.GetName()] = selector
	}
	for _, deployment := range rendered(t, "Deployment") {
		name := deployment.GetName()
		selector, _, _ := unstructured.NestedMap(deployment.Object, "spec", "selector")
		if diff := cmp.Diff(any(selector), budgets[name]); diff != "" {
			t.Errorf("selectors of %s (-deployment +budget):\n%s", name, diff)
		}
		spreads, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "topologySpreadConstraints")
		if len(spreads) != 1 || !cmp.Equal(spreads[0].(map[string]any)["labelSelector"], any(selector)) {
			t.Errorf("%s is spread by %v, want by its own selector %v", name, spreads, selector)
		}
	}
}

// A limit protects the node from a leak of a program (finding 32).
func TestProgramsHaveALimitOfMemory(t *testing.T) {
	deployments := rendered(t, "Deployment")
	if len(deployments) != 3 {
		t.Errorf("%d programs, want worker, probes and bridge", len(deployments))
	}
	for _, object := range deployments {
		var deployment appsv1.Deployment
		into(t, object, &deployment)
		container := deployment.Spec.Template.Spec.Containers[0]
		limit, request := container.Resources.Limits.Memory(), container.Resources.Requests.Memory()
		if limit.Cmp(*request) <= 0 || request.IsZero() {
			t.Errorf("%s asks for %s of memory and has the limit %s", object.GetName(), request, limit)
		}
		follows := func(e corev1.EnvVar) bool {
			return e.Name == "GOMEMLIMIT" && e.ValueFrom != nil && e.ValueFrom.ResourceFieldRef != nil && e.ValueFrom.ResourceFieldRef.Resource == "limits.memory"
		}
		if !slices.ContainsFunc(container.Env, follows) {
			t.Errorf("%s has no GOMEMLIMIT that follows its limit", object.GetName())
		}
	}
}

// The worker knows the namespace of its own pod, into whichever namespace it was installed.
func TestTheWorkerKnowsItsNamespace(t *testing.T) {
	for _, object := range rendered(t, "Deployment") {
		var deployment appsv1.Deployment
		into(t, object, &deployment)
		known := slices.ContainsFunc(deployment.Spec.Template.Spec.Containers[0].Env, func(e corev1.EnvVar) bool {
			return e.Name == settings.Variable("system-namespace") && e.ValueFrom != nil && e.ValueFrom.FieldRef != nil && e.ValueFrom.FieldRef.FieldPath == "metadata.namespace"
		})
		if want := deployment.Name != "squall-crdbridge"; known != want {
			t.Errorf("%s knows its namespace: %t, want %t", deployment.Name, known, want)
		}
	}
}

// otherSamples are samples of no kind of their own: of probes, and of operations on pods.
var otherSamples = []string{"samples/steady-state.yaml", "samples/game-day.yaml", "samples/pod-operations.yaml"}

// Every kind of the API has a sample that is accepted unchanged.
func TestSamples(t *testing.T) {
	files, err := filepath.Glob("samples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var sampled []string
	for _, file := range files {
		if file == stopSample || file == cronSample || file == rolloutSample || file == scenarioSample {
			continue // their own tests apply them
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d, err := v1beta1.Decode(text)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		d.Default()
		if err := d.Validate().ToAggregate(); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if slices.Contains(otherSamples, file) {
			continue // of no kind of its own
		}
		requested := d.Spec.Requested()
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		if len(requested) != 1 || string(requested[0].Kind) != name || d.Name != name {
			t.Errorf("%s holds %s of %v, want %s of that kind", file, d.Name, requested, name)
		}
		sampled = append(sampled, name)
	}
	want := slices.Sorted(slices.Values(v1beta1.AllKinds().Names()))
	if diff := cmp.Diff(want, sampled); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
}

// The worker refuses to start without the search attributes of the contract.
func TestNamespaceScriptCreatesEveryAttribute(t *testing.T) {
	script, err := os.ReadFile("temporal/namespace.sh")
	if err != nil {
		t.Fatal(err)
	}
	for name, kind := range map[string]string{
		contract.AttributePhase: "Keyword", contract.AttributeNamespace: "Keyword", contract.AttributeKinds: "KeywordList",
		contract.AttributeStuck: "Bool", contract.AttributeTargets: "Int",
	} {
		if want := "--name " + name + " --type " + kind; !regexp.MustCompile(want + `\b`).Match(script) {
			t.Errorf("temporal/namespace.sh has no %q", want)
		}
	}
}

// rendered returns the base's objects of some kinds.
func rendered(t *testing.T, kinds ...string) []*unstructured.Unstructured {
	t.Helper()
	var chosen []*unstructured.Unstructured
	for _, object := range render(t, ".") {
		if slices.Contains(kinds, object.GetKind()) {
			chosen = append(chosen, object)
		}
	}
	if len(chosen) == 0 {
		t.Fatalf("the base has no %v", kinds)
	}
	return chosen
}

// render runs `kubectl kustomize`, with the kubectl beside the API server's binary.
func render(t *testing.T, directory string) []*unstructured.Unstructured {
	t.Helper()
	binaries, err := apiserver.Binaries()
	if err == nil {
		_, err = os.Stat(filepath.Join(binaries, "kubectl"))
	}
	if err != nil && os.Getenv("SQUALL_REQUIRE") == "1" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip(err)
	}
	var problem bytes.Buffer
	command := exec.CommandContext(t.Context(), filepath.Join(binaries, "kubectl"), "kustomize", directory)
	command.Stderr = &problem
	text, err := command.Output()
	if err != nil {
		t.Fatalf("render %s: %v\n%s", directory, err, problem.String())
	}
	return decoded(t, text)
}

// decoded returns the objects of manifests.
func decoded(t *testing.T, text []byte) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("read manifests: %v", err)
		}
		objects = append(objects, object)
	}
}

// podOf returns the pod of a deployment, without a name.
func podOf(t *testing.T, deployment *unstructured.Unstructured) *corev1.Pod {
	t.Helper()
	template, _, err := unstructured.NestedMap(deployment.Object, "spec", "template")
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template, pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

func into(t *testing.T, object *unstructured.Unstructured, typed any) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
		t.Fatalf("read %s %s: %v", object.GetKind(), object.GetName(), err)
	}
}

func edit(t *testing.T, file, old, replacement string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		t.Fatalf("%s has no %q", file, old)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), old, replacement, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}
