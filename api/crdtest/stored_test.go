package crdtest

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apiserver"
)

// Two writers share the status: the bridge writes one condition, the workflow's
// activities the rest. No writer removes the fields of the other.
func TestStatusHasTwoWriters(t *testing.T) {
	client := disruptions(t)
	create(t, client, "two-writers")
	apply(t, client, "bridge", "two-writers", `{"conditions": [
		{"type": "Orchestrated", "status": "False", "reason": "Unreachable", "message": "cannot reach Temporal", "lastTransitionTime": "2026-11-20T12:00:00Z"}]}`)
	apply(t, client, "worker", "two-writers", `{"phase": "Holding", "targets": "1/1", "injectionStatus": "Injected",
		"desiredTargetsCount": 1, "selectedTargetsCount": 1, "injectedTargetsCount": 1, "ignoredTargetsCount": 0,
		"targetInjections": {"web-1": {"network-disruption": {"injectionStatus": "Injected"}}},
		"conditions": [{"type": "Injected", "status": "True", "reason": "AllInjected", "message": "", "lastTransitionTime": "2026-11-20T12:00:00Z"}]}`)
	apply(t, client, "bridge", "two-writers", `{"conditions": [
		{"type": "Orchestrated", "status": "True", "reason": "Reachable", "message": "", "lastTransitionTime": "2026-11-20T12:01:00Z"}]}`)

	object, err := client.Get(t.Context(), "two-writers", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		condition := c.(map[string]any)
		got[condition["type"].(string)] = condition["status"].(string)
	}
	if diff := cmp.Diff(map[string]string{"Orchestrated": "True", "Injected": "True"}, got); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if phase, _, _ := unstructured.NestedString(object.Object, "status", "phase"); phase != "Holding" {
		t.Errorf("status.phase = %q after the bridge wrote, want what the worker wrote", phase)
	}
}

// A write to status cannot change the spec, and a write to the spec cannot
// change status.
func TestStatusIsASubresource(t *testing.T) {
	client := disruptions(t)
	object := create(t, client, "subresource")
	_ = unstructured.SetNestedField(object.Object, "Finished", "status", "phase")
	updated, err := client.Update(t.Context(), object, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if phase, found, _ := unstructured.NestedString(updated.Object, "status", "phase"); found {
		t.Errorf("status.phase = %q after a write to the object, want none", phase)
	}
	if updated.GetGeneration() != object.GetGeneration() {
		t.Errorf("generation %d became %d though only status was written", object.GetGeneration(), updated.GetGeneration())
	}
}

func TestWhatKubectlGetShows(t *testing.T) {
	client := disruptions(t)
	create(t, client, "columns")
	if _, err := client.Patch(t.Context(), "columns", types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+v1beta1.AnnotationRequester+`":"ann"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	apply(t, client, "worker", "columns", `{"phase": "Holding", "kinds": "cpu-pressure", "targets": "3/3", "injectionStatus": "Injected",
		"expiryTime": "2026-11-20T13:00:00Z", "workflow": {"id": "disruption/default/columns/1", "runID": "r"}, "ending": "expired",
		"steadyState": {"verdict": "Passed", "probes": [{"name": "a", "state": "Success", "targets": 3, "failingTargets": []}]},
		"conditions": [{"type": "Injected", "status": "True", "reason": "Injected", "message": "", "lastTransitionTime": "2026-11-20T12:00:00Z"},
			{"type": "EffectVerified", "status": "True", "reason": "Proven", "message": "", "lastTransitionTime": "2026-11-20T12:00:00Z"},
			{"type": "Orchestrated", "status": "False", "reason": "TemporalUnreachable", "message": "", "lastTransitionTime": "2026-11-20T12:00:00Z"}]}`)
	narrow, wide, shown := columns(t, "disruptions", "default", "columns")
	if diff := cmp.Diff([]string{"NAME", "KINDS", "LEVEL", "TARGETS", "INJECTION", "PHASE", "VERDICT", "TEMPORAL", "EXPIRES", "AGE"}, narrow); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"EFFECT", "REQUESTER", "WORKFLOW", "ENDING"}, wide); diff != "" {
		t.Errorf("further columns of -o wide (-want +got):\n%s", diff)
	}
	want := map[string]any{
		"NAME": "columns", "KINDS": "cpu-pressure", "LEVEL": "pod", "TARGETS": "3/3", "INJECTION": "Injected",
		"PHASE": "Holding", "TEMPORAL": "TemporalUnreachable", "EXPIRES": "2026-11-20T13:00:00Z", "WORKFLOW": "disruption/default/columns/1", "ENDING": "expired",
		"EFFECT": "Proven", "VERDICT": "Passed", "REQUESTER": "ann",
	}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}

func TestWhatKubectlGetShowsOfAnEmergencyStop(t *testing.T) {
	config, err := dynamic.NewForConfig(apiserver.Start(t))
	if err != nil {
		t.Fatal(err)
	}
	client := config.Resource(v1beta1.GroupVersion.WithResource("emergencystops"))
	stop := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1beta1.GroupVersion.String(), "kind": "EmergencyStop", "metadata": map[string]any{"name": "fire"},
		"spec": map[string]any{"reason": strings.Repeat("a", 501)},
	}}
	if _, err := client.Create(t.Context(), stop, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("a reason of 501 characters: %v, want it refused", err)
	}
	stop.Object["spec"] = map[string]any{"reason": "payment is down"}
	if _, err := client.Create(t.Context(), stop, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Delete(context.Background(), "fire", metav1.DeleteOptions{}) })
	_, err = client.Patch(t.Context(), "fire", types.MergePatchType, []byte(`{"status": {"stopped": 3, "cleaning": 2, "injectors": 0,
		"conditions": [{"type": "Clean", "status": "False", "reason": "Cleaning", "message": "", "lastTransitionTime": "2026-11-20T12:00:00Z"}]}}`),
		metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict}, "status")
	if err != nil {
		t.Fatal(err)
	}
	narrow, wide, shown := columns(t, "emergencystops", "", "fire")
	if diff := cmp.Diff([]string{"NAME", "CLEAN", "STOPPED", "CLEANING", "INJECTORS", "REASON", "AGE"}, append(narrow, wide...)); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	want := map[string]any{"NAME": "fire", "CLEAN": "False", "STOPPED": 3.0, "CLEANING": 2.0, "INJECTORS": 0.0, "REASON": "payment is down"}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}

// columns are what kubectl shows of one object: the names of the columns, those
// of -o wide, and the values but for AGE.
func columns(t *testing.T, resource, namespace, name string) (narrow, wide []string, shown map[string]any) {
	t.Helper()
	config := apiserver.Start(t)
	config.APIPath, config.GroupVersion = "/apis", &v1beta1.GroupVersion
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	server, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	text, err := server.Get().NamespaceIfScoped(namespace, namespace != "").Resource(resource).Name(name).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := json.Unmarshal(text, &table); err != nil {
		t.Fatal(err)
	}
	shown = map[string]any{}
	for i, column := range table.ColumnDefinitions {
		name := strings.ToUpper(column.Name)
		shown[name] = table.Rows[0].Cells[i]
		if column.Priority == 0 {
			narrow = append(narrow, name)
		} else {
			wide = append(wide, name)
		}
	}
	delete(shown, "AGE")
	return narrow, wide, shown
}

func TestNamesOfTheResources(t *testing.T) {
	client, err := discovery.NewDiscoveryClientForConfig(apiserver.Start(t))
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.ServerResourcesForGroupVersion(v1beta1.GroupVersion.String())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		name, short string
		namespaced  bool
	}{{"disruptions", "dis", true}, {"disruptioncrons", "dicron", true}, {"disruptionrollouts", "diroll", true}, {"disruptionscenarios", "discenario", true}, {"emergencystops", "estop", false}} {
		i := slices.IndexFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == want.name })
		if i < 0 {
			t.Fatalf("no %s among %v", want.name, list.APIResources)
		}
		got := list.APIResources[i]
		if got.Namespaced != want.namespaced || !slices.Equal(got.ShortNames, []string{want.short}) || !slices.Equal(got.Categories, []string{"chaos"}) {
			t.Errorf("%s: namespaced %t, short names %v, categories %v; want %t, [%s], [chaos]",
				want.name, got.Namespaced, got.ShortNames, got.Categories, want.namespaced, want.short)
		}
	}
}

// kubectl apply keeps a copy of the object in an annotation, of which 256 KiB
// is the limit.
func TestCRDsFitIntoAnAnnotation(t *testing.T) {
	files, err := filepath.Glob("../../deploy/crds/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no CRDs: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		object, err := yaml.YAMLToJSON(text)
		if err != nil {
			t.Fatal(err)
		}
		if len(object) >= 256<<10 {
			t.Errorf("%s has %d bytes as JSON, the limit is %d", file, len(object), 256<<10)
		}
	}
}

func create(t *testing.T, client dynamic.ResourceInterface, name string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(whole(name)), &object.Object); err != nil {
		t.Fatal(err)
	}
	created, err := client.Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// apply writes status the way Squall's programs do: server-side apply, each
// under a name of its own.
func apply(t *testing.T, client dynamic.ResourceInterface, manager, name, status string) {
	t.Helper()
	patch := `{"apiVersion": "chaos.squall.dev/v1beta1", "kind": "Disruption", "metadata": {"name": "` + name + `"}, "status": ` + status + `}`
	force := true
	_, err := client.Patch(t.Context(), name, types.ApplyPatchType, []byte(patch),
		metav1.PatchOptions{FieldManager: manager, Force: &force, FieldValidation: metav1.FieldValidationStrict}, "status")
	if err != nil {
		t.Fatalf("%s applies %s: %v", manager, status, err)
	}
}
