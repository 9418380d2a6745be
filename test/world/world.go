package world

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	temporalclient "go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apiserver"
	"github.com/squall-chaos/squall/test/temporalserver"
)

// programsUser is the user that Squall's programs are.
const programsUser = "squall"

// World is everything that runs, and the test it runs for.
type World struct {
	testing.TB
	// Kube and Disruptions are the test's own clients.
	Kube        kubernetes.Interface
	Disruptions client.Client
	Meter       *Meter
	Kubelets    *Kubelets
	// API leads an administrator to the API server.
	API *rest.Config
	// AuditLog is where that writes down the calls of Squall's programs, which the meter
	// counts, and of the floor, so that these cost the same.
	AuditLog string
	programs *rest.Config // leads Squall's programs there
	floor    kubernetes.Interface
	// Temporal is the server, which may be killed and started again: it keeps
	// its address and what it stored. Workflows is a client of it.
	Temporal  *temporalserver.Server
	Workflows temporalclient.Client
	// Shop is the namespace of the targets, Chaos that of the chaos pods.
	Shop, Chaos string
	// Patience is how long something may take. Two minutes are enough for a
	// thousand targets on a busy machine.
	Patience time.Duration

	seen     cache.Cache // of Disruptions
	binaries string      // directory of the programs, once they are built
}

// Start starts everything but the programs: see Worker and Bridge. A missing part
// of the machine skips the test with the reason, or fails it where nothing may be
// missing (SQUALL_REQUIRE=1).
func Start(t testing.TB) *World {
	t.Helper()
	temporal := temporalserver.New(t)
	w := &World{TB: t, Patience: 2 * time.Minute, API: apiserver.Start(t), Temporal: temporal.Start()}
	w.programs, w.AuditLog = apiserver.StartAudited(t, programsUser)
	w.Meter = &Meter{log: w.AuditLog, calls: Calls{}, last: map[string]time.Time{}}
	w.API.QPS = -1
	w.API.WarningHandler = rest.NoWarnings{}
	w.connect()
	w.Shop, w.Chaos = w.NewNamespace("shop-"), w.NewNamespace("chaos-")
	kubelets, err := startKubelets(t.Context(), w.Kube)
	w.Must(err)
	w.Kubelets = kubelets
	w.Workflows = w.Temporal.Dial(temporalclient.DefaultNamespace)
	return w
}

// In is the same world for a part of the test.
func (w *World) In(t testing.TB) *World {
	here := *w
	here.TB = t
	return &here
}

func (w *World) connect() {
	w.Helper()
	scheme := runtime.NewScheme()
	w.Must(v1beta1.AddToScheme(scheme))
	var err error
	w.Disruptions, err = client.New(w.API, client.Options{Scheme: scheme})
	w.Must(err)
	log.SetLogger(logr.Discard())
	shared := true // no test changes the cached objects
	w.seen, err = cache.New(w.API, cache.Options{Scheme: scheme, DefaultUnsafeDisableDeepCopy: &shared})
	w.Must(err)
	go func() { _ = w.seen.Start(w.Context()) }()
	_, err = w.seen.GetInformer(w.Context(), &v1beta1.Disruption{})
	w.Must(err)
	w.Kube = w.client(w.API)
	floor, _ := apiserver.StartAudited(w, "floor")
	floor.QPS, floor.WarningHandler = w.API.QPS, w.API.WarningHandler
	w.floor = w.client(floor)
}

// client uses protobuf for pods, as Squall's programs do.
func (w *World) client(config *rest.Config) kubernetes.Interface {
	w.Helper()
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	kube, err := kubernetes.NewForConfig(config)
	w.Must(err)
	return kube
}

// NewNamespace makes a namespace of its own for something.
func (w *World) NewNamespace(prefix string) string {
	w.Helper()
	made, err := w.Kube.CoreV1().Namespaces().Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}, metav1.CreateOptions{})
	w.Must(err)
	return made.Name
}

// Each runs f for 0 to n-1, as many at once as given, and waits.
func (w *World) Each(n, atOnce int, f func(i int) error) {
	w.Helper()
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i := range n {
		group.Go(func() error { return f(i) })
	}
	w.Must(group.Wait())
}

// Targets makes running pods with the label app: web, until there are n of
// them, on 50 nodes that are only names. The first 150 carry few: "yes" too.
func (w *World) Targets(n int) {
	w.Helper()
	there := w.Kubelets.There(w.Shop)
	w.Each(max(0, n-there), most, func(i int) error {
		i += there
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%05d", i), Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{NodeName: node(i), Containers: []corev1.Container{{Name: "main", Image: "web"}}},
		}
		if i < 150 {
			pod.Labels["few"] = "yes"
		}
		_, err := w.Kube.CoreV1().Pods(w.Shop).Create(w.Context(), pod, metav1.CreateOptions{})
		return err
	})
	Eventually(w, w.Patience, "the targets run", func() bool { return w.Kubelets.Ready(w.Shop) >= n })
}

func node(i int) string { return fmt.Sprintf("node-%02d", i%50) }
