package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/squall-chaos/squall/api/v1beta1"
)

const (
	chaosNamespace = "squall-chaos"
	targetImage    = "squall.local/target:dev"
	probeImage     = "squall.local/probe:dev"
)

// cluster is what the test knows besides the pages: the API server decides whether
// they are true.
type cluster struct {
	kube      *kubernetes.Clientset
	temporal  client.Client
	ui        string // address of the web interface, without a slash at its end
	nodes     []string
	namespace string // of this test alone
}

// newCluster finds the cluster, or returns what is missing.
func newCluster(ctx context.Context) (*cluster, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find the cluster (set KUBECONFIG): %w", err)
	}
	config.QPS = -1
	c := &cluster{ui: strings.TrimSuffix(setting("TEMPORAL_UI", "http://127.0.0.1:8233"), "/")}
	if c.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	nodes, err := c.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, node := range nodes.Items {
		c.nodes = append(c.nodes, node.Name)
	}
	if c.temporal, err = client.DialContext(ctx, client.Options{HostPort: setting("TEMPORAL_ADDRESS", client.DefaultHostPort), Logger: silent{}}); err != nil {
		return nil, fmt.Errorf("find Temporal (set TEMPORAL_ADDRESS): %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.ui, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("find Temporal's web interface (set TEMPORAL_UI): %w", err)
	}
	return c, answer.Body.Close()
}

func setting(name, without string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return without
}

// makeNamespace makes the test's own namespace. At the end it goes away with
// everything in it, also with what a killed injector left on a node.
func (c *cluster) makeNamespace(t *testing.T) {
	t.Helper()
	namespace, err := c.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "shop-", Labels: map[string]string{"squall.test": "ui"}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.namespace = namespace.Name
	t.Cleanup(func() {
		if err := c.kube.CoreV1().Namespaces().Delete(context.Background(), c.namespace, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// startTargets runs a pod on every node.
func (c *cluster) startTargets(t *testing.T) {
	t.Helper()
	grace := int64(1)
	for i, node := range c.nodes {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("checkout-%d", i), Labels: map[string]string{"app": "checkout"}},
			Spec: corev1.PodSpec{NodeName: node, TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{
				Name: "target", Image: targetImage, ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"serve"}}}},
		}
		if _, err := c.kube.CoreV1().Pods(c.namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func() string {
		pods, err := c.kube.CoreV1().Pods(c.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=checkout"})
		if err != nil {
			return err.Error()
		}
		for _, pod := range pods.Items {
			if pod.Status.Phase != corev1.PodRunning {
				return fmt.Sprintf("pod %s is %s", pod.Name, pod.Status.Phase)
			}
		}
		return ""
	})
}

// path is where the API has the test's disruptions.
func (c *cluster) path(more ...string) string {
	return strings.Join(append([]string{"/apis/chaos.squall.dev/v1beta1/namespaces", c.namespace, "disruptions"}, more...), "/")
}

// disrupt creates a disruption of all targets.
func (c *cluster) disrupt(t *testing.T, name string) *v1beta1.Disruption {
	t.Helper()
	document := fmt.Sprintf(`{"apiVersion":"chaos.squall.dev/v1beta1","kind":"Disruption","metadata":{"name":%q},"spec":{
		"selector":{"app":"checkout"},"count":%d,"duration":"10m","network":{"drop":100,"hosts":[{"host":"192.0.2.1"}]}}}`, name, len(c.nodes))
	raw, err := c.kube.Discovery().RESTClient().Post().AbsPath(c.path()).Param("fieldValidation", "Strict").
		SetHeader("Content-Type", "application/json").Body([]byte(document)).DoRaw(t.Context())
	if err != nil {
		t.Fatalf("create the disruption: %v", err)
	}
	d := &v1beta1.Disruption{}
	if err := json.Unmarshal(raw, d); err != nil {
		t.Fatal(err)
	}
	return d
}

// read returns nil when the disruption is gone.
func (c *cluster) read(ctx context.Context, name string) (*v1beta1.Disruption, error) {
	raw, err := c.kube.Discovery().RESTClient().Get().AbsPath(c.path(name)).DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	d := &v1beta1.Disruption{}
	return d, json.Unmarshal(raw, d)
}

// await waits until the disruption is as wanted.
func (c *cluster) await(t *testing.T, name, what string, wanted func(*v1beta1.Disruption) bool) {
	t.Helper()
	eventually(t, func() string {
		d, err := c.read(t.Context(), name)
		if err != nil {
			return err.Error()
		}
		if d == nil {
			return fmt.Sprintf("disruption %s is gone; waited for: %s", name, what)
		}
		if !wanted(d) {
			return fmt.Sprintf("disruption %s is not %s: phase %s, %s, stuck %t", name, what, d.Status.Phase, d.Status.InjectionStatus, d.Status.IsStuckOnRemoval)
		}
		return ""
	})
}

// chaosPods lists the chaos pods of a disruption.
func (c *cluster) chaosPods(t *testing.T, d *v1beta1.Disruption) []corev1.Pod {
	t.Helper()
	pods, err := c.kube.CoreV1().Pods(chaosNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: v1beta1.LabelDisruptionUID + "=" + string(d.UID)})
	if err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

// eventually waits until check returns "". Any other result is the current
// problem, for the message of a test that waited in vain.
func eventually(t *testing.T, check func() string) {
	t.Helper()
	over, tick := time.After(patience), time.NewTicker(100*time.Millisecond)
	defer tick.Stop()
	for {
		wrong := check()
		if wrong == "" {
			return
		}
		select {
		case <-over:
			t.Fatalf("after %s: %s", patience, wrong)
		case <-tick.C:
		}
	}
}

// silent keeps Temporal's client from talking into the test's output.
type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}
