package bench

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/world"
)

const (
	chaosNamespace = "squall-chaos"
	howToInstall   = "give KUBECONFIG of a cluster with Squall installed, or run `make demo`, which leaves one that `make bench` finds"
)

// cluster measures what only real kubelets can show: from a chaos pod that is
// ready to a status that says so, as a watch on both sees it.
func cluster(t *testing.T, commit string) {
	c, err := findCluster(t)
	if err != nil {
		t.Skipf("real kubelets are not measured: %v; %s", err, howToInstall)
	}
	where := fmt.Sprintf("%s %d nodes, real kubelets.", machine(commit), c.nodes)
	const many = 10
	c.targets(t, many)
	c.disrupt(t, 1) // the first on a node is slower: nobody measures it
	one, ten := &delays{}, &delays{}
	for i := range 30 {
		c.measure(t, one, 1)
		say("one target, run %d of 30: %s", i+1, took(one.each[len(one.each)-1]))
	}
	kubelets := c.kubelets()
	for i := range 6 {
		c.measure(t, ten, many)
		say("%d targets, run %d of 6: the last %s", many, i+1, took(ten.last[len(ten.last)-1]))
	}
	s := section{name: "cluster", notes: []string{where}}
	delay := table{head: []string{"chaos pod ready to `Injected` in status", "p50", "p95", "longest", "chaos pods"}}
	for _, part := range []struct {
		name string
		all  []time.Duration
	}{
		{"disruptions of one target, one after the other", one.each},
		{fmt.Sprintf("disruptions of %d targets, each of them", many), ten.each},
		{fmt.Sprintf("disruptions of %d targets, the last of them to the whole", many), ten.last},
	} {
		p95 := quantile(part.all, 0.95)
		s.lines = append(s.lines, line{what: "chaos pod ready to `Injected`, p95: " + part.name, value: float64(p95.Milliseconds()), most: 200, below: true, unit: "ms"})
		delay.add(part.name, took(median(part.all)), took(p95), took(quantile(part.all, 1)), fmt.Sprint(len(part.all)))
	}
	s.tables = []table{delay, kubelets}
	publish(t, s)
}

// kubelets says what kubelets took for the chaos pods so far.
func (c *realCluster) kubelets() table {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := table{title: "What the kubelet takes for the chaos pod of a disruption alone", head: []string{"", "p50", "p95", "longest"}}
	for _, step := range []struct {
		name string
		took map[types.UID]time.Duration
	}{{"created to ready", c.started}, {"deleted to ended", c.ended}} {
		all := slices.Collect(maps.Values(step.took))
		t.add(step.name, took(median(all)), took(quantile(all, 0.95)), took(quantile(all, 1)))
	}
	return t
}

// delays are those of all chaos pods, and from the last chaos pod of a
// disruption to the whole of it.
type delays struct{ each, last []time.Duration }

// realCluster is one with Squall, and what two watches have seen of it.
type realCluster struct {
	client    client.Client
	namespace string
	nodes     int
	disrupted int

	mu sync.Mutex
	// ready says when a chaos pod was first seen ready, told when the status
	// first said that it is, and whole when it said so of all targets.
	ready, told map[string]time.Time // by injection
	whole       map[types.UID]time.Time
	gone        map[types.UID]bool
	// Of each chaos pod: made says when it was first seen, going when it was
	// first seen deleted; started and ended say how long a kubelet took from then.
	made, going    map[types.UID]time.Time
	started, ended map[types.UID]time.Duration
}

// injection names a target that a disruption injects.
func injection(disruption types.UID, target string) string { return string(disruption) + "/" + target }

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
	c := &realCluster{ready: map[string]time.Time{}, told: map[string]time.Time{}, whole: map[types.UID]time.Time{}, gone: map[types.UID]bool{},
		made: map[types.UID]time.Time{}, going: map[types.UID]time.Time{}, started: map[types.UID]time.Duration{}, ended: map[types.UID]time.Duration{}}
	if c.client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
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
	c.nodes = len(nodes.Items)
	ours := labels.Everything()
	if mark, err := labels.NewRequirement(v1beta1.LabelDisruptionUID, "exists", nil); err == nil {
		ours = ours.Add(*mark)
	}
	watched, err := cache.New(config, cache.Options{Scheme: scheme, ByObject: map[client.Object]cache.ByObject{
		&corev1.Pod{}: {Label: ours, Namespaces: map[string]cache.Config{chaosNamespace: {}}},
	}})
	if err != nil {
		return nil, err
	}
	go func() { _ = watched.Start(t.Context()) }()
	watch(t, watched, &corev1.Pod{}, c.seePod)
	watch(t, watched, &v1beta1.Disruption{}, c.seeDisruption)
	return c, nil
}

// watch calls see for whatever happens to the objects of a kind.
func watch[T client.Object](t *testing.T, watched cache.Cache, kind T, see func(object T, gone bool)) {
	t.Helper()
	informer, err := watched.GetInformer(t.Context(), kind)
	must(t, err)
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { see(o.(T), false) },
		UpdateFunc: func(_, o any) { see(o.(T), false) },
		DeleteFunc: func(o any) {
			if object, ok := o.(T); ok {
				see(object, true)
			}
		},
	})
	must(t, err)
}

func (c *realCluster) seePod(pod *corev1.Pod, _ bool) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	first(c.made, pod.UID, now)
	if pod.DeletionTimestamp != nil {
		first(c.going, pod.UID, now)
	}
	if pod.Status.Phase == corev1.PodSucceeded && pod.DeletionTimestamp != nil {
		first(c.ended, pod.UID, now.Sub(c.going[pod.UID]))
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			first(c.ready, injection(types.UID(pod.Labels[v1beta1.LabelDisruptionUID]), pod.Labels[v1beta1.LabelTarget]), now)
			first(c.started, pod.UID, now.Sub(c.made[pod.UID]))
		}
	}
}

func (c *realCluster) seeDisruption(d *v1beta1.Disruption, gone bool) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for target, kinds := range d.Status.TargetInjections {
		for _, i := range kinds { // one
			if i.InjectionStatus == v1beta1.Injected {
				first(c.told, injection(d.UID, target), now)
			}
		}
	}
	if d.Status.InjectionStatus == v1beta1.Injected {
		first(c.whole, d.UID, now)
	}
	c.gone[d.UID] = gone
}

// first notes what was seen the first time.
func first[K comparable, V any](seen map[K]V, key K, what V) {
	if _, there := seen[key]; !there {
		seen[key] = what
	}
}

// targets starts pods to disrupt, in a namespace that goes with the test.
func (c *realCluster) targets(t *testing.T, n int) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "squall-bench-"}}
	must(t, c.client.Create(t.Context(), namespace))
	c.namespace = namespace.Name
	t.Cleanup(func() { _ = c.client.Delete(context.Background(), namespace) })
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
	say("%d targets start", n)
	world.Eventually(t, 3*time.Minute, "the targets run", func() bool {
		<-time.After(200 * time.Millisecond) // this one asks the API server
		var pods corev1.PodList
		must(t, c.client.List(t.Context(), &pods, client.InNamespace(c.namespace)))
		running := 0
		for _, pod := range pods.Items {
			if pod.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		return running == n
	})
}

// disrupt lets a disruption of n targets come and go, and returns its UID. On
// the targets it is hardly felt.
func (c *realCluster) disrupt(t *testing.T, n int) types.UID {
	t.Helper()
	c.disrupted++
	count := intstr.FromInt(n)
	d := &v1beta1.Disruption{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: fmt.Sprintf("bench-%d", c.disrupted)},
		Spec: v1beta1.DisruptionSpec{
			Count: &count, Level: v1beta1.LevelPod, Selector: map[string]string{"app": "target"},
			Duration: &v1beta1.Duration{Duration: 10 * time.Minute},
			Faults:   v1beta1.Faults{Network: &v1beta1.NetworkDisruption{Drop: 1}},
		},
	}
	must(t, c.client.Create(t.Context(), d))
	t.Cleanup(func() { _ = c.client.Delete(context.Background(), d) })
	world.Eventually(t, 2*time.Minute, d.Name+" is injected", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return !c.whole[d.UID].IsZero()
	})
	if err := c.client.Delete(t.Context(), d); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	world.Eventually(t, 2*time.Minute, d.Name+" is gone", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.gone[d.UID]
	})
	return d.UID
}

// measure adds the delays of a disruption of n targets.
func (c *realCluster) measure(t *testing.T, to *delays, n int) {
	t.Helper()
	uid := c.disrupt(t, n)
	c.mu.Lock()
	defer c.mu.Unlock()
	var last time.Time
	for i := range 10 { // all targets
		key := injection(uid, fmt.Sprintf("target-%d", i))
		told, injected := c.told[key]
		if !injected {
			continue
		}
		n--
		ready := c.ready[key]
		if ready.IsZero() {
			t.Fatalf("target-%d is injected, and its chaos pod was never seen ready", i)
		}
		to.each = append(to.each, told.Sub(ready))
		if ready.After(last) {
			last = ready
		}
	}
	if n != 0 {
		t.Errorf("%d targets more were injected than status listed", n)
	}
	to.last = append(to.last, c.whole[uid].Sub(last))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
