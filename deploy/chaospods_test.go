package deploy

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apiserver"
)

// In the one namespace whose pods may have a node's powers, the worker alone makes pods,
// and only chaos pods.
func TestOnlyTheWorkerMakesChaosPods(t *testing.T) {
	kube := installed(t)
	// The deployer has all rights to all pods, like an account of a deployment tool.
	deployer := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "deployer"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods", "pods/exec", "pods/proxy", "pods/ephemeralcontainers"}, Verbs: []string{"*"}}}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "deployer"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "deployer"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "deployer"}}}
	if _, err := kube.RbacV1().ClusterRoles().Create(t.Context(), deployer, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := kube.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const worker = "system:serviceaccount:squall-system:squall-worker"
	as := func(user string) kubernetes.Interface {
		config := apiserver.Start(t)
		if user != "" {
			config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		return client
	}
	create := func(user string, pod *corev1.Pod) error {
		pod = pod.DeepCopy()
		pod.Namespace = "squall-chaos"
		_, err := as(user).CoreV1().Pods("squall-chaos").Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	genuine := chaosPods(t)
	one := genuine[0]
	refused(t, func() error { return create("deployer", one) }, "only the service account squall-worker")
	// The API server applies new rights after a moment.
	eventually(t, "the worker makes a chaos pod", func() bool { return create(worker, one) == nil })
	for _, pod := range genuine {
		if err := create(worker, pod); err != nil {
			t.Errorf("chaos pod of %s: %v", pod.Spec.Containers[0].Args, err)
		}
	}
	// The sweep's pod has the rights of all kinds together.
	sweeper := one.DeepCopy()
	for _, kind := range v1beta1.AllKinds() {
		for _, capability := range kind.Needs().Capabilities {
			add := &sweeper.Spec.Containers[0].SecurityContext.Capabilities.Add
			*add = append(*add, corev1.Capability(capability))
		}
	}
	sweeper.Finalizers = nil
	sweeper.Spec.PriorityClassName = "system-node-critical" // docs/hardening.md
	sweeper.Spec.Containers[0].SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Type: "spc_t"}
	if err := create(worker, sweeper); err != nil {
		t.Errorf("a pod of the sweep: %v", err)
	}

	byHand, err := os.ReadFile("../docs/stuck.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(byHand), "```yaml\napiVersion: v1\nkind: Pod\n")
	text, _, _ := strings.Cut(rest, "```")
	audit := &corev1.Pod{}
	if err := yaml.Unmarshal([]byte("apiVersion: v1\nkind: Pod\n"+text), audit); err != nil || audit.Name != "audit" {
		t.Fatalf("docs/stuck.md has no pod to look at a node by hand: %v, %+v", err, audit.ObjectMeta)
	}
	if err := create("", audit); err != nil {
		t.Errorf("the pod of docs/stuck.md, by an administrator: %v", err)
	}

	yes := true
	for name, change := range map[string]func(*corev1.PodSpec){
		"privileged": func(s *corev1.PodSpec) { s.Containers[0].SecurityContext.Privileged = &yes },
		"another capability": func(s *corev1.PodSpec) {
			s.Containers[0].SecurityContext.Capabilities.Add = []corev1.Capability{"SYS_MODULE"}
		},
		"all capabilities":      func(s *corev1.PodSpec) { s.Containers[0].SecurityContext.Capabilities.Add = []corev1.Capability{"ALL"} },
		"another command":       func(s *corev1.PodSpec) { s.Containers[0].Command = []string{"/bin/sh"} },
		"a second container":    func(s *corev1.PodSpec) { s.Containers = append(s.Containers, corev1.Container{Name: "b", Image: "b"}) },
		"a container before it": func(s *corev1.PodSpec) { s.InitContainers = []corev1.Container{{Name: "b", Image: "b"}} },
		"credentials":           func(s *corev1.PodSpec) { s.AutomountServiceAccountToken = nil },
		"its node's network":    func(s *corev1.PodSpec) { s.HostNetwork = true },
		"its node's root":       func(s *corev1.PodSpec) { s.Volumes[1].HostPath.Path = "/" },
		"a secret": func(s *corev1.PodSpec) {
			s.Volumes[0].VolumeSource = corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "a"}}
		},
		"no filter of its calls": func(s *corev1.PodSpec) {
			s.Containers[0].SecurityContext.SeccompProfile.Type = corev1.SeccompProfileTypeUnconfined
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := one.DeepCopy()
			change(&pod.Spec)
			if err := create(worker, pod); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "a chaos pod ") {
				t.Errorf("create = %v, want it forbidden by the policy", err)
			}
		})
	}
	t.Run("another image than the namespace says", func(t *testing.T) {
		patch := func(value string) {
			_, err := kube.CoreV1().Namespaces().Patch(t.Context(), "squall-chaos", types.MergePatchType,
				[]byte(`{"metadata":{"annotations":{"chaos.squall.dev/injector-image":`+value+`}}}`), metav1.PatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
		}
		defer patch("null")
		patch(`"registry.example/injector@sha256:1234"`)
		refused(t, func() error { return create(worker, one) }, "runs the image registry.example/injector@sha256:1234")
		pod := one.DeepCopy()
		pod.Spec.Containers[0].Image = "registry.example/injector@sha256:1234"
		if err := create(worker, pod); err != nil {
			t.Errorf("with that image: %v", err)
		}
	})
	t.Run("a chaos pod that is there", func(t *testing.T) {
		pod := one.DeepCopy()
		pod.Namespace, pod.Name = "squall-chaos", "there"
		eventually(t, "the image of the namespace is forgotten", func() bool { // admission reads namespaces from a cache
			_, err := as(worker).CoreV1().Pods("squall-chaos").Create(t.Context(), pod, metav1.CreateOptions{})
			return err == nil
		})
		patch := func(user, body string, subresources ...string) error {
			_, err := as(user).CoreV1().Pods("squall-chaos").Patch(t.Context(), "there", types.StrategicMergePatchType, []byte(body),
				metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, subresources...)
			return err
		}
		image := `{"spec":{"containers":[{"name":"injector","image":"other"}]}}`
		refused(t, func() error { return patch("deployer", image) }, "only the service account squall-worker")
		refused(t, func() error {
			return patch("deployer", `{"spec":{"ephemeralContainers":[{"name":"look","image":"other"}]}}`, "ephemeralcontainers")
		}, "whoever is in a chaos pod has its node")
		refused(t, func() error {
			return as("deployer").CoreV1().RESTClient().Post().Resource("pods").Namespace("squall-chaos").Name("there").
				SubResource("exec").Param("command", "sh").Param("container", "injector").Param("stdout", "true").Do(t.Context()).Error()
		}, "whoever is in a chaos pod has its node")
		refused(t, func() error {
			return as("deployer").CoreV1().RESTClient().Get().Resource("pods").Namespace("squall-chaos").Name("there").SubResource("proxy").Do(t.Context()).Error()
		}, "whoever is in a chaos pod has its node")
		if err := patch("deployer", `{"metadata":{"finalizers":null,"labels":{"a":"b"}}}`); err != nil {
			t.Errorf("a person takes the finalizer off: %v, want it accepted", err)
		}
	})
}

// chaosPods returns the pods of all kinds as activities/chaospod makes them.
func chaosPods(t *testing.T) []*corev1.Pod {
	t.Helper()
	files, err := filepath.Glob("../activities/chaospod/testdata/pods/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var pods []*corev1.Pod
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pod := &corev1.Pod{}
		if err := yaml.Unmarshal(text, pod); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		pods = append(pods, pod)
	}
	if len(pods) < 9 {
		t.Fatalf("%d golden chaos pods, want one for each kind", len(pods))
	}
	return pods
}

// No user, an administrator included, can remove the labels that identify a chaos pod or a
// record.
//
// rule S17
func TestMarksStay(t *testing.T) {
	kube := installed(t)
	labels := map[string]string{v1beta1.LabelDisruptionUID: "0b6f", v1beta1.LabelTarget: "web", "team": "a"}
	record := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "squall-chaos", Name: "marked", Labels: labels}}
	if _, err := kube.CoreV1().ConfigMaps("squall-chaos").Create(t.Context(), record, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	patch := func(labels string) error {
		_, err := kube.CoreV1().ConfigMaps("squall-chaos").Patch(t.Context(), "marked", types.MergePatchType,
			[]byte(`{"metadata":{"labels":`+labels+`}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	refused(t, func() error { return patch(`{"chaos.squall.dev/target":"other"}`) }, "label chaos.squall.dev/target of marked stays as it is")
	for _, labels := range []string{`{"chaos.squall.dev/disruption-uid":null}`, `{"chaos.squall.dev/disruption-uid":""}`, "null"} {
		if err := patch(labels); !apierrors.IsForbidden(err) {
			t.Errorf("labels %s: %v, want it forbidden", labels, err)
		}
	}
	if err := patch(`{"team":null,"owner":"b"}`); err != nil {
		t.Errorf("labels of others: %v", err)
	}
	pod := chaosPods(t)[0].DeepCopy()
	pod.Namespace = "squall-chaos"
	made, err := kube.CoreV1().Pods("squall-chaos").Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_, err := kube.CoreV1().Pods("squall-chaos").Patch(t.Context(), made.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil {
			t.Error(err)
		}
		none := int64(0)
		if err := kube.CoreV1().Pods("squall-chaos").Delete(context.Background(), made.Name, metav1.DeleteOptions{GracePeriodSeconds: &none}); err != nil {
			t.Error(err)
		}
	}()
	made.Labels[v1beta1.LabelDisruptionUID] = "other"
	if _, err := kube.CoreV1().Pods("squall-chaos").Update(t.Context(), made, metav1.UpdateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a chaos pod of another disruption: %v, want it forbidden", err)
	}
}
