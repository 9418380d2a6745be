package deploy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube/podops"
	"github.com/squall-chaos/squall/test/apiserver"
	"github.com/squall-chaos/squall/test/patience"
)

// A kind that the worker carries out needs more rights than the base gives, so it has a
// component. Other kinds have none.
func TestEveryKindOfTheWorkerHasAComponent(t *testing.T) {
	var want, found []string
	for _, row := range v1beta1.KindTable() {
		if row.By == v1beta1.ByWorker {
			want = append(want, Component(row.Kind))
			if rights, err := RightsFor(row.Kind); err != nil || len(rights) == 0 {
				t.Errorf("RightsFor(%s) = %v, %v, want some", row.Kind, rights, err)
			}
		}
	}
	found, err := filepath.Glob("components/*")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, ComponentOfOptIn, "components/namespace-opt-in-off", "components/safe-mode-enforce", "components/safe-mode-off", onInit, onInitCertManager, probeExec, ComponentOfOperations, podOpsDriver, gracefulDelete, readinessGate, requesters, webhookClients)
	want = append(want, ownTemporal, "components/prometheus-operator", "components/grafana-dashboard") // not for a kind
	want = append(want, "components/aggregate-to-edit", "components/network-policy")
	slices.Sort(want)
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("components (-kinds of the worker and on-init +found):\n%s", diff)
	}
	if _, err := RightsFor(v1beta1.KindNetwork); err == nil {
		t.Error("RightsFor(network-disruption) found a component: an injector carries it out")
	}
}

// With the component on top of the base the worker has exactly the rights of RightsFor, and
// no other account gets any.
func TestTheComponentOfPodReplacement(t *testing.T) {
	rights, err := RightsFor(v1beta1.KindPodReplacement)
	if err != nil {
		t.Fatal(err)
	}
	var given []string
	for _, right := range rights {
		given = append(given, right.String())
	}
	want := []string{"patch nodes everywhere", "delete pods everywhere", "get persistentvolumeclaims everywhere", "delete persistentvolumeclaims everywhere"}
	if diff := cmp.Diff(want, given); diff != "" {
		t.Errorf("RightsFor(pod-replacement) (-want +got):\n%s", diff)
	}
	kube := installed(t)
	overlay := overlaid(t, Component(v1beta1.KindPodReplacement))
	base := map[string]bool{}
	for _, object := range render(t, ".") {
		base[object.GetKind()+" "+object.GetName()] = true
	}
	added := slices.DeleteFunc(render(t, overlay), func(o *unstructured.Unstructured) bool { return base[o.GetKind()+" "+o.GetName()] })
	if len(added) != 4 {
		t.Errorf("the component adds %d objects, want a role, its binding, a policy and its binding", len(added))
	}
	apply(t, apiserver.Start(t), added)
	grants := func() bool { return may(t, kube, "squall-worker", "patch", "nodes", "") }
	t.Cleanup(func() { // the other tests use the base
		const name = "squall-pod-replacement"
		bound, policies := kube.RbacV1().ClusterRoleBindings(), kube.AdmissionregistrationV1()
		err := errors.Join(bound.Delete(context.Background(), name, metav1.DeleteOptions{}),
			policies.ValidatingAdmissionPolicyBindings().Delete(context.Background(), name, metav1.DeleteOptions{}),
			policies.ValidatingAdmissionPolicies().Delete(context.Background(), name, metav1.DeleteOptions{}))
		if err != nil {
			t.Error(err)
		}
	})
	eventually(t, "the component's rights count", grants)
	for _, who := range []string{"squall-worker", "squall-crdbridge"} {
		for _, right := range rights {
			if got := may(t, kube, who, right.Verb, right.Resource, "shop"); got != (who == "squall-worker") {
				t.Errorf("%s may %s: %t", who, right, got)
			}
		}
	}
	for _, c := range []struct{ verb, resource string }{{"update", "nodes"}, {"delete", "nodes"}, {"patch", "nodes/status"}, {"patch", "pods"}, {"create", "pods"}, {"get", "secrets"}} {
		if may(t, kube, "squall-worker", c.verb, c.resource, "shop") {
			t.Errorf("the component lets the worker %s %s", c.verb, c.resource)
		}
	}
	if err := kube.RbacV1().ClusterRoles().Delete(t.Context(), "squall-pod-replacement", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "without its role nothing of it counts", func() bool { return !grants() })
}

// wantRightsBeyond wants an overlay to give exactly these rights beyond the base, which is
// a folder too.
func wantRightsBeyond(t *testing.T, base, overlay string, want ...string) {
	t.Helper()
	there := rightsOfAll(t, base)
	more := slices.DeleteFunc(rightsOfAll(t, overlay), func(line string) bool { return slices.Contains(there, line) })
	if diff := cmp.Diff(want, more, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("rights of %s beyond those of %s (-want +got):\n%s", overlay, base, diff)
	}
}

// The component of the opt-in gives the worker one right, and the setting that uses it.
func TestTheComponentOfTheOptIn(t *testing.T) {
	overlay := overlaid(t, ComponentOfOptIn)
	wantRightsBeyond(t, ".", overlay, "squall-worker may get namespaces everywhere")
	if rights, err := RightsOfOptIn(); err != nil || len(rights) != 1 {
		t.Errorf("the worker asks for %v (%v), want this one", rights, err)
	}
	for _, object := range render(t, overlay) {
		if object.GetKind() == "Deployment" && object.GetName() == "squall-worker" &&
			!strings.Contains(fmt.Sprint(podOf(t, object).Spec.Containers[0].Env), "{SQUALL_NAMESPACE_OPT_IN enforce") {
			t.Error("the component does not switch the worker's setting on")
		}
	}
}

// The components of safe mode give no rights, and set the worker's setting.
func TestTheComponentsOfSafeMode(t *testing.T) {
	base := rightsOfAll(t, ".")
	for _, value := range []string{"off", "enforce"} {
		overlay := overlaid(t, "components/safe-mode-"+value)
		if diff := cmp.Diff(base, rightsOfAll(t, overlay)); diff != "" {
			t.Errorf("rights (-base +%s):\n%s", value, diff)
		}
		for _, object := range render(t, overlay) {
			if object.GetKind() == "Deployment" && object.GetName() == "squall-worker" &&
				!strings.Contains(fmt.Sprint(podOf(t, object).Spec.Containers[0].Env), "{SQUALL_SAFE_MODE "+value) {
				t.Errorf("with %s the worker's setting is another", value)
			}
		}
	}
}

const (
	onInit            = "components/on-init"
	onInitCertManager = "components/on-init-cert-manager"
	podOpsDriver      = "components/pod-ops-driver"
	gracefulDelete    = "components/graceful-delete"
	readinessGate     = "components/readiness-gate"
	requesters        = "components/requesters"
	probeExec         = "components/probe-exec"
	webhookClients    = "components/webhook-clients"
	ownTemporal       = "components/temporal"
)

// The component of pod operations gives the worker the rights that it requires, the bridge
// the right to remove finalizers, and nothing else.
func TestTheComponentOfPodOperations(t *testing.T) {
	want := []string{
		"squall-crdbridge may create events everywhere",
		"squall-crdbridge may get,patch pods everywhere",
		"squall-worker may list mutatingwebhookconfigurations.admissionregistration.k8s.io everywhere",
		"squall-worker may patch pods everywhere",
	}
	wantRightsBeyond(t, ".", overlaid(t, ComponentOfOperations), want...)
	rights, err := RightsOfOperations()
	if err != nil || len(rights) != len(want)-2 {
		t.Errorf("the worker asks for %v (%v), want its %d", rights, err, len(want)-2)
	}
}

// The component of the driver gives the bridge the rights to its writes and watches, and
// switches it on. Workers detect it by a webhook configuration that calls no service.
func TestTheComponentOfTheDriver(t *testing.T) {
	overlay := overlaid(t, podOpsDriver)
	wantRightsBeyond(t, ".", overlay,
		"squall-crdbridge may get,patch pods everywhere",
		"squall-crdbridge may list,watch mutatingwebhookconfigurations.admissionregistration.k8s.io everywhere",
		"squall-crdbridge may patch pods/status everywhere")
	on, informed := false, false
	for _, object := range render(t, overlay) {
		switch object.GetKind() + " " + object.GetName() {
		case "Deployment squall-crdbridge":
			on = strings.Contains(fmt.Sprint(podOf(t, object).Spec.Containers[0].Env), "{SQUALL_POD_OPS_DRIVER true")
		case "MutatingWebhookConfiguration " + podops.BuiltInDriver:
			webhooks, _, err := unstructured.NestedSlice(object.Object, "webhooks")
			informed = err == nil && len(webhooks) == 0
		}
	}
	if !on || !informed {
		t.Errorf("the bridge is switched on: %t, workers are told: %t", on, informed)
	}
}

// The component of graceful deletion lets the bridge delete pods, and keep the
// certificate of its webhook, which it switches on.
func TestTheComponentOfGracefulDeletion(t *testing.T) {
	overlay := overlaid(t, podOpsDriver, gracefulDelete)
	wantRightsBeyond(t, overlaid(t, podOpsDriver), overlay,
		"squall-crdbridge may delete pods everywhere",
		"squall-crdbridge may get,update secrets named squall-graceful-delete in squall-system",
		"squall-crdbridge may get,update validatingwebhookconfigurations.admissionregistration.k8s.io named squall-graceful-delete everywhere")
	wantWebhook(t, overlay, "SQUALL_GRACEFUL_DELETE", "graceful-del", 9444)
}

// The component of the readiness gate lets the bridge keep the certificate of its
// webhook, which it switches on, and gives it no right to any pod.
func TestTheComponentOfTheReadinessGate(t *testing.T) {
	overlay := overlaid(t, podOpsDriver, readinessGate)
	wantRightsBeyond(t, overlaid(t, podOpsDriver), overlay,
		"squall-crdbridge may get,update mutatingwebhookconfigurations.admissionregistration.k8s.io named squall-readiness-gate everywhere",
		"squall-crdbridge may get,update secrets named squall-readiness-gate in squall-system")
	wantWebhook(t, overlay, "SQUALL_READINESS_GATE", "readiness-gate", 9446)
}

// The component of requesters lets the bridge keep the certificate of its webhook, which
// it switches on.
func TestTheComponentOfRequesters(t *testing.T) {
	overlay := overlaid(t, requesters)
	wantRightsBeyond(t, ".", overlay,
		"squall-crdbridge may get,update mutatingwebhookconfigurations.admissionregistration.k8s.io named squall-requesters everywhere",
		"squall-crdbridge may get,update secrets named squall-requesters in squall-system")
	wantWebhook(t, overlay, "SQUALL_REQUESTERS", "requesters", 9445)
}

// The component of webhook clients gives no rights. It gives the bridge a file, and the
// setting names it.
func TestTheComponentOfWebhookClients(t *testing.T) {
	overlay := overlaid(t, webhookClients)
	wantRightsBeyond(t, ".", overlay)
	for _, object := range render(t, overlay) {
		if object.GetKind() != "Deployment" || object.GetName() != "squall-crdbridge" {
			continue
		}
		pod := podOf(t, object).Spec
		set := slices.ContainsFunc(pod.Containers[0].Env, func(e corev1.EnvVar) bool {
			return e.Name == "SQUALL_WEBHOOK_CLIENT_CA" && e.Value == "/etc/squall/webhook-clients/ca.crt"
		})
		mounted := slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.Name == "webhook-clients" && m.MountPath == "/etc/squall/webhook-clients"
		})
		there := slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == "webhook-clients" && v.ConfigMap != nil })
		if !set || !mounted || !there {
			t.Errorf("the setting is there: %t, mounted: %t, of a ConfigMap: %t", set, mounted, there)
		}
	}
}

// wantWebhook wants the bridge to serve a webhook.
func wantWebhook(t *testing.T, overlay, setting, port string, number int32) {
	t.Helper()
	on, open := false, false
	for _, object := range render(t, overlay) {
		if object.GetKind() == "Deployment" && object.GetName() == "squall-crdbridge" {
			bridge := podOf(t, object).Spec.Containers[0]
			on = strings.Contains(fmt.Sprint(bridge.Env), "{"+setting+" true")
			open = slices.ContainsFunc(bridge.Ports, func(p corev1.ContainerPort) bool { return p.Name == port && p.ContainerPort == number })
		}
	}
	if !on || !open {
		t.Errorf("%s is true: %t, port %s is open: %t", setting, on, port, open)
	}
}

// The component of Temporal sets its address for the programs and admits no other clients.
// Its pod meets the requirements of squall-system.
func TestTheComponentOfTemporal(t *testing.T) {
	kube := installed(t)
	var pod *corev1.Pod
	addresses := map[string]bool{}
	for _, object := range render(t, overlaid(t, ownTemporal)) {
		switch kind := object.GetKind(); {
		case kind == "StatefulSet":
			pod = podOf(t, object)
		case kind == "ConfigMap" && strings.HasPrefix(object.GetName(), "squall-settings"):
			address, _, _ := unstructured.NestedString(object.Object, "data", "SQUALL_TEMPORAL_ADDRESS")
			addresses[address] = true
		case kind == "Service" && object.GetName() == "squall-temporal":
			addresses[object.GetName()+"."+object.GetNamespace()+":7233"] = true
		case kind == "NetworkPolicy" && object.GetName() == "squall-temporal":
			peers, _, _ := unstructured.NestedSlice(object.Object, "spec", "ingress")
			if text := fmt.Sprint(peers); !strings.Contains(text, "squall-worker squall-probes squall-crdbridge") || strings.Contains(text, "namespaceSelector") {
				t.Errorf("Temporal lets in %s", text)
			}
		}
	}
	if len(addresses) != 1 {
		t.Errorf("the Service and the programs' setting say different addresses: %v", addresses)
	}
	if pod == nil {
		t.Fatal("the component has no Temporal")
	}
	pod.Name = "admitted"
	if _, err := kube.CoreV1().Pods("squall-system").Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Error(err)
	}
}

// The component of exec probes gives squall-probes one right, and sets the setting that
// uses it.
func TestTheComponentOfExecProbes(t *testing.T) {
	overlay := overlaid(t, probeExec)
	wantRightsBeyond(t, ".", overlay, "squall-probes may create,get pods/exec everywhere")
	found := false
	for _, object := range render(t, overlay) {
		if object.GetKind() == "Deployment" && object.GetName() == "squall-probes" {
			found = strings.Contains(fmt.Sprint(podOf(t, object).Spec.Containers[0].Env), "{SQUALL_PROBE_EXEC true")
		}
	}
	if !found {
		t.Error("the component does not switch the setting of squall-probes on")
	}
}

// The components of onInit give the bridge two rights by name, or none, and serve
// the webhook under the names that the bridge knows.
func TestTheComponentsOfOnInit(t *testing.T) {
	for _, test := range []struct {
		components []string
		rights     []string
		secret     bool
	}{
		{[]string{onInit}, []string{
			"squall-crdbridge may get,update mutatingwebhookconfigurations.admissionregistration.k8s.io named squall-on-init everywhere",
			"squall-crdbridge may get,update secrets named squall-on-init in squall-system",
		}, true},
		{[]string{onInit, onInitCertManager}, nil, false},
	} {
		t.Run(strings.Join(test.components, " and "), func(t *testing.T) {
			overlay := overlaid(t, test.components...)
			wantRightsBeyond(t, ".", overlay, test.rights...)
			secret := false
			for _, object := range render(t, overlay) {
				switch name := object.GetKind() + " " + object.GetName(); name {
				case "Secret squall-on-init":
					secret = true
				case "Deployment squall-crdbridge":
					environment := fmt.Sprint(podOf(t, object).Spec.Containers[0].Env)
					if !strings.Contains(environment, "{SQUALL_ON_INIT true") || strings.Contains(environment, "SQUALL_ON_INIT_CERTIFICATES") == test.secret {
						t.Errorf("environment of the bridge: %s", environment)
					}
				}
			}
			if secret != test.secret {
				t.Errorf("a Secret is made: %t, want %t", secret, test.secret)
			}
		})
	}
}

// overlaid returns the directory of an overlay as in docs/kinds/pod-replacement.md.
func overlaid(t *testing.T, components ...string) string {
	t.Helper()
	place := t.TempDir()
	if err := os.CopyFS(filepath.Join(place, "deploy"), os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(place, "overlays", "mine")
	if err := os.MkdirAll(overlay, 0o755); err != nil {
		t.Fatal(err)
	}
	text := "resources: [../../deploy]\ncomponents:\n"
	for _, component := range components {
		text += "- ../../deploy/" + component + "\n"
	}
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return overlay
}

// eventually waits for an effect that follows a write to the API server with a delay,
// such as the enforcement of a new policy. A busy machine has taken 20 s.
func eventually[H func() bool | func() error](t *testing.T, what string, holds H) {
	t.Helper()
	patience.Within(t, time.Minute, what, holds)
}
