//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube/podops"
)

// allow gives the worker a component's rights, and what limits them, until the test is over.
func allow(t *testing.T, w *world, component string) {
	t.Helper()
	install(t, w, component, "rbac.yaml", "policy.yaml")
}

// TestComponents is of the components that switch something of the bridge on. The bridge
// belongs to all tests, so they are installed once, before the tests that run in parallel,
// and removed when all cases are over.
func TestComponents(t *testing.T) {
	s := newSpace(t)
	allow(t, s.world, "pod-operations")
	for _, component := range []string{"on-init", "pod-ops-driver", "readiness-gate", "requesters"} {
		switchOneOn(t, s, component)
	}
	s.awaitSystem()
	// The API server calls a webhook moments after its configuration was made.
	eventually(t, func() string {
		pod := s.pod("asked", s.hosts[0])
		pod.Labels[v1beta1.LabelDisruptOnInit] = v1beta1.OnInitValue
		pod.Labels[podops.LabelManaged] = podops.ManagedValue
		created, err := s.kube.CoreV1().Pods(s.name).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil || len(created.Spec.InitContainers) == 0 || !podops.Drivable(created) {
			return fmt.Sprintf("a labelled pod is not held back, or gets no gate: %v", err)
		}
		return ""
	})
	t.Run("cases", func(t *testing.T) {
		t.Run("OnInit", onInit)
		t.Run("TheLabelAloneMakesPodsManaged", theLabelAloneMakesPodsManaged)
		t.Run("WhoAskedForIt", whoAskedForIt)
	})
}

// switchOneOn installs a component that switches something of the bridge on until the
// test is over.
func switchOneOn(t *testing.T, s *space, component string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../../deploy/components", component, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name := filepath.Base(file); name != "kustomization.yaml" && name != "crdbridge.yaml" {
			install(t, s.world, component, name)
		}
	}
	patch := read(t, component, "crdbridge.yaml")
	var on appsv1.Deployment
	if err := yaml.UnmarshalStrict(patch, &on); err != nil {
		t.Fatal(err)
	}
	if patch, err = yaml.YAMLToJSON(patch); err != nil {
		t.Fatal(err)
	}
	s.patchDeployment(on.Name, patch)
	t.Cleanup(func() {
		_, err := s.kube.AppsV1().Deployments(systemNamespace).Patch(context.Background(), on.Name, "application/strategic-merge-patch+json", off(t, on), metav1.PatchOptions{})
		if err != nil {
			t.Error(err)
		}
	})
}

// off is the patch that takes the variables and ports of another one out again.
func off(t *testing.T, on appsv1.Deployment) []byte {
	t.Helper()
	container := on.Spec.Template.Spec.Containers[0]
	var variables, ports []map[string]any
	for _, variable := range container.Env {
		variables = append(variables, map[string]any{"name": variable.Name, "$patch": "delete"})
	}
	for _, port := range container.Ports {
		ports = append(ports, map[string]any{"containerPort": port.ContainerPort, "$patch": "delete"})
	}
	changed := map[string]any{"name": container.Name}
	for field, those := range map[string][]map[string]any{"env": variables, "ports": ports} {
		if len(those) > 0 { // null would take out those of others, too
			changed[field] = those
		}
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{changed}}}}})
	if err != nil {
		t.Fatal(err)
	}
	return patch
}

func read(t *testing.T, component, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../deploy/components", component, file))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// install creates what is in files of a component until the test is over.
func install(t *testing.T, w *world, component string, files ...string) {
	t.Helper()
	for _, file := range files {
		for document := range strings.SplitSeq(string(read(t, component, file)), "\n---\n") {
			installOne(t, w, document)
		}
	}
}

// collections are the paths below which objects of the component are.
var collections = map[string]string{
	"Role":                         "/apis/rbac.authorization.k8s.io/v1/namespaces/" + systemNamespace + "/roles",
	"RoleBinding":                  "/apis/rbac.authorization.k8s.io/v1/namespaces/" + systemNamespace + "/rolebindings",
	"ClusterRole":                  "/apis/rbac.authorization.k8s.io/v1/clusterroles",
	"ClusterRoleBinding":           "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
	"Secret":                       "/api/v1/namespaces/" + systemNamespace + "/secrets",
	"Service":                      "/api/v1/namespaces/" + systemNamespace + "/services",
	"MutatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",

	"ValidatingAdmissionPolicy":        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
	"ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
}

// installOne creates an object until the test is over.
func installOne(t *testing.T, w *world, document string) {
	t.Helper()
	var object metav1.PartialObjectMetadata
	body, err := yaml.YAMLToJSON([]byte(document))
	if err == nil {
		err = json.Unmarshal(body, &object)
	}
	if err != nil || collections[object.Kind] == "" {
		t.Fatalf("nobody knows how to create %q: %v", object.Kind, err)
	}
	api := w.kube.Discovery().RESTClient()
	if err := api.Post().AbsPath(collections[object.Kind]).SetHeader("Content-Type", "application/json").Body(body).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.Delete().AbsPath(collections[object.Kind], object.Name).Do(context.Background()).Error(); err != nil {
			t.Error(err)
		}
	})
}
