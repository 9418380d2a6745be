package bench

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/objects"
	"github.com/squall-chaos/squall/test/world"
)

func findCluster(t *testing.T) (*realCluster, error) {
	if os.Getenv("KUBECONFIG") == "" {
		return nil, fmt.Errorf("no cluster is given")
	}
	log.SetLogger(logr.Discard())
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	scheme := runtime.NewScheme()
	must(t, v1beta1.AddToScheme(scheme))
	must(t, corev1.AddToScheme(scheme))
	c := &realCluster{config: config, pods: map[types.UID]*seenPod{}, disruptions: map[types.UID]*seenDisruption{}}
	if c.client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return nil, err
	}
	if c.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	var disruptions v1beta1.DisruptionList
	if err := c.client.List(t.Context(), &disruptions); err != nil {
		return nil, fmt.Errorf("it has no Squall: %w", err)
	}
	var nodes corev1.NodeList
	if err := c.client.List(t.Context(), &nodes); err != nil {
		return nil, err
	}
	for _, node := range nodes.Items {
		c.nodes = append(c.nodes, node.Name)
	}
	c.namespace, c.floorNamespace = c.newNamespace(t, "squall-bench-"), c.newNamespace(t, "squall-floor-")
	c.watch(t, scheme)
	return c, nil
}

// newNamespace makes a namespace that goes with the test.
func (c *realCluster) newNamespace(t *testing.T, prefix string) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}}}
	must(t, c.client.Create(t.Context(), namespace))
	t.Cleanup(func() { _ = c.client.Delete(context.Background(), namespace) })
	return namespace.Name
}

// begin creates a disruption of n targets and waits until it is injected. On
// the targets it is hardly felt.
func (c *realCluster) begin(t *testing.T, n int) *v1beta1.Disruption {
	t.Helper()
	c.disrupted++
	d := objects.Disruption(c.namespace, fmt.Sprintf("bench-%d", c.disrupted), intstr.FromInt(n))
	d.Spec.Selector["app"], d.Spec.Faults = "target", v1beta1.Faults{Network: &v1beta1.NetworkDisruption{Drop: 1}}
	began := time.Now()
	must(t, c.client.Create(t.Context(), d))
	t.Cleanup(func() { _ = c.client.Delete(context.Background(), d) })
	world.Eventually(t, 3*time.Minute, d.Name+" is injected", func() bool { return !c.seen(d).whole.IsZero() })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.disruptions[d.UID].created = began
	return d
}

// injectedAfter is how long it took from the call that created d.
func (c *realCluster) injectedAfter(d *v1beta1.Disruption) time.Duration {
	seen := c.seen(d)
	return seen.whole.Sub(seen.created)
}

// end deletes a disruption, waits until it is gone and returns how long that took.
func (c *realCluster) end(t *testing.T, d *v1beta1.Disruption) time.Duration {
	t.Helper()
	began := time.Now()
	must(t, client.IgnoreNotFound(c.client.Delete(t.Context(), d)))
	world.Eventually(t, 3*time.Minute, d.Name+" is gone", func() bool { return !c.seen(d).gone.IsZero() })
	return c.seen(d).gone.Sub(began)
}

// targets starts pods to disrupt.
func (c *realCluster) targets(t *testing.T, n int) {
	t.Helper()
	image := os.Getenv("SQUALL_BENCH_IMAGE")
	if image == "" {
		image = "squall.local/target:dev"
	}
	for i := range n {
		must(t, c.client.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: fmt.Sprintf("target-%d", i), Labels: map[string]string{"app": "target"}},
			Spec: corev1.PodSpec{TerminationGracePeriodSeconds: new(int64), Containers: []corev1.Container{{
				Name: "main", Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
			}}},
		}))
	}
	logf("%d targets start", n)
	world.Eventually(t, 3*time.Minute, "the targets run", func() bool { return c.running(t, "target-") == n })
}

// running asks the API server how many pods of the test with a name that
// begins so run, not more often than needed.
func (c *realCluster) running(t *testing.T, prefix string) (n int) {
	t.Helper()
	<-time.After(200 * time.Millisecond)
	var pods corev1.PodList
	must(t, c.client.List(t.Context(), &pods, client.InNamespace(c.namespace)))
	for _, pod := range pods.Items {
		if strings.HasPrefix(pod.Name, prefix) && pod.Status.Phase == corev1.PodRunning {
			n++
		}
	}
	return n
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
