//go:build e2e

package chart

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/cli"
	"helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"
)

const (
	name      = "squall"
	system    = "squall-system"
	namespace = "chart"
	patience  = 5 * time.Minute
)

var (
	disruptions = schema.GroupVersionResource{Group: "chaos.squall.dev", Version: "v1beta1", Resource: "disruptions"}
	types       = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// A cluster gets Squall by the manifests, with the bundled Temporal, and Helm takes it over
// while a fault is injected: helm test finds that it works, an upgrade leaves what runs
// alone, and helm uninstall takes all of it away but the types, with which every Disruption
// would go.
func TestHelm(t *testing.T) {
	h := newHelm(t)
	t.Cleanup(h.leaveNothing)
	h.applyManifests()
	h.disrupt()
	h.wantInjected()

	install := action.NewInstall(h.config)
	install.ReleaseName, install.Namespace, install.TakeOwnership, install.Wait, install.Timeout = name, system, true, true, patience
	_, err := install.RunWithContext(t.Context(), load(t), withoutIsolation(map[string]any{}))
	h.must("helm install", err)
	h.wantInjected()
	h.wantTested("")
	h.upgrade(map[string]any{"worker": map[string]any{"replicas": 0}})
	h.wantTested("fail  squall-worker: 0 of 0 ready")
	h.upgrade(map[string]any{"worker": map[string]any{"replicas": 1}, "components": map[string]any{"podReplacement": true}, "safeMode": "off"})
	h.wantInjected()
	h.wantTested("")
	h.must("delete the disruption", h.objects.Resource(disruptions).Namespace(namespace).Delete(t.Context(), "first", metav1.DeleteOptions{}))
	h.awaitGone("the disruption", h.objects.Resource(disruptions).Namespace(namespace), "first")
	h.uninstall()
	h.wantNothing()
	h.removeTypes()
}

// helmed is a cluster, and Helm for it.
type helmed struct {
	*testing.T
	config  *action.Configuration
	kube    kubernetes.Interface
	objects dynamic.Interface
}

func newHelm(t *testing.T) *helmed {
	settings := cli.New()
	h := &helmed{T: t, config: &action.Configuration{}}
	h.must("Helm", h.config.Init(settings.RESTClientGetter(), system, "secret", func(string, ...any) {}))
	config, err := settings.RESTClientGetter().ToRESTConfig()
	h.must("the cluster's address", err)
	h.kube, err = kubernetes.NewForConfig(config)
	h.must("a client", err)
	h.objects, err = dynamic.NewForConfig(config)
	h.must("a client", err)
	return h
}

func (h *helmed) must(what string, err error) {
	h.Helper()
	if err != nil {
		h.Fatalf("%s: %v", what, err)
	}
}

func (h *helmed) eventually(what string, check func() error) {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), patience)
	defer cancel()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			h.Fatalf("%s: %v", what, err)
		case <-time.After(time.Second):
		}
	}
}

// awaitGone waits until there is none of that name any more; what is how the test calls it.
func (h *helmed) awaitGone(what string, of dynamic.ResourceInterface, name string) {
	h.Helper()
	h.eventually(what+" is gone", func() error {
		_, err := of.Get(h.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is still there: %w", err)
	})
}

// applyManifests is kubectl apply --server-side -f squall-with-temporal.yaml, with the
// images of the development cluster.
func (h *helmed) applyManifests() {
	h.Helper()
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(h.kube.Discovery()))
	apply := func(object map[string]any) error {
		o := &unstructured.Unstructured{Object: object}
		mapping, err := mapper.RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
		if err != nil {
			return err
		}
		_, err = h.objects.Resource(mapping.Resource).Namespace(o.GetNamespace()).Apply(h.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "kubectl"})
		return err
	}
	manifests := kustomize(h.T, "temporal")
	for _, first := range []string{"Namespace", "CustomResourceDefinition", ""} {
		for key, object := range manifests {
			if kind, _, _ := strings.Cut(key, "/"); kind == first || first == "" {
				h.must("apply "+key, apply(object))
			}
		}
		mapper.Reset()
	}
}

// disrupt makes a pod and disrupts it. So long as the API server does not know the
// types well enough for its policies, it refuses.
func (h *helmed) disrupt() {
	h.Helper()
	_, err := h.kube.CoreV1().Namespaces().Create(h.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	h.must("make a namespace", err)
	h.Cleanup(func() {
		_ = h.kube.CoreV1().Namespaces().Delete(context.Background(), namespace, metav1.DeleteOptions{})
	})
	grace := int64(1)
	_, err = h.kube.CoreV1().Pods(namespace).Create(h.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "target", Labels: map[string]string{"app": "target"}},
		Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{
			{Name: "target", Image: "squall.local/target:dev", ImagePullPolicy: corev1.PullNever, Args: []string{"serve"}}}},
	}, metav1.CreateOptions{})
	h.must("make a target", err)
	h.eventually("create a disruption", func() error {
		_, err := h.objects.Resource(disruptions).Namespace(namespace).Create(h.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "chaos.squall.dev/v1beta1", "kind": "Disruption", "metadata": map[string]any{"name": "first"},
			"spec": map[string]any{"selector": map[string]any{"app": "target"}, "count": int64(1), "duration": "30m", "network": map[string]any{"drop": int64(40)}},
		}}, metav1.CreateOptions{})
		return err
	})
}

func (h *helmed) wantInjected() {
	h.Helper()
	h.eventually("the disruption is injected", func() error {
		d, err := h.objects.Resource(disruptions).Namespace(namespace).Get(h.Context(), "first", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if now, _, _ := unstructured.NestedString(d.Object, "status", "injectionStatus"); now != "Injected" {
			return fmt.Errorf("it is %q: %v", now, d.Object["status"])
		}
		return nil
	})
}

func (h *helmed) upgrade(values map[string]any) {
	h.Helper()
	upgrade := action.NewUpgrade(h.config)
	upgrade.Namespace, upgrade.Wait, upgrade.Timeout = system, true, patience
	_, err := upgrade.RunWithContext(h.Context(), name, load(h.T), withoutIsolation(values))
	h.must("helm upgrade", err)
}

// withoutIsolation installs the bundled Temporal and skips the test for a CNI that
// enforces NetworkPolicies: the development cluster's does not.
func withoutIsolation(values map[string]any) map[string]any {
	values["temporal"] = map[string]any{"bundled": map[string]any{"enabled": true, "testIsolation": false}}
	return values
}

// wantTested runs helm test, whose pod must report no failure, or this one.
func (h *helmed) wantTested(fails string) {
	h.Helper()
	testing := action.NewReleaseTesting(h.config)
	testing.Namespace, testing.Timeout = system, patience
	of, err := testing.Run(name)
	if (err != nil) != (fails != "") {
		h.Fatalf("helm test: %v; its pod said:\n%s", err, h.output())
	}
	if fails != "" {
		if output := h.output(); !strings.Contains(output, fails) {
			h.Errorf("helm test's pod said:\n%s\nwant %q", output, fails)
		}
		return
	}
	tested := 0
	for _, hook := range of.Hooks {
		if hook.Kind == "Pod" && hook.LastRun.Phase == release.HookPhaseSucceeded {
			tested++
		}
	}
	if tested != 1 {
		h.Errorf("helm test ran %d pods, want one", tested)
	}
}

// output is the log of the pod of helm test, which is kept when it fails.
func (h *helmed) output() string {
	output, err := h.kube.CoreV1().Pods(system).GetLogs("squall-test", &corev1.PodLogOptions{}).DoRaw(h.Context())
	if err != nil {
		return err.Error()
	}
	return string(output)
}

func (h *helmed) uninstall() {
	h.Helper()
	uninstall := action.NewUninstall(h.config)
	uninstall.IgnoreNotFound, uninstall.Wait, uninstall.Timeout = true, true, patience
	if _, err := uninstall.Run(name); err != nil {
		h.Errorf("helm uninstall: %v", err)
	}
}

// leaveNothing removes what a test that failed has left: the disruption while there is a
// worker, the release, the types. The stage after it installs Squall again.
func (h *helmed) leaveNothing() {
	if !h.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	of := h.objects.Resource(disruptions).Namespace(namespace)
	_ = of.Delete(ctx, "first", metav1.DeleteOptions{})
	for ctx.Err() == nil {
		if _, err := of.Get(ctx, "first", metav1.GetOptions{}); apierrors.IsNotFound(err) {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	h.uninstall()
	all, err := h.objects.Resource(types).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		h.Errorf("list types: %v", err)
		return
	}
	for _, crd := range all.Items {
		if strings.HasSuffix(crd.GetName(), "."+disruptions.Group) {
			_ = h.objects.Resource(types).Delete(context.Background(), crd.GetName(), metav1.DeleteOptions{})
		}
	}
}

// wantNothing wants nothing of the release to be left but the types, and namespaces.
func (h *helmed) wantNothing() {
	h.Helper()
	var left []string
	pods, err := h.kube.CoreV1().Pods(system).List(h.Context(), metav1.ListOptions{})
	h.must("list pods", err)
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp == nil {
			left = append(left, "pod "+pod.Name)
		}
	}
	roles, err := h.kube.RbacV1().ClusterRoles().List(h.Context(), metav1.ListOptions{})
	h.must("list roles", err)
	for _, role := range roles.Items {
		if strings.HasPrefix(role.Name, "squall-") {
			left = append(left, "role "+role.Name)
		}
	}
	policies, err := h.kube.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(h.Context(), metav1.ListOptions{})
	h.must("list policies", err)
	for _, policy := range policies.Items {
		if strings.HasPrefix(policy.Name, "squall-") {
			left = append(left, "policy "+policy.Name)
		}
	}
	if len(left) > 0 {
		h.Errorf("after helm uninstall there are %s", strings.Join(left, ", "))
	}
	if _, err := h.kube.Discovery().ServerResourcesForGroupVersion(disruptions.GroupVersion().String()); err != nil {
		h.Errorf("the types went too: %v", err)
	}
}

// removeTypes leaves the cluster as it was. Helm owns the fields of types that it
// made, so a later installation by kubectl would be refused.
func (h *helmed) removeTypes() {
	h.Helper()
	of := h.objects.Resource(types)
	all, err := of.List(h.Context(), metav1.ListOptions{})
	h.must("list types", err)
	for _, crd := range all.Items {
		if !strings.HasSuffix(crd.GetName(), "."+disruptions.Group) {
			continue
		}
		h.must("remove "+crd.GetName(), of.Delete(h.Context(), crd.GetName(), metav1.DeleteOptions{}))
		h.awaitGone("type "+crd.GetName(), of, crd.GetName())
	}
}
