//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/promise"
)

const (
	systemNamespace = "squall-system"
	chaosNamespace  = "squall-chaos"
	probeNamespace  = "squall-e2e"
	targetImage     = "squall.local/target:dev"
	probeImage      = "squall.local/probe:dev"
)

// onlyNode is where all targets are, if it is set: a node that is not like the
// others, such as one on a kernel of its own.
var onlyNode = os.Getenv("SQUALL_E2E_NODE")

// world is the cluster under test. It is shared by all tests.
type world struct {
	config   *rest.Config
	kube     *kubernetes.Clientset
	temporal client.Client
	nodes    []string
	hosts    []string // nodes of targets, in turn
	image    string   // of chaos pods
	probes   *promise.Probes
}

var shared = sync.OnceValues(newWorld)

// start returns the cluster, with a probe on every node.
func start(t *testing.T) *world {
	t.Helper()
	w, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func newWorld() (*world, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find the cluster (set KUBECONFIG): %w", err)
	}
	config.QPS = -1
	w := &world{config: config}
	if w.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	address := os.Getenv("TEMPORAL_ADDRESS")
	if address == "" {
		address = client.DefaultHostPort
	}
	if w.temporal, err = client.NewLazyClient(client.Options{HostPort: address, Logger: silent{}}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), inVirtual(2*time.Minute))
	defer cancel()
	if w.image, err = promise.InjectorImage(ctx, w.kube); err != nil {
		return nil, err
	}
	nodes, err := w.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, node := range nodes.Items {
		w.nodes = append(w.nodes, node.Name)
	}
	if len(w.nodes) < 2 {
		return nil, fmt.Errorf("the cluster has %d nodes; the tests need 2", len(w.nodes))
	}
	w.hosts = w.nodes
	if onlyNode != "" {
		w.hosts = []string{onlyNode, onlyNode}
	}
	w.probes, err = promise.StartProbes(ctx, w.kube, probeNamespace, probeImage, w.nodes)
	return w, err
}

// injectors runs the injector's own commands on nodes.
func (w *world) injectors() promise.Injectors {
	return promise.Injectors{Kube: w.kube, Namespace: probeNamespace, Image: w.image}
}

// exec runs a command in a pod and decodes the JSON it prints.
func (w *world) exec(ctx context.Context, into any, namespace, pod string, command ...string) error {
	return w.execIn(ctx, into, namespace, pod, "", command...)
}

// execIn is exec in a container of a pod that has several.
func (w *world) execIn(ctx context.Context, into any, namespace, pod, container string, command ...string) error {
	return promise.Pods{Config: w.config, Kube: w.kube}.Exec(ctx, into, namespace, pod, container, command...)
}

// probe asks the probe on a node.
func (w *world) probe(t *testing.T, into any, node string, command ...string) {
	t.Helper()
	if err := w.probes.Run(t.Context(), into, node, command...); err != nil {
		t.Fatal(err)
	}
}

// chaosPods lists the chaos pods of a disruption.
func (w *world) chaosPods(t *testing.T, d *v1beta1.Disruption) []corev1.Pod {
	t.Helper()
	pods, err := w.kube.CoreV1().Pods(chaosNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: v1beta1.LabelDisruptionUID + "=" + string(d.UID)})
	if err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

// patience is how long a test waits for something. Alone it takes seconds; with
// seven other tests on a busy machine more than a minute has been seen.
var patience = inVirtual(150 * time.Second)

// inVirtual is how long something may take where targets are in a virtual machine
// without help of the processor: programs run ten to twenty times as long there.
func inVirtual(usual time.Duration) time.Duration {
	if os.Getenv("SQUALL_TEST_VIRTUAL") == "" {
		return usual
	}
	return 6 * usual
}

// eventually waits until check returns "". Any other result is the current
// problem, for the message of a test that waited in vain.
func eventually(t *testing.T, check func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		began := time.Now()
		wrong := check()
		if wrong == "" {
			return
		}
		if err := promise.Pause(ctx, restAfter(time.Since(began))); err != nil {
			t.Fatalf("after %s: %s", patience, wrong)
		}
	}
}

// restAfter is the time after a look at the cluster that took so long. Looks take a tenth of
// the time at most: one that runs a program in a pod costs a tenth of a second of
// processor, and six tests look at a time.
func restAfter(look time.Duration) time.Duration {
	return min(max(10*look, 200*time.Millisecond), 2*time.Second)
}

// pause is the time between two looks at the cluster.
func pause(ctx context.Context) error { return promise.Pause(ctx, 200*time.Millisecond) }

// silent keeps Temporal's client from talking into the tests' output.
type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}
