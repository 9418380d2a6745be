package scale

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	temporalclient "go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apiserver"
	"github.com/squall-chaos/squall/test/temporalserver"
)

func TestMain(m *testing.M) { os.Exit(apiserver.Run(m)) }

// concurrency is that of one worker with one large disruption: 32 calls for
// each of five shards.
const concurrency = 160

// world is everything that runs.
type world struct {
	*testing.T
	kube        kubernetes.Interface
	disruptions client.Client
	server      *temporalserver.Server
	temporal    temporalclient.Client
	meter       *meter
	kubelets    *kubelets
	worker      *program
	bridge      *program
	// shop is the namespace of the targets, chaos that of the chaos pods.
	shop, chaos string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	server := temporalserver.New(t).Start()
	config := apiserver.Start(t)
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	w := &world{T: t, server: server}
	w.connect(config)
	w.shop, w.chaos = w.newNamespace("shop-"), w.newNamespace("chaos-")
	kubelets, err := startKubelets(t.Context(), w.kube)
	w.must(err)
	w.kubelets = kubelets
	w.startPrograms(kubeconfigFile(t, config))
	return w
}

// connect makes the test's own clients, whose calls are not Squall's.
func (w *world) connect(config *rest.Config) {
	w.Helper()
	var err error
	bare, err := kubernetes.NewForConfig(config)
	w.must(err)
	w.meter = &meter{kube: bare, own: calls{}}
	counted := rest.CopyConfig(config)
	counted.Wrap(w.meter.wrap)
	scheme := runtime.NewScheme()
	w.must(v1beta1.AddToScheme(scheme))
	w.disruptions, err = client.New(counted, client.Options{Scheme: scheme})
	w.must(err)
	counted.ContentType = runtime.ContentTypeProtobuf
	counted.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	w.kube, err = kubernetes.NewForConfig(counted)
	w.must(err)
}

func (w *world) startPrograms(kubeconfig string) {
	w.Helper()
	programs := build(w.T, "worker", "crdbridge")
	env := []string{
		"KUBECONFIG=" + kubeconfig, "SQUALL_TEMPORAL_ADDRESS=" + w.server.Address, "SQUALL_CHAOS_NAMESPACE=" + w.chaos,
		"SQUALL_LEADER_ELECTION=false", "SQUALL_METRICS_ADDRESS=0",
	}
	w.temporal = w.server.Dial(temporalclient.DefaultNamespace)
	w.worker = (&program{t: w.T, name: "the worker", path: filepath.Join(programs, "worker"), env: append(env, "SQUALL_HEALTH_ADDRESS=127.0.0.1:0")}).start()
	w.bridge = (&program{t: w.T, name: "the bridge", path: filepath.Join(programs, "crdbridge"), env: append(env, "SQUALL_HEALTH_ADDRESS=0")}).start()
}

func (w *world) newNamespace(prefix string) string {
	w.Helper()
	made, err := w.kube.CoreV1().Namespaces().Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}, metav1.CreateOptions{})
	w.must(err)
	return made.Name
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// each runs f for 0 to n-1 as concurrently as a worker would, and waits.
func (w *world) each(n int, f func(i int) error) {
	w.Helper()
	var group errgroup.Group
	group.SetLimit(concurrency)
	for i := range n {
		group.Go(func() error { return f(i) })
	}
	w.must(group.Wait())
}

// targets makes n running pods on 50 nodes that are only names. Some of them
// carry the label few.
func (w *world) targets(n, few int) {
	w.Helper()
	w.each(n, func(i int) error {
		pod := target(fmt.Sprintf("web-%04d", i), "web", i%50)
		if i < few {
			pod.Labels["few"] = "yes"
		}
		_, err := w.kube.CoreV1().Pods(w.shop).Create(w.Context(), pod, metav1.CreateOptions{})
		return err
	})
	eventually(w.T, 2*time.Minute, "the targets run", func() bool { return w.kubelets.ready(w.shop) == n })
}

func target(name, app string, node int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{NodeName: fmt.Sprintf("node-%02d", node), Containers: []corev1.Container{{Name: "main", Image: "web"}}},
	}
}

// disrupt begins a disruption of count targets.
func (w *world) disrupt(name string, count int, selector map[string]string, change ...func(*v1beta1.DisruptionSpec)) *v1beta1.Disruption {
	w.Helper()
	number := intstr.FromInt(count)
	d := &v1beta1.Disruption{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.shop, Name: name},
		Spec: v1beta1.DisruptionSpec{
			Count: &number, Level: v1beta1.LevelPod, Selector: selector,
			Duration: &v1beta1.Duration{Duration: 20 * time.Minute},
			Faults:   v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}},
		},
	}
	for _, c := range change {
		c(&d.Spec)
	}
	w.must(w.disruptions.Create(w.Context(), d))
	return d
}

// injected waits until all targets of d are injected.
func (w *world) injected(d *v1beta1.Disruption, want string) {
	w.Helper()
	eventually(w.T, 2*time.Minute, d.Name+" is injected, "+want, func() bool {
		w.must(w.disruptions.Get(w.Context(), client.ObjectKeyFromObject(d), d))
		return d.Status.InjectionStatus == v1beta1.Injected && d.Status.Targets == want
	})
}

// delete asks for the end of d and waits until it is gone.
func (w *world) delete(d *v1beta1.Disruption) {
	w.Helper()
	w.must(w.disruptions.Delete(w.Context(), d))
	w.vanishes(d)
}

// vanishes waits until d is gone, and wants nothing left of it (acceptance 6).
func (w *world) vanishes(d *v1beta1.Disruption) {
	w.Helper()
	eventually(w.T, 2*time.Minute, d.Name+" is gone", func() bool {
		return apierrors.IsNotFound(w.disruptions.Get(w.Context(), client.ObjectKeyFromObject(d), &v1beta1.Disruption{}))
	})
	ours := metav1.ListOptions{LabelSelector: v1beta1.LabelDisruptionUID + "=" + string(d.UID)}
	pods, err := w.kube.CoreV1().Pods(w.chaos).List(w.Context(), ours)
	w.must(err)
	records, err := w.kube.CoreV1().ConfigMaps(w.chaos).List(w.Context(), ours)
	w.must(err)
	if len(pods.Items)+len(records.Items) > 0 {
		w.Errorf("%s is gone and left %d chaos pods, %d records", d.Name, len(pods.Items), len(records.Items))
	}
}
