package podops

import (
	"crypto/x509"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/squall-chaos/squall/crdbridge/certificate"
	"github.com/squall-chaos/squall/crdbridge/internal/bridgetest"
	"github.com/squall-chaos/squall/kube/podops"
	"github.com/squall-chaos/squall/test/apiserver"
)

// newGraceful is a cluster in which deletions wait, and the bridge marks them on pods.
func newGraceful(t *testing.T) *cluster {
	t.Helper()
	clients, err := certificate.Clients(apiserver.ClientCA(t))
	if err != nil {
		t.Fatal(err)
	}
	return newRefusing(t, clients)
}

// newRefusing is a cluster in which deletions wait. Without clients the bridge does not
// mark them.
func newRefusing(t *testing.T, clients *x509.CertPool) *cluster {
	t.Helper()
	c := newServed(t, "graceful-delete", GracefulDeletePath, Settings{GracefulDelete: true}, clients)
	c.pod("probe", "ReplicaSet")
	bridgetest.Eventually(t, bridgetest.Soon, "deletions are asked about", func() bool {
		return apierrors.IsForbidden(c.delete("probe", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}))
	})
	return c
}

func (c *cluster) delete(name string, options metav1.DeleteOptions) error {
	return c.client.CoreV1().Pods(c.Namespace).Delete(c.T.Context(), name, options)
}

// refused deletes a pod that has to wait, and returns the refusal.
func (c *cluster) refused(name string, options metav1.DeleteOptions) string {
	c.T.Helper()
	err := c.delete(name, options)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "being managed by PodOpsLifecycle: pod "+c.Namespace+"/"+name) {
		c.T.Fatalf("delete = %v, want it refused with a reason", err)
	}
	return err.Error()
}

func deleting(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }

// rules L15, L20: a deletion that has to wait is refused, and the refusal names what it
// waits for. It begins an operation, at whose end the driver deletes the pod. As with any
// DELETE, a budget without room does not prevent it.
func TestADeletionWaits(t *testing.T) {
	c := newGraceful(t)
	_, err := c.client.PolicyV1().PodDisruptionBudgets(c.Namespace).Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}, metav1.CreateOptions{})
	c.Must(err)
	c.pod("web-0", "StatefulSet")
	c.inService("web-0")
	if refusal := c.refused("web-0", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); !strings.Contains(refusal, "it was not asked for yet") {
		t.Errorf("a dry run is refused with %s", refusal)
	}
	if pod := c.get("web-0"); podops.ToBeDeleted(pod) {
		t.Errorf("a dry run notes a wish: %v", pod.Labels)
	}
	c.refused("web-0", metav1.DeleteOptions{})
	c.until("web-0", "out of service", func(pod *corev1.Pod) bool { return gate(pod) == corev1.ConditionFalse })
	if refusal := c.refused("web-0", metav1.DeleteOptions{}); !strings.Contains(refusal, "finalizer "+traffic) {
		t.Errorf("it is refused with %s, want the finalizer that it waits for", refusal)
	}
	if pod := c.get("web-0"); deleting(pod) {
		t.Error("it is deleted while it has traffic")
	}
	c.serve("web-0", false)
	c.until("web-0", "the driver deletes it", deleting)
	c.Must(c.delete("web-0", *metav1.NewDeleteOptions(5)))
	c.Must(c.delete("web-0", *metav1.NewDeleteOptions(0)))
	if _, err := c.client.CoreV1().Pods(c.Namespace).Get(t.Context(), "web-0", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the kubelet's last DELETE leaves it: %v", err)
	}
}

// A user who removes the label keeps the pod, and it returns to service.
func TestADeletionIsTakenBack(t *testing.T) {
	c := newGraceful(t)
	c.pod("web-0", "StatefulSet")
	c.inService("web-0")
	c.refused("web-0", metav1.DeleteOptions{})
	c.until("web-0", "out of service", func(pod *corev1.Pod) bool { return gate(pod) == corev1.ConditionFalse })
	c.patch("web-0", []byte(`{"metadata":{"labels":{"`+podops.LabelToDelete+`":null}}}`))
	c.until("web-0", "in service again", func(pod *corev1.Pod) bool {
		in, _ := podops.Available(pod)
		return in && len(left(pod)) == 0
	})
}

// Pods that end already and deletions that are forced or opted out are never refused: no
// eviction hangs.
func TestDeletionsThatDoNotWait(t *testing.T) {
	c := newGraceful(t)
	c.pod("evicted", "ReplicaSet")
	c.inService("evicted")
	c.Must(c.client.PolicyV1().Evictions(c.Namespace).Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "evicted", Namespace: c.Namespace}}))
	if pod := c.get("evicted"); !deleting(pod) {
		t.Error("an eviction does not end the pod")
	}
	c.Must(c.delete("evicted", *metav1.NewDeleteOptions(5)))
	c.pod("forced", "ReplicaSet")
	c.Must(c.delete("forced", *metav1.NewDeleteOptions(0)))
	c.pod("another", "ReplicaSet")
	c.patch("another", []byte(`{"metadata":{"labels":{"`+podops.LabelManaged+`":null}}}`))
	c.Must(c.delete("another", metav1.DeleteOptions{}))
	away := c.kuperatorThere()
	c.pod("of-kuperator", "ReplicaSet")
	bridgetest.Eventually(t, bridgetest.Soon, "Kuperator alone refuses", func() bool { return c.delete("of-kuperator", metav1.DeleteOptions{}) == nil })
	away()
	c.pod("ours", "ReplicaSet")
	bridgetest.Eventually(t, bridgetest.Soon, "the webhook refuses again", func() bool {
		return apierrors.IsForbidden(c.delete("ours", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}))
	})
	c.Must(c.Stop())
	c.Must(c.delete("ours", metav1.DeleteOptions{}))
}

// Without a CA of its clients the bridge cannot distinguish an API server from a pod, so it
// writes nothing. The refusal shows users how to delete the pod, and programs are not held
// up.
func TestADeletionIsNotNotedForAnyClient(t *testing.T) {
	c := newRefusing(t, nil)
	c.pod("web-0", "StatefulSet")
	c.inService("web-0")
	err := c.delete("web-0", metav1.DeleteOptions{})
	refusal := "kubectl -n " + c.Namespace + " label pod web-0 collaset.kusionstack.io/to-delete=true"
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), refusal) {
		t.Fatalf("delete = %v, want it refused with %q", err, refusal)
	}
	if pod := c.get("web-0"); podops.ToBeDeleted(pod) {
		t.Errorf("the bridge wrote the label: %v", pod.Labels)
	}
	c.patch("web-0", []byte(`{"metadata":{"labels":{"`+podops.LabelToDelete+`":"true"}}}`))
	c.until("web-0", "out of service", func(pod *corev1.Pod) bool { return gate(pod) == corev1.ConditionFalse })
	c.refused("web-0", metav1.DeleteOptions{})
	c.serve("web-0", false)
	c.until("web-0", "the driver deletes it", deleting)
	c.pod("of-a-rollout", "ReplicaSet")
	config := apiserver.Start(t)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:kube-system:replicaset-controller", Groups: []string{"system:masters"}}
	controller, err := kubernetes.NewForConfig(config)
	c.Must(err)
	c.Must(controller.CoreV1().Pods(c.Namespace).Delete(t.Context(), "of-a-rollout", metav1.DeleteOptions{}))
}
