package deploy

import (
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/squall-chaos/squall/test/apiserver"
)

// The API server itself decides what the programs may do.
func TestLeastPrivilege(t *testing.T) {
	kube := installed(t)
	worker, probes, bridge := "squall-worker", "squall-probes", "squall-crdbridge"
	for _, c := range []struct {
		who, verb, resource, namespace string
		want                           bool
	}{
		{worker, "list", "pods", "shop", true},
		{worker, "list", "nodes", "", true},
		{worker, "watch", "nodes", "", true},
		{worker, "watch", "pods", "shop", true}, // probes follow the containers of targets
		{worker, "watch", "pods", "squall-chaos", true},
		{worker, "update", "pods", "squall-chaos", true},
		{worker, "deletecollection", "pods", "squall-chaos", true},
		{worker, "list", "disruptions.chaos.squall.dev", "shop", true},
		{worker, "update", "disruptions.chaos.squall.dev", "shop", false},
		{worker, "patch", "configmaps", "squall-chaos", false},
		{worker, "patch", "events", "shop", false},
		{worker, "create", "events", "shop", true},
		{worker, "update", "disruptions.chaos.squall.dev/status", "shop", true},
		{worker, "patch", "disruptions.chaos.squall.dev", "shop", true},
		{worker, "create", "pods", "squall-chaos", true},
		{worker, "patch", "pods", "squall-chaos", true},
		{worker, "delete", "pods", "squall-chaos", true},
		{worker, "get", "pods/log", "squall-chaos", true},
		{worker, "update", "configmaps", "squall-chaos", true},
		{worker, "deletecollection", "configmaps", "squall-chaos", true},
		{worker, "list", "emergencystops.chaos.squall.dev", "", true},
		{worker, "patch", "emergencystops.chaos.squall.dev/status", "", false},
		{worker, "delete", "emergencystops.chaos.squall.dev", "", false},
		{worker, "watch", "disruptionpolicies.chaos.squall.dev", "", true},
		{worker, "create", "disruptionpolicies.chaos.squall.dev", "", false},
		{worker, "create", "pods", "shop", false},
		{worker, "create", "pods", "squall-system", false},
		{worker, "delete", "pods", "shop", false},
		{worker, "patch", "pods", "shop", false},
		{worker, "create", "pods/exec", "squall-chaos", false},
		{worker, "create", "pods/exec", "shop", false},
		{worker, "create", "pods/eviction", "shop", false},
		{worker, "get", "pods/log", "shop", false},
		{worker, "get", "configmaps", "shop", false},
		{worker, "get", "secrets", "shop", false},
		{worker, "get", "secrets", "squall-chaos", false},
		{worker, "get", "secrets", "squall-system", false},
		{worker, "patch", "nodes", "", false},
		// The worker makes runs of crons; admission limits it to those.
		{worker, "create", "disruptions.chaos.squall.dev", "shop", true},
		{worker, "delete", "disruptions.chaos.squall.dev", "shop", true},
		{bridge, "delete", "disruptions.chaos.squall.dev", "shop", true},
		{bridge, "create", "disruptions.chaos.squall.dev", "shop", false},
		{worker, "deletecollection", "disruptions.chaos.squall.dev", "shop", false},
		{bridge, "deletecollection", "disruptions.chaos.squall.dev", "shop", false},
		{worker, "get", "disruptioncrons.chaos.squall.dev", "shop", true},
		{worker, "update", "disruptioncrons.chaos.squall.dev/status", "shop", true},
		{worker, "patch", "disruptioncrons.chaos.squall.dev", "shop", false},
		{bridge, "watch", "disruptioncrons.chaos.squall.dev", "shop", true},
		{bridge, "patch", "disruptioncrons.chaos.squall.dev", "shop", true},
		{worker, "get", "disruptionrollouts.chaos.squall.dev", "shop", true},
		{worker, "update", "disruptionrollouts.chaos.squall.dev/status", "shop", true},
		{worker, "patch", "disruptionrollouts.chaos.squall.dev", "shop", false},
		{worker, "get", "disruptionscenarios.chaos.squall.dev", "shop", true},
		{worker, "update", "disruptionscenarios.chaos.squall.dev/status", "shop", true},
		{worker, "patch", "disruptionscenarios.chaos.squall.dev", "shop", false},
		{bridge, "watch", "disruptionscenarios.chaos.squall.dev", "shop", true},
		{bridge, "patch", "disruptionscenarios.chaos.squall.dev", "shop", true},
		{bridge, "create", "disruptionscenarios.chaos.squall.dev", "shop", false},
		{bridge, "watch", "disruptionrollouts.chaos.squall.dev", "shop", true},
		{bridge, "patch", "disruptionrollouts.chaos.squall.dev", "shop", true},
		{bridge, "create", "disruptionrollouts.chaos.squall.dev", "shop", false},
		{bridge, "create", "disruptioncrons.chaos.squall.dev", "shop", false},
		{bridge, "delete", "disruptioncrons.chaos.squall.dev", "shop", false},
		{worker, "get", "deployments.apps", "shop", true},
		{worker, "patch", "deployments.apps", "shop", false},
		// squall-probes reads, and reports failures as events.
		{probes, "watch", "pods", "shop", true},
		{probes, "watch", "configmaps", "squall-chaos", true},
		{probes, "create", "events", "shop", true},
		{probes, "get", "disruptionscenarios.chaos.squall.dev", "shop", true},
		{probes, "get", "disruptions.chaos.squall.dev", "shop", false},
		{probes, "patch", "disruptions.chaos.squall.dev", "shop", false},
		{probes, "create", "disruptions.chaos.squall.dev", "shop", false},
		{probes, "update", "disruptions.chaos.squall.dev/status", "shop", false},
		{probes, "update", "disruptionscenarios.chaos.squall.dev/status", "shop", false},
		{probes, "create", "pods", "squall-chaos", false},
		{probes, "patch", "pods", "squall-chaos", false},
		{probes, "delete", "pods", "squall-chaos", false},
		{probes, "get", "pods/log", "squall-chaos", false},
		{probes, "create", "pods/exec", "shop", false},
		{probes, "update", "configmaps", "squall-chaos", false},
		{probes, "delete", "configmaps", "squall-chaos", false},
		{probes, "get", "configmaps", "shop", false},
		{probes, "list", "nodes", "", false},
		{probes, "get", "secrets", "squall-system", false},
		{probes, "get", "secrets", "shop", false},
		{bridge, "list", "pods", "shop", true},
		{bridge, "watch", "disruptions.chaos.squall.dev", "shop", true},
		{bridge, "patch", "disruptions.chaos.squall.dev", "shop", true},
		{bridge, "update", "disruptions.chaos.squall.dev", "shop", false},
		{bridge, "create", "events", "squall-system", true},
		{bridge, "create", "events", "shop", false},
		{bridge, "patch", "disruptions.chaos.squall.dev/status", "shop", true},
		{bridge, "create", "leases.coordination.k8s.io", "squall-system", true},
		{bridge, "watch", "emergencystops.chaos.squall.dev", "", true},
		{bridge, "patch", "emergencystops.chaos.squall.dev/status", "", true},
		{bridge, "delete", "pods", "squall-chaos", true},
		{bridge, "create", "emergencystops.chaos.squall.dev", "", false},
		{bridge, "delete", "emergencystops.chaos.squall.dev", "", false},
		{bridge, "create", "pods", "squall-chaos", false},
		{bridge, "patch", "pods", "squall-chaos", false},
		{bridge, "deletecollection", "pods", "squall-chaos", false},
		{bridge, "delete", "pods", "shop", false},
		{bridge, "delete", "pods", "squall-system", false},
		{bridge, "patch", "pods", "shop", false},
		{bridge, "get", "configmaps", "squall-chaos", false},
		{bridge, "get", "secrets", "squall-system", false},
		{bridge, "create", "leases.coordination.k8s.io", "shop", false},
		{"default", "list", "pods", "squall-chaos", false},
	} {
		name := c.who + " " + c.verb + " " + c.resource
		if c.namespace != "" {
			name += " in " + c.namespace
		}
		t.Run(name, func(t *testing.T) {
			if got := may(t, kube, c.who, c.verb, c.resource, c.namespace); got != c.want {
				t.Errorf("allowed = %t, want %t", got, c.want)
			}
		})
	}
}

// The namespaces admit the pods that belong there and nothing else.
func TestPodSecurity(t *testing.T) {
	kube := installed(t)
	privileged := &corev1.Pod{Spec: corev1.PodSpec{
		HostPID: true,
		Containers: []corev1.Container{{
			Name: "injector", Image: "squall.local/injector:dev",
			SecurityContext: &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}}},
		}},
		Volumes: []corev1.Volume{{Name: "journal", VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: "/var/lib/squall"},
		}}},
	}}
	admit := func(pod *corev1.Pod, namespace string) error {
		pod = pod.DeepCopy()
		pod.Name = "admitted"
		_, err := kube.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	for _, deployment := range rendered(t, "Deployment") {
		if err := admit(podOf(t, deployment), "squall-system"); err != nil {
			t.Errorf("%s does not get into squall-system: %v", deployment.GetName(), err)
		}
	}
	// TestOnlyTheWorkerMakesChaosPods covers the admission of a chaos pod to squall-chaos.
	if err := admit(privileged, "squall-system"); !apierrors.IsForbidden(err) {
		t.Errorf("a chaos pod in squall-system: %v, want it forbidden", err)
	}
}

// installed returns a client of a cluster with the base applied.
func installed(t *testing.T) *kubernetes.Clientset {
	t.Helper()
	config := apiserver.Start(t)
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, config, render(t, "."))
	return kube
}

func apply(t *testing.T, config *rest.Config, objects []*unstructured.Unstructured) {
	t.Helper()
	applyWith(t, config, objects, metav1.ApplyOptions{FieldManager: "deploy-test", Force: true})
}

func applyWith(t *testing.T, config *rest.Config, objects []*unstructured.Unstructured, options metav1.ApplyOptions) {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	discoverer, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discoverer))
	for _, object := range objects {
		kind := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Resource(mapping.Resource).Namespace(object.GetNamespace()).
			Apply(t.Context(), object.GetName(), object, options)
		if err != nil {
			t.Fatalf("apply %s %s: %v", kind.Kind, object.GetName(), err)
		}
	}
}

// may asks about "pods/log" or "disruptions.chaos.squall.dev/status".
func may(t *testing.T, kube kubernetes.Interface, who, verb, resource, namespace string) bool {
	t.Helper()
	resource, subresource, _ := strings.Cut(resource, "/")
	resource, group, _ := strings.Cut(resource, ".")
	home := "squall-system"
	if who == "default" {
		home = "squall-chaos" // a chaos pod's account, if it had credentials
	}
	review, err := kube.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User:   "system:serviceaccount:" + home + ":" + who,
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + home, "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: namespace, Verb: verb, Group: group, Resource: resource, Subresource: subresource,
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}
