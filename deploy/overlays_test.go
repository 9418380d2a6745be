package deploy

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/squall-chaos/squall/test/apiserver"
)

const (
	oneTeam    = "../overlays/one-team"
	lockedDown = "../overlays/locked-down"
)

// The API server accepts all objects of both overlays.
func TestOverlaysAreTaken(t *testing.T) {
	installed(t)
	config := apiserver.Start(t)
	for _, overlay := range []string{oneTeam, lockedDown} {
		t.Run(strings.TrimPrefix(overlay, "../overlays/"), func(t *testing.T) {
			applyWith(t, config, render(t, overlay), metav1.ApplyOptions{FieldManager: "deploy-test", Force: true, DryRun: []string{metav1.DryRunAll}})
		})
	}
}

// Where Squall is installed for one team, users cannot create disruptions elsewhere or of
// nodes. The overlay names the namespace once.
func TestOneTeam(t *testing.T) {
	wantRightsBeyond(t, ".", oneTeam)
	kube, own := installed(t), []*unstructured.Unstructured{}
	watched := ""
	for _, object := range render(t, oneTeam) {
		if strings.HasPrefix(object.GetName(), "squall-one-team") {
			own = append(own, object)
		}
		if object.GetKind() == "ConfigMap" {
			watched, _, _ = unstructured.NestedString(object.Object, "data", "SQUALL_WATCH_NAMESPACES")
		}
	}
	for _, name := range []string{watched, "not-of-the-team"} {
		_, err := kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	try := func(namespace, level string) error {
		d := aDisruption("asked")
		if err := unstructured.SetNestedField(d.Object, level, "spec", "level"); err != nil {
			t.Fatal(err)
		}
		_, err := disruptionsIn(t, "", namespace).Create(t.Context(), d, dryRun)
		return err
	}
	refused := func(err error, message string) bool {
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), message)
	}
	eventually(t, "without the overlay's policies both are taken", func() bool { return try("not-of-the-team", "pod") == nil && try(watched, "node") == nil })
	before, err := disruptionsIn(t, "", "not-of-the-team").Create(t.Context(), aDisruption("before"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	remove := func(ctx context.Context) {
		policies := kube.AdmissionregistrationV1()
		for _, name := range []string{"squall-one-team", "squall-one-team-no-nodes"} {
			_ = policies.ValidatingAdmissionPolicyBindings().Delete(ctx, name, metav1.DeleteOptions{})
			_ = policies.ValidatingAdmissionPolicies().Delete(ctx, name, metav1.DeleteOptions{})
		}
	}
	t.Cleanup(func() { remove(context.Background()) })
	apply(t, apiserver.Start(t), own)
	eventually(t, "the policy refuses disruptions in other namespaces", func() bool {
		return refused(try("not-of-the-team", "pod"), "does not look after namespace not-of-the-team")
	})
	eventually(t, "the policy refuses disruptions of nodes", func() bool { return refused(try(watched, "node"), "want level pod") })
	if err := try(watched, "pod"); err != nil {
		t.Errorf("in the team's namespace: %v", err)
	}
	scenario := func(template map[string]any) *unstructured.Unstructured { return lastOfThree("asked", template) }
	ends := map[string]any{"cpuPressure": nil, "nodeFailure": map[string]any{}}
	fills := map[string]any{"unsafeMode": map[string]any{"allowMemoryPressureWithoutLimit": true}}
	for name, refusal := range map[string]struct {
		err     error
		message string
	}{
		"a scenario elsewhere":                {tried(t, "", "not-of-the-team", "disruptionscenarios", scenario(nil)), "does not look after"},
		"a step of nodes":                     {tried(t, "", watched, "disruptionscenarios", scenario(map[string]any{"level": "node"})), "want level pod"},
		"the failure of a pod's node":         {tried(t, "", watched, "disruptions", disruptionWith("asked", ends)), "no nodeFailure"},
		"the memory of a pod's node":          {tried(t, "", watched, "disruptions", disruptionWith("asked", fills)), "allowMemoryPressureWithoutLimit"},
		"the failure of a node in a scenario": {tried(t, "", watched, "disruptionscenarios", scenario(ends)), "no nodeFailure"},
	} {
		if !refused(refusal.err, refusal.message) {
			t.Errorf("%s: %v, want it refused with %q", name, refusal.err, refusal.message)
		}
	}
	if err := tried(t, "", watched, "disruptionscenarios", scenario(nil)); err != nil {
		t.Errorf("a scenario in the team's namespace: %v", err)
	}
	if err := disruptionsIn(t, "", "not-of-the-team").Delete(t.Context(), before.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Errorf("what was there before cannot be deleted: %v", err)
	}
	remove(t.Context()) // the other tests use the base
	eventually(t, "without the overlay's policies all is as before", func() bool { return try("not-of-the-team", "pod") == nil && try(watched, "node") == nil })
}

// The locked-down overlay refuses where the base warns and admits no clients. It runs chaos
// pods only of the image in the setting.
func TestLockedDown(t *testing.T) {
	wantRightsBeyond(t, ".", lockedDown, "squall-worker may get namespaces everywhere")
	found := map[string]string{}
	for _, object := range render(t, lockedDown) {
		name := object.GetKind() + " " + object.GetName()
		switch object.GetKind() {
		case "ConfigMap":
			data, _, _ := unstructured.NestedStringMap(object.Object, "data")
			found["tls"], found["image"], found["class"] = data["SQUALL_TEMPORAL_TLS"], data["SQUALL_INJECTOR_IMAGE"], data["SQUALL_CHAOS_POD_PRIORITY_CLASS"]
		case "Namespace":
			found[name] = object.GetAnnotations()["chaos.squall.dev/injector-image"]
		case "PriorityClass":
			found["made"] = object.GetName()
		case "Deployment":
			found[name], _, _ = unstructured.NestedString(object.Object, "spec", "template", "spec", "priorityClassName")
		case "NetworkPolicy":
			var policy networkingv1.NetworkPolicy
			into(t, object, &policy)
			for _, rule := range policy.Spec.Ingress {
				for _, port := range rule.Ports {
					found[name] += port.Port.String()
				}
			}
			if policy.Spec.PodSelector.Size() > 0 {
				t.Errorf("%s is about some pods only", name)
			}
		case "ValidatingAdmissionPolicyBinding":
			actions, _, _ := unstructured.NestedStringSlice(object.Object, "spec", "validationActions")
			if object.GetName() == "squall-safe-mode" || object.GetName() == "squall-namespace-opt-in" {
				found[name] = strings.Join(actions, ",")
			}
		}
	}
	want := map[string]string{
		"tls": "true", "image": "squall.local/injector:dev", "class": "squall-chaos", "made": "squall-chaos",
		"Namespace squall-system": "", "Namespace squall-chaos": "squall.local/injector:dev",
		"Deployment squall-worker": "squall-chaos", "Deployment squall-probes": "squall-chaos", "Deployment squall-crdbridge": "squall-chaos",
		"NetworkPolicy squall-system":                              "metrics",
		"ValidatingAdmissionPolicyBinding squall-safe-mode":        "Deny",
		"ValidatingAdmissionPolicyBinding squall-namespace-opt-in": "Deny",
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("locked down (-want +found):\n%s", diff)
	}
}
