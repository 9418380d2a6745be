package activities

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/testsuite"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apiserver"
)

func TestMain(m *testing.M) { os.Exit(apiserver.Run(m)) }

// cluster is a real API server with activities that work on it. There is no
// kubelet: the test writes what one would report.
type cluster struct {
	*testing.T
	*Activities
	env       *testsuite.TestActivityEnvironment
	counts    counts
	client    rest.Interface
	namespace string
}

func newCluster(t *testing.T) *cluster {
	config := apiserver.Start(t)
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	disruptions, err := status.NewDisruptions(config)
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{T: t}
	c.client, err = status.NewClient(config)
	c.must(err)
	c.namespace = c.makeNamespace(kube, "shop-")
	chaos := c.makeNamespace(kube, "chaos-")
	pods, err := chaospod.NewWatch(kube, chaos)
	if err != nil {
		t.Fatal(err)
	}
	go pods.Run(t.Context())
	if err := pods.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	records := targets.NewWatch(kube, chaos)
	go records.Run(t.Context())
	if err := records.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Activities = &Activities{Kube: kube, Disruptions: disruptions, ChaosPods: pods, Targets: targets.NewStore(kube, chaos, records, 8), Namespace: chaos, Builder: chaospod.Builder{Namespace: chaos, Image: "squall:test"}, Parallel: 8}
	c.counts = counts{mu: &sync.Mutex{}, by: map[string]int64{}}
	c.env = c.newWorker()
	return c
}

// newWorker carries out the cluster's activities, one at a time.
func (c *cluster) newWorker() *testsuite.TestActivityEnvironment {
	var suite testsuite.WorkflowTestSuite
	suite.SetMetricsHandler(c.counts)
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(c.Activities)
	env.SetTestTimeout(time.Minute)
	return env
}

func (c *cluster) makeNamespace(kube kubernetes.Interface, prefix string) string {
	made, err := kube.CoreV1().Namespaces().Create(c.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}, metav1.CreateOptions{})
	c.must(err)
	return made.Name
}

func (c *cluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// counts is a metrics handler that keeps counters, by name and tags.
type counts struct {
	client.MetricsHandler
	mu   *sync.Mutex
	by   map[string]int64
	tags string
}

func (m counts) WithTags(tags map[string]string) client.MetricsHandler {
	if what := tags["what"]; what != "" {
		m.tags = "{" + what + "}"
	}
	return m
}

func (m counts) Counter(name string) client.MetricsCounter { return counter{m, name + m.tags} }
func (m counts) Gauge(string) client.MetricsGauge          { return client.MetricsNopHandler.Gauge("") }
func (m counts) Timer(string) client.MetricsTimer          { return client.MetricsNopHandler.Timer("") }

func (m counts) of(name string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.by[name]
}

type counter struct {
	counts
	name string
}

func (c counter) Inc(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by[c.name] += n
}

func exited(code int32, reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}}
}

// do runs an activity as a worker would.
func do[T any](c *cluster, activity any, input any) T {
	c.Helper()
	value, err := c.env.ExecuteActivity(activity, input)
	c.must(err)
	var result T
	if value.HasValue() {
		c.must(value.Get(&result))
	}
	return result
}

// disruption creates one, with the changes a test wants.
func (c *cluster) disruption(name string, change func(*v1beta1.DisruptionSpec)) Ref {
	c.Helper()
	count := intstr.FromInt32(2)
	d := &v1beta1.Disruption{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: "Disruption"},
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name, Finalizers: []string{v1beta1.DisruptionFinalizer}},
		Spec: v1beta1.DisruptionSpec{
			Count: &count, Level: v1beta1.LevelPod, Selector: map[string]string{"app": "web"},
			Duration: &v1beta1.Duration{Duration: time.Hour},
			Faults:   v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}},
		},
	}
	if change != nil {
		change(&d.Spec)
	}
	created := &v1beta1.Disruption{}
	c.must(c.client.Post().Namespace(c.namespace).Resource("disruptions").Body(d).Do(c.Context()).Into(created))
	return created.Ref()
}

func (c *cluster) get(ref Ref) *v1beta1.Disruption {
	c.Helper()
	d, err := c.Disruptions.Get(c.Context(), ref)
	c.must(err)
	return d
}

// targets makes running pods that the usual selector matches.
func (c *cluster) targets(n int, labels map[string]string) []*corev1.Pod {
	c.Helper()
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "web-", Namespace: c.namespace, Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{NodeName: fmt.Sprintf("node-%d", i), Containers: []corev1.Container{{Name: "main", Image: "i"}}},
		}
		for key, value := range labels {
			pod.Labels[key] = value
		}
		created, err := c.Kube.CoreV1().Pods(c.namespace).Create(c.Context(), pod, metav1.CreateOptions{})
		c.must(err)
		created.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", ContainerID: "containerd://abc", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}}
		pods[i], err = c.Kube.CoreV1().Pods(c.namespace).UpdateStatus(c.Context(), created, metav1.UpdateOptions{})
		c.must(err)
	}
	return pods
}

// becomes writes a chaos pod's status as a kubelet would.
func (c *cluster) becomes(pod corev1.Pod, phase corev1.PodPhase, state corev1.ContainerState, ready corev1.ConditionStatus) {
	c.Helper()
	live, err := c.Kube.CoreV1().Pods(c.Namespace).Get(c.Context(), pod.Name, metav1.GetOptions{})
	c.must(err)
	live.Status.Phase = phase
	live.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "injector", State: state}}
	live.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.Now()}}
	_, err = c.Kube.CoreV1().Pods(c.Namespace).UpdateStatus(c.Context(), live, metav1.UpdateOptions{})
	c.must(err)
}

func (c *cluster) chaosPods(ref Ref) []corev1.Pod {
	c.Helper()
	pods, err := c.listChaosPods(c.Context(), Shard{ref, AllShards})
	c.must(err)
	return pods
}

// started prepares a disruption, chooses its targets and creates its chaos pods.
func (c *cluster) started(name string, change func(*v1beta1.DisruptionSpec)) Ref {
	c.Helper()
	ref := c.disruption(name, change)
	do[Plan](c, c.Prepare, ref)
	for _, number := range do[Selection](c, c.SelectTargets, SelectInput{Disruption: ref}).Added {
		do[CreateResult](c, c.CreateChaosPods, Shard{ref, number})
	}
	return ref
}

// eventually waits for a condition of the world.
func (c *cluster) eventually(what string, holds func() bool) {
	c.Helper()
	deadline := time.After(20 * time.Second)
	for !holds() {
		select {
		case <-deadline:
			c.Fatalf("not within 20 s: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (c *cluster) events(reason string) []corev1.Event {
	c.Helper()
	list, err := c.Kube.CoreV1().Events(c.namespace).List(context.Background(), metav1.ListOptions{})
	c.must(err)
	var found []corev1.Event
	for _, event := range list.Items {
		if event.Reason == reason {
			found = append(found, event)
		}
	}
	return found
}

func (c *cluster) wantCondition(ref Ref, conditionType string, status metav1.ConditionStatus, message string) {
	c.Helper()
	for _, condition := range c.get(ref).Status.Conditions {
		if condition.Type == conditionType && condition.Status == status && strings.Contains(condition.Message, message) {
			return
		}
	}
	c.Errorf("conditions = %+v, want %s=%s with %q", c.get(ref).Status.Conditions, conditionType, status, message)
}

// wantEvent wants one event of the reason, with all these words in its message.
func (c *cluster) wantEvent(reason string, words ...string) {
	c.Helper()
	events := c.events(reason)
	if len(events) != 1 {
		c.Errorf("%d events %s, want 1", len(events), reason)
		return
	}
	for _, word := range words {
		if !strings.Contains(events[0].Message, word) {
			c.Errorf("event %s says %q, want it to name %q", reason, events[0].Message, word)
		}
	}
}

// through lets the activities' client call a function for each request, which
// may answer it; nil sends the request on.
func (c *cluster) through(answer func(*http.Request) (*http.Response, error)) {
	c.Helper()
	config := apiserver.Start(c.T)
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if response, err := answer(r); response != nil || err != nil {
				return response, err
			}
			return next.RoundTrip(r)
		})
	})
	var err error
	c.Kube, err = kubernetes.NewForConfig(config)
	c.must(err)
}
