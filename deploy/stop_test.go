package deploy

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"

	"github.com/squall-chaos/squall/test/apiserver"
)

const stopSample = "samples/emergency-stop.yaml"

// While an EmergencyStop exists, the API server refuses new Disruptions. The message has
// the stop, its reason, and what to do. Existing Disruptions can be changed and deleted.
func TestEmergencyStopAdmission(t *testing.T) {
	installed(t)
	client, err := dynamic.NewForConfig(apiserver.Start(t))
	if err != nil {
		t.Fatal(err)
	}
	resource := func(name string) dynamic.NamespaceableResourceInterface {
		return client.Resource(schema.GroupVersionResource{Group: "chaos.squall.dev", Version: "v1beta1", Resource: name})
	}
	disruptions, stops := resource("disruptions").Namespace("default"), resource("emergencystops")
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	creation := func() error { _, err := disruptions.Create(t.Context(), aDisruption("new"), dryRun); return err }
	before := aDisruption("before")
	before.SetFinalizers([]string{"finalizer.chaos.squall.dev"})
	if _, err := disruptions.Create(t.Context(), before, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create without a stop: %v", err)
	}

	stop := sampleStop(t)
	if _, err := stops.Create(t.Context(), stop, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
		t.Fatal(err)
	}
	reason, _, _ := unstructured.NestedString(stop.Object, "spec", "reason")
	refused(t, creation, "emergency stop all: "+reason+"; nothing new is disrupted until somebody calls it off: kubectl delete estop all")
	_, err = disruptions.Apply(t.Context(), "new", aDisruption("new"), metav1.ApplyOptions{FieldManager: "gitops"})
	if !apierrors.IsForbidden(err) {
		t.Errorf("server-side apply of a new disruption: %v, want it forbidden", err)
	}

	if _, err := stops.Patch(t.Context(), "all", types.MergePatchType, []byte(`{"spec":null}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	refused(t, creation, "emergency stop all; nothing new")

	if err := disruptions.Delete(t.Context(), "before", metav1.DeleteOptions{}); err != nil {
		t.Errorf("delete during a stop: %v", err)
	}
	for _, patch := range []struct{ body, subresource string }{
		{`{"status":{"phase":"Finished"}}`, "status"},
		{`{"metadata":{"labels":{"a":"b"}}}`, ""},
		{`{"metadata":{"finalizers":null}}`, ""},
	} {
		var subresources []string
		if patch.subresource != "" {
			subresources = []string{patch.subresource}
		}
		if _, err := disruptions.Patch(t.Context(), "before", types.MergePatchType, []byte(patch.body), metav1.PatchOptions{}, subresources...); err != nil {
			t.Errorf("patch %s during a stop: %v", patch.body, err)
		}
	}
	if _, err := disruptions.Get(t.Context(), "before", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("without its finalizer the deleted disruption is still there: %v", err)
	}

	if err := stops.Delete(t.Context(), "all", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a new disruption is taken again", func() bool { return creation() == nil })
}

// refused waits until the creation is forbidden with one of these messages. The API server
// applies a new policy after a moment, and names any of several that refuse.
func refused(t *testing.T, create func() error, messages ...string) {
	t.Helper()
	var last error
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last answer: %v", last)
		}
	})
	began := time.Now()
	eventually(t, "creation is refused with "+strings.Join(messages, " or "), func() bool {
		last = create()
		return apierrors.IsForbidden(last) && slices.ContainsFunc(messages, func(message string) bool { return strings.Contains(last.Error(), message) })
	})
	t.Logf("after %s: %v", time.Since(began), last)
}

func sampleStop(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(stopSample)
	if err != nil {
		t.Fatal(err)
	}
	stop := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &stop.Object); err != nil {
		t.Fatal(err)
	}
	return stop
}

func aDisruption(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "chaos.squall.dev/v1beta1", "kind": "Disruption", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"selector": map[string]any{"app": "web"}, "count": int64(1), "cpuPressure": map[string]any{}},
	}}
}
