package deploy

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/squall-chaos/squall/test/apiserver"
)

// limited applies the roles and policies of components until the test ends, and waits until
// they are in force.
func limited(t *testing.T, components ...string) kubernetes.Interface {
	t.Helper()
	kube := installed(t)
	base := map[string]bool{}
	for _, object := range render(t, ".") {
		base[object.GetKind()+" "+object.GetName()] = true
	}
	resources := map[string]schema.GroupVersionResource{
		"ClusterRole":                      {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
		"ClusterRoleBinding":               {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
		"ValidatingAdmissionPolicy":        {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"},
		"ValidatingAdmissionPolicyBinding": {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"},
	}
	added := slices.DeleteFunc(render(t, overlaid(t, components...)), func(o *unstructured.Unstructured) bool {
		return base[o.GetKind()+" "+o.GetName()] || resources[o.GetKind()].Resource == ""
	})
	client, err := dynamic.NewForConfig(apiserver.Start(t))
	if err != nil {
		t.Fatal(err)
	}
	apply(t, apiserver.Start(t), added)
	t.Cleanup(func() { // the other tests use the base
		for _, object := range added {
			if err := client.Resource(resources[object.GetKind()]).Delete(context.Background(), object.GetName(), metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		}
	})
	return kube
}

// account returns a client with the rights of an account of Squall, or of another user.
func account(t *testing.T, user string) kubernetes.Interface {
	t.Helper()
	config := apiserver.Start(t)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	if strings.HasPrefix(user, "squall-") {
		config.Impersonate = rest.ImpersonationConfig{
			UserName: "system:serviceaccount:squall-system:" + user, Groups: []string{"system:serviceaccounts", "system:authenticated"},
		}
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// placed makes a pod that opted in, until the test ends.
func placed(t *testing.T, kube kubernetes.Interface, namespace, name string, labels map[string]string) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: map[string]string{"note": "theirs"}},
		Spec: corev1.PodSpec{NodeName: "node-0", Containers: []corev1.Container{{Name: "main", Image: "theirs"}},
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: "pod.kusionstack.io/service-ready"}}},
	}
	if _, err := kube.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kube.CoreV1().Pods(namespace).Delete(context.Background(), name, *metav1.NewDeleteOptions(0)); err != nil {
			t.Error(err)
		}
	})
}

// patchPod returns a function that patches a pod.
func patchPod(t *testing.T, user, namespace, name, body string, subresources ...string) func() error {
	t.Helper()
	client := account(t, user)
	return func() error {
		_, err := client.CoreV1().Pods(namespace).Patch(t.Context(), name, types.StrategicMergePatchType, []byte(body),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, subresources...)
		return err
	}
}

// With the component of pod operations, either program can change only labels of operations
// and the finalizer of a protection.
func TestOperationsChangeLabelsOfPodsAlone(t *testing.T) {
	kube := limited(t, ComponentOfOperations)
	namespace := aNamespace(t, kube)
	placed(t, kube, namespace, "web", map[string]string{"app": "web"})
	placed(t, kube, "kube-system", "dns", nil)
	for _, program := range []string{"squall-worker", "squall-crdbridge"} {
		wantOnlyLabels(t, program, namespace)
	}
}

// wantOnlyLabels wants the program to be able to make its own changes of pod web, and no
// others.
func wantOnlyLabels(t *testing.T, program, namespace string) {
	t.Helper()
	const spec, labels = "Squall changes no spec, annotation or owner", "Squall changes no labels of a pod but"
	refused(t, patchPod(t, program, namespace, "web", `{"spec":{"containers":[{"name":"main","image":"evil"}]}}`), spec)
	refused(t, patchPod(t, program, namespace, "web", `{"metadata":{"annotations":{"note":"ours"}}}`), spec)
	refused(t, patchPod(t, program, namespace, "web", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"gone","uid":"0"}]}}`), spec)
	refused(t, patchPod(t, program, namespace, "web", `{"metadata":{"labels":{"app":"bank"}}}`), labels)
	refused(t, patchPod(t, program, namespace, "web", `{"metadata":{"labels":{"app":null}}}`), labels)
	refused(t, patchPod(t, program, namespace, "web", `{"metadata":{"labels":{"collaset.kusionstack.io/to-delete":"1"}}}`), labels)
	refused(t, patchPod(t, program, namespace, "web", `{"metadata":{"finalizers":["example.com/held"]}}`), "Squall changes no finalizers of a pod but")
	const operation = `{"metadata":{"labels":{"operating.podopslifecycle.kusionstack.io/chaos-0123456789abcdef":"1","podopslifecycle.kusionstack.io/service-available":"1",
		"protected-until.chaos.squall.dev/chaos-0123456789abcdef":"1.2"},"finalizers":["prot.podopslifecycle.kusionstack.io/chaos-0123456789abcdef"]}}`
	refused(t, patchPod(t, program, "kube-system", "dns", operation), "Squall changes no pod of kube-system")
	if err := patchPod(t, program, namespace, "web", operation)(); err != nil {
		t.Errorf("%s begins an operation and protects: %v, want it taken", program, err)
	}
}

// The component of the driver lets the bridge change the same labels, and one condition of
// pods that opted in.
func TestTheDriverChangesOneConditionOfPods(t *testing.T) {
	kube := limited(t, podOpsDriver)
	namespace := aNamespace(t, kube)
	placed(t, kube, namespace, "web", map[string]string{"app": "web", "kusionstack.io/control": "true"})
	placed(t, kube, namespace, "other", map[string]string{"app": "web"})
	placed(t, kube, "kube-system", "dns", nil)
	wantOnlyLabels(t, "squall-crdbridge", namespace)
	const ready = `{"status":{"conditions":[{"type":"pod.kusionstack.io/service-ready","status":"True"}]}}`
	const status = "Squall changes the condition pod.kusionstack.io/service-ready"
	for name, body := range map[string]string{
		"the kubelet's condition": `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`,
		"its address":             `{"status":{"podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"}]}}`,
		"its phase":               `{"status":{"phase":"Failed"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, patchPod(t, "squall-crdbridge", namespace, "web", body, "status"), status)
		})
	}
	refused(t, patchPod(t, "squall-crdbridge", namespace, "other", ready, "status"), status)
	refused(t, patchPod(t, "squall-crdbridge", namespace, "web", `{"metadata":{"labels":{"app":"bank"}}}`, "status"), "Squall changes no labels of a pod but")
	if err := patchPod(t, "squall-crdbridge", namespace, "web", ready, "status")(); err != nil {
		t.Errorf("the driver's condition: %v, want it taken", err)
	}
}

// With the component of pod replacement, the worker can cordon with its mark, and can
// delete no pods of Squall or the cluster itself.
func TestTheWorkerOnlyCordonsNodes(t *testing.T) {
	kube := limited(t, "components/pod-replacement")
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "limited", Labels: map[string]string{"zone": "a"}, Annotations: map[string]string{"cordon.chaos.squall.dev/1": "shop/move"}},
		Spec:       corev1.NodeSpec{ProviderID: "theirs://limited", Unschedulable: true},
	}
	if _, err := kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kube.CoreV1().Nodes().Delete(context.Background(), "limited", metav1.DeleteOptions{}) })
	worker := account(t, "squall-worker")
	patch := func(body string) func() error {
		return func() error {
			_, err := worker.CoreV1().Nodes().Patch(t.Context(), "limited", types.MergePatchType, []byte(body), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
	}
	const spec, marks = "Squall changes unschedulable of a node", "Squall changes the marks of its cordons"
	refused(t, patch(`{"spec":{"taints":[{"key":"a","value":"b","effect":"NoExecute"}]}}`), spec)
	refused(t, patch(`{"spec":{"podCIDR":"10.0.0.0/24","podCIDRs":["10.0.0.0/24"]}}`), spec)
	refused(t, patch(`{"metadata":{"labels":{"zone":"b"}}}`), marks)
	refused(t, patch(`{"metadata":{"labels":{"zone":null}}}`), marks)
	refused(t, patch(`{"metadata":{"annotations":{"note":"ours"}}}`), marks)
	refused(t, patch(`{"metadata":{"finalizers":["example.com/held"]}}`), marks)
	for _, body := range []string{
		`{"metadata":{"labels":{"chaos.squall.dev/cordoned":"true"},"annotations":{"cordon.chaos.squall.dev/2":"shop/move"}},"spec":{"unschedulable":true}}`,
		`{"metadata":{"labels":{"chaos.squall.dev/cordoned":null},"annotations":{"cordon.chaos.squall.dev/1":null}},"spec":{"unschedulable":null}}`,
	} {
		if err := patch(body)(); err != nil {
			t.Errorf("patch %s: %v, want it taken", body, err)
		}
	}
	wantDeletionsElsewhere(t, kube, worker)
}

// wantDeletionsElsewhere wants the worker to be able to delete pods and storage in a user's
// namespace, and not in kube-system.
func wantDeletionsElsewhere(t *testing.T, kube, worker kubernetes.Interface) {
	t.Helper()
	namespace, dry := aNamespace(t, kube), metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	for _, in := range []string{namespace, "kube-system"} {
		placed(t, kube, in, "replaced", nil)
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "replaced"}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}}
		if _, err := kube.CoreV1().PersistentVolumeClaims(in).Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = kube.CoreV1().PersistentVolumeClaims(in).Delete(context.Background(), "replaced", metav1.DeleteOptions{})
		})
	}
	const system = "Squall deletes no pods and no PersistentVolumeClaims of kube-system"
	refused(t, func() error { return worker.CoreV1().Pods("kube-system").Delete(t.Context(), "replaced", dry) }, system)
	refused(t, func() error {
		return worker.CoreV1().PersistentVolumeClaims("kube-system").Delete(t.Context(), "replaced", dry)
	}, system)
	if err := worker.CoreV1().Pods(namespace).Delete(t.Context(), "replaced", dry); err != nil {
		t.Errorf("a pod of others: %v, want it deleted", err)
	}
	if err := worker.CoreV1().PersistentVolumeClaims(namespace).Delete(t.Context(), "replaced", dry); err != nil {
		t.Errorf("storage of others: %v, want it deleted", err)
	}
}

// With the component of exec probes, squall-probes can run commands only in namespaces with
// the label, and never in those of the system.
func TestExecProbesNeedTheLabelOfTheirNamespace(t *testing.T) {
	kube := limited(t, probeExec)
	namespace := aNamespace(t, kube)
	probes := account(t, "squall-probes")
	run := func(namespace string) func() error {
		return func() error {
			return probes.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name("web").
				SubResource("exec").Param("command", "id").Param("container", "main").Param("stdout", "true").Do(t.Context()).Error()
		}
	}
	for _, in := range []string{namespace, "kube-system"} {
		placed(t, kube, in, "web", nil)
	}
	label := func(namespace, value string) {
		body := []byte(`{"metadata":{"labels":{"chaos.squall.dev/exec-probes":` + value + `}}}`)
		if _, err := kube.CoreV1().Namespaces().Patch(context.Background(), namespace, types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
	}
	if may(t, kube, "squall-worker", "create", "pods/exec", namespace) {
		t.Error("the component lets the worker run commands, which asks no probes")
	}
	refused(t, run(namespace), "kubectl label namespace "+namespace+" chaos.squall.dev/exec-probes=allowed")
	label("kube-system", `"allowed"`)
	t.Cleanup(func() { label("kube-system", "null") })
	refused(t, run("kube-system"), "exec probes run no commands in kube-system")
	label(namespace, `"allowed"`)
	eventually(t, "the API server looks for the kubelet, which is not there", func() bool {
		err := run(namespace)()
		return err != nil && !strings.Contains(err.Error(), "forbidden")
	})
}

// With the component of graceful deletion, the bridge can delete pods that opted in and
// have the label for deletion. That label needs the right to delete the pod.
func TestTheBridgeDeletesWhatOptedInAlone(t *testing.T) {
	kube := limited(t, podOpsDriver, gracefulDelete)
	namespace := aNamespace(t, kube)
	const opted, wanted = "kusionstack.io/control", "collaset.kusionstack.io/to-delete"
	placed(t, kube, namespace, "web", map[string]string{opted: "true"})
	placed(t, kube, namespace, "wanted", map[string]string{opted: "true", wanted: "1"})
	placed(t, kube, namespace, "other", map[string]string{wanted: "1"})
	placed(t, kube, "kube-system", "wanted", map[string]string{opted: "true", wanted: "1"})
	bridge := account(t, "squall-crdbridge")
	remove := func(namespace, name string) func() error {
		return func() error {
			return bridge.CoreV1().Pods(namespace).Delete(t.Context(), name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		}
	}
	for _, pod := range [][2]string{{namespace, "web"}, {namespace, "other"}, {"kube-system", "wanted"}} {
		refused(t, remove(pod[0], pod[1]), "Squall deletes pods that opted in")
	}
	if err := remove(namespace, "wanted")(); err != nil {
		t.Errorf("a pod that opted in and is to be deleted: %v", err)
	}
	const label = `{"metadata":{"labels":{"` + wanted + `":"1"}}}`
	if err := patchPod(t, "squall-crdbridge", namespace, "web", label)(); err != nil {
		t.Errorf("the bridge labels the pod: %v, want it taken", err)
	}
	for name, verbs := range map[string][]string{"pod-patcher": {"patch"}, "pod-patcher-and-deleter": {"patch", "delete"}} {
		_, err := kube.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods", "pods/status"}, Verbs: verbs}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	bind(t, kube, "patcher", "pod-patcher", namespace)
	bind(t, kube, "deleter", "pod-patcher-and-deleter", namespace)
	const needs = "patcher needs the right to delete pod "
	refused(t, patchPod(t, "patcher", namespace, "web", label), needs+"web")
	refused(t, patchPod(t, "patcher", namespace, "web", label, "status"), needs+"web")
	refused(t, patchPod(t, "patcher", namespace, "other", `{"metadata":{"labels":{"`+opted+`":"true"}}}`), needs+"other")
	if err := patchPod(t, "patcher", namespace, "wanted", `{"metadata":{"labels":{"app":"web"}}}`)(); err != nil {
		t.Errorf("another label: %v, want it taken", err)
	}
	eventually(t, "who may delete pods may label them so", func() error { return patchPod(t, "deleter", namespace, "web", label)() })
}
