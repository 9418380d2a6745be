// Package apicluster is a real API server with what activities work on: chaos
// pods, records, Disruptions. There is no kubelet: it plays what one would do.
package apicluster

import (
	"context"
	"fmt"
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
	"github.com/squall-chaos/squall/activities/policy"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apiserver"
	"github.com/squall-chaos/squall/test/objects"
)

// Cluster is the API server of a test, and clients for it.
type Cluster struct {
	*testing.T
	// Client and Plain are clients for the API, Plain for Squall's own resources.
	Client kubernetes.Interface
	Plain  rest.Interface
	// Objects, Watch and Store are what activities work with.
	Objects *status.Disruptions
	Watch   *chaospod.Watch
	Store   *targets.Store
	// Policies are those of the API server, which tests share.
	Policies *policy.Watch
	// Shop is the namespace of targets, Chaos that of chaos pods.
	Shop, Chaos string
	Counts      Counts
}

// New starts an API server, or takes the one that runs, with namespaces of its own.
func New(t *testing.T) *Cluster {
	config := apiserver.Start(t)
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	c := &Cluster{T: t, Counts: Counts{mu: &sync.Mutex{}, by: map[string]int64{}}}
	var err error
	c.Client, err = kubernetes.NewForConfig(config)
	c.Must(err)
	c.Objects, err = status.NewDisruptions(config)
	c.Must(err)
	c.Plain, err = status.NewClient(config)
	c.Must(err)
	c.Shop, c.Chaos = c.makeNamespace("shop-"), c.makeNamespace("chaos-")
	c.Watch, err = chaospod.NewWatch(c.Client, c.Chaos)
	c.Must(err)
	go c.Watch.Run(t.Context())
	c.Must(c.Watch.Sync(t.Context()))
	c.Policies, err = policy.NewWatch(c.Plain)
	c.Must(err)
	go c.Policies.Run(t.Context())
	c.Must(c.Policies.Sync(t.Context()))
	claims := targets.NewWatch(c.Client, c.Chaos)
	go claims.Run(t.Context())
	c.Must(claims.Sync(t.Context()))
	c.Store = targets.NewStore(c.Client, c.Chaos, claims, 8)
	return c
}

// Builds makes chaos pods in this cluster.
func (c *Cluster) Builds() chaospod.Builder {
	return chaospod.Builder{Namespace: c.Chaos, Image: "squall:test"}
}

// NewWorker carries out activities, one at a time.
func (c *Cluster) NewWorker(activities ...any) *testsuite.TestActivityEnvironment {
	var suite testsuite.WorkflowTestSuite
	suite.SetMetricsHandler(c.Counts)
	env := suite.NewTestActivityEnvironment()
	for _, some := range activities {
		env.RegisterActivity(some)
	}
	env.SetTestTimeout(time.Minute)
	return env
}

func (c *Cluster) makeNamespace(prefix string) string {
	made, err := c.Client.CoreV1().Namespaces().Create(c.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}, metav1.CreateOptions{})
	c.Must(err)
	return made.Name
}

// Must ends the test for an error.
func (c *Cluster) Must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// Counts is a metrics handler that keeps counters, by name and tags.
type Counts struct {
	client.MetricsHandler
	mu   *sync.Mutex
	by   map[string]int64
	tags string
}

// WithTags is part of the metrics handler.
func (m Counts) WithTags(tags map[string]string) client.MetricsHandler {
	if what := tags["what"]; what != "" {
		m.tags = "{" + what + "}"
	}
	return m
}

// Counter is part of the metrics handler.
func (m Counts) Counter(name string) client.MetricsCounter { return counter{m, name + m.tags} }

// Gauge is part of the metrics handler.
func (m Counts) Gauge(string) client.MetricsGauge { return client.MetricsNopHandler.Gauge("") }

// Timer is part of the metrics handler.
func (m Counts) Timer(string) client.MetricsTimer { return client.MetricsNopHandler.Timer("") }

// Of is how often the counter was raised, with its tags in braces.
func (m Counts) Of(name string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.by[name]
}

type counter struct {
	Counts
	name string
}

func (c counter) Inc(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by[c.name] += n
}

// Exited is the state of an injector that has ended.
func Exited(code int32, reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}}
}

// Do runs an activity as a worker would.
func Do[T any](c *Cluster, env *testsuite.TestActivityEnvironment, activity, input any) T {
	c.Helper()
	value, err := env.ExecuteActivity(activity, input)
	c.Must(err)
	var result T
	if value.HasValue() {
		c.Must(value.Get(&result))
	}
	return result
}

// Disruption creates one, with the changes a test wants.
func (c *Cluster) Disruption(name string, change func(*v1beta1.DisruptionSpec)) v1beta1.DisruptionRef {
	c.Helper()
	d := objects.Disruption(c.Shop, name, intstr.FromInt32(2))
	d.TypeMeta = metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: "Disruption"}
	d.Finalizers = []string{v1beta1.DisruptionFinalizer}
	if change != nil {
		change(&d.Spec)
	}
	created := &v1beta1.Disruption{}
	c.Must(c.Plain.Post().Namespace(c.Shop).Resource("disruptions").Body(d).Do(c.Context()).Into(created))
	return created.Ref()
}

// Get reads a Disruption.
func (c *Cluster) Get(ref v1beta1.DisruptionRef) *v1beta1.Disruption {
	c.Helper()
	d, err := c.Objects.Get(c.Context(), ref)
	c.Must(err)
	return d
}

// MakeTargets makes running pods that the usual selector matches.
func (c *Cluster) MakeTargets(n int, labels map[string]string) []*corev1.Pod {
	c.Helper()
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "web-", Namespace: c.Shop, Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{NodeName: fmt.Sprintf("node-%d", i), Containers: []corev1.Container{{Name: "main", Image: "i"}}},
		}
		for key, value := range labels {
			pod.Labels[key] = value
		}
		created, err := c.Client.CoreV1().Pods(c.Shop).Create(c.Context(), pod, metav1.CreateOptions{})
		c.Must(err)
		created.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", ContainerID: "containerd://abc", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}}
		pods[i], err = c.Client.CoreV1().Pods(c.Shop).UpdateStatus(c.Context(), created, metav1.UpdateOptions{})
		c.Must(err)
	}
	return pods
}

// Becomes writes a chaos pod's status as a kubelet would.
func (c *Cluster) Becomes(pod corev1.Pod, phase corev1.PodPhase, state corev1.ContainerState, ready corev1.ConditionStatus) {
	c.Helper()
	c.BecomesAt(pod, phase, state, ready, time.Now())
}

// BecomesAt is Becomes for a readiness since another time.
func (c *Cluster) BecomesAt(pod corev1.Pod, phase corev1.PodPhase, state corev1.ContainerState, ready corev1.ConditionStatus, since time.Time) {
	c.Helper()
	live, err := c.Client.CoreV1().Pods(c.Chaos).Get(c.Context(), pod.Name, metav1.GetOptions{})
	c.Must(err)
	live.Status.Phase = phase
	live.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "injector", State: state}}
	live.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.NewTime(since)}}
	_, err = c.Client.CoreV1().Pods(c.Chaos).UpdateStatus(c.Context(), live, metav1.UpdateOptions{})
	c.Must(err)
}

// ChaosPodsOf are the chaos pods of a disruption.
func (c *Cluster) ChaosPodsOf(ref v1beta1.DisruptionRef) []corev1.Pod {
	c.Helper()
	pods, err := c.Client.CoreV1().Pods(c.Chaos).List(c.Context(), metav1.ListOptions{LabelSelector: chaospod.Selector(ref, chaospod.AllShards)})
	c.Must(err)
	return pods.Items
}

// Eventually waits for a condition of the world.
func (c *Cluster) Eventually(what string, holds func() bool) {
	c.Helper()
	deadline := time.After(time.Minute)
	for !holds() {
		select {
		case <-deadline:
			c.Fatalf("not within a minute: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// EventsOf are the events for this reason in the namespace of targets.
func (c *Cluster) EventsOf(reason string) []corev1.Event {
	c.Helper()
	list, err := c.Client.CoreV1().Events(c.Shop).List(context.Background(), metav1.ListOptions{})
	c.Must(err)
	var found []corev1.Event
	for _, event := range list.Items {
		if event.Reason == reason {
			found = append(found, event)
		}
	}
	return found
}

// WantCondition wants a Disruption to have this condition.
func (c *Cluster) WantCondition(ref v1beta1.DisruptionRef, conditionType string, status metav1.ConditionStatus, message string) {
	c.Helper()
	for _, condition := range c.Get(ref).Status.Conditions {
		if condition.Type == conditionType && condition.Status == status && strings.Contains(condition.Message, message) {
			return
		}
	}
	c.Errorf("conditions = %+v, want %s=%s with %q", c.Get(ref).Status.Conditions, conditionType, status, message)
}
