package deploy

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apiserver"
)

// bindingOf renders the base with a component and returns the binding of a policy.
func bindingOf(t *testing.T, directory, policy string) *unstructured.Unstructured {
	t.Helper()
	for _, object := range render(t, directory) {
		if object.GetKind() == "ValidatingAdmissionPolicyBinding" && object.GetName() == policy {
			return object
		}
	}
	t.Fatalf("%s has no binding of %s", directory, policy)
	return nil
}

// restored restores the base's binding after the test: the other tests use the base.
func restored(t *testing.T, policy string) {
	t.Helper()
	client, base := dynamic.NewForConfigOrDie(apiserver.Start(t)), bindingOf(t, ".", policy)
	t.Cleanup(func() {
		// The same manager applies it. Another manager's entries in the list of actions would
		// stay there beside those of an overlay.
		_, err := client.Resource(bindings).Apply(context.Background(), policy, base, metav1.ApplyOptions{FieldManager: "deploy-test", Force: true})
		if err != nil {
			t.Error(err)
		}
	})
}

// rule S12: by default a disruption of a namespace without the label causes a warning. One
// component refuses it, and the other allows it without a warning.
func TestNamespacesOptIn(t *testing.T) {
	kube := installed(t)
	agreed := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "agreed-", Labels: map[string]string{v1beta1.LabelDisruptions: v1beta1.DisruptionsAllowed}}}
	other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "other-", Labels: map[string]string{v1beta1.LabelDisruptions: "no"}}}
	for _, n := range []*corev1.Namespace{agreed, other} {
		made, err := kube.CoreV1().Namespaces().Create(t.Context(), n, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n.Name = made.Name
	}
	config := apiserver.Start(t)
	restored(t, "squall-namespace-opt-in")
	try := func(user, namespace string) (warning string, err error) {
		received := &warnings{}
		as := *config
		as.WarningHandler = received
		if user != "" {
			as.Impersonate.UserName = user
		}
		_, err = dynamic.NewForConfigOrDie(&as).Resource(disruptionResource).Namespace(namespace).Create(t.Context(), aDisruption("asked"), dryRun)
		return strings.Join(received.texts, "\n"), err
	}
	message := "namespace " + other.Name + " has not agreed to be disrupted"
	eventually(t, "by default it warns", func() bool {
		warning, err := try("", other.Name)
		return err == nil && strings.Contains(warning, message)
	})
	if warning, err := try("", agreed.Name); err != nil || warning != "" {
		t.Errorf("in a namespace that has agreed: %q, %v", warning, err)
	}
	for _, namespace := range []string{agreed.Name, other.Name} {
		if _, err := disruptionsIn(t, "", namespace).Create(t.Context(), aDisruption("before"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}

	apply(t, config, []*unstructured.Unstructured{bindingOf(t, overlaid(t, ComponentOfOptIn), "squall-namespace-opt-in")})
	eventually(t, "with the component it refuses", func() bool {
		_, err := try("", other.Name)
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), message) &&
			strings.Contains(err.Error(), "kubectl label namespace "+other.Name+" chaos.squall.dev/disruptions=allowed")
	})
	if warning, err := try("", agreed.Name); err != nil || warning != "" {
		t.Errorf("enforced, in a namespace that has agreed: %q, %v", warning, err)
	}
	patch := func(body string) error {
		_, err := disruptionsIn(t, "", other.Name).Patch(t.Context(), "before", types.MergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	}
	if err := patch(`{"metadata":{"finalizers":["finalizer.chaos.squall.dev"],"labels":{"a":"b"}}}`); err != nil {
		t.Errorf("what was there before cannot be looked after: %v", err)
	}
	if err := patch(`{"spec":{"dryRun":true}}`); !apierrors.IsForbidden(err) {
		t.Errorf("its spec can be edited: %v", err)
	}
	if err := patch(`{"metadata":{"finalizers":null}}`); err != nil {
		t.Errorf("its finalizer stays: %v", err)
	}
	if _, err := try(workerUser, other.Name); err == nil || strings.Contains(err.Error(), message) {
		t.Errorf("a run by the worker: %v, want the message of another policy, as it is no run", err)
	}

	apply(t, config, []*unstructured.Unstructured{bindingOf(t, overlaid(t, "components/namespace-opt-in-off"), "squall-namespace-opt-in")})
	eventually(t, "with the other component it says nothing", func() bool { warning, err := try("", other.Name); return err == nil && warning == "" })
}

var (
	disruptionResource = schema.GroupVersionResource{Group: "chaos.squall.dev", Version: "v1beta1", Resource: "disruptions"}
	bindings           = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"}
)
