//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"

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
	hosts    []string          // nodes of targets, in turn
	image    string            // of chaos pods
	probes   map[string]string // probe pod by node
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
	w := &world{config: config, probes: map[string]string{}}
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
	return w, w.startProbes(ctx)
}

// startProbes runs a privileged pod on every node, which sees what is in force.
func (w *world) startProbes(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: probeNamespace}}
	if _, err := w.kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	labels, yes := map[string]string{"app": "probe"}, true
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			HostPID:     true, HostNetwork: true, TerminationGracePeriodSeconds: new(int64),
			Containers: []corev1.Container{{
				Name: "probe", Image: probeImage, ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"serve"},
				SecurityContext: &corev1.SecurityContext{Privileged: &yes},
				VolumeMounts:    []corev1.VolumeMount{{Name: "cgroup", MountPath: "/sys/fs/cgroup"}, {Name: "journal", MountPath: "/var/lib/squall"}},
			}},
			Volumes: promise.NodeVolumes(),
		}},
	}}
	if _, err := w.kube.AppsV1().DaemonSets(probeNamespace).Create(ctx, set, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	for len(w.probes) < len(w.nodes) {
		pods, err := w.kube.CoreV1().Pods(probeNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app=probe"})
		if err != nil {
			return fmt.Errorf("wait for the probes: %w", err)
		}
		for _, pod := range pods.Items {
			if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
				w.probes[pod.Spec.NodeName] = pod.Name
			}
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("wait for the probes: %w", err)
		}
	}
	return nil
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
	request := w.kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: container, Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(w.config, http.MethodGet, request.URL().String())
	if err != nil {
		return err
	}
	var out, said strings.Builder
	if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: &said}); err != nil {
		return fmt.Errorf("%s in pod %s/%s: %w: %s", strings.Join(command, " "), namespace, pod, err, said.String())
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal([]byte(out.String()), into); err != nil {
		return fmt.Errorf("%s in pod %s/%s said %q: %w", strings.Join(command, " "), namespace, pod, out.String(), err)
	}
	return nil
}

// probe asks the probe on a node.
func (w *world) probe(t *testing.T, into any, node string, command ...string) {
	t.Helper()
	if err := w.exec(t.Context(), into, probeNamespace, w.probes[node], append([]string{"/probe"}, command...)...); err != nil {
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

// eventually waits until check returns "". What it returns else is what is
// wrong now, for the message of a test that waited in vain.
func eventually(t *testing.T, check func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		wrong := check()
		if wrong == "" {
			return
		}
		if err := pause(ctx); err != nil {
			t.Fatalf("after %s: %s", patience, wrong)
		}
	}
}

// pause is the time between two looks at the cluster.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return errors.Join(ctx.Err(), context.Cause(ctx))
	case <-time.After(200 * time.Millisecond):
		return nil
	}
}

// silent keeps Temporal's client from talking into the tests' output.
type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}
