package activities

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"go.temporal.io/sdk/testsuite"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/choose"
	"github.com/squall-chaos/squall/activities/cloud"
	"github.com/squall-chaos/squall/activities/cluster"
	"github.com/squall-chaos/squall/activities/inject"
	"github.com/squall-chaos/squall/activities/prepare"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apicluster"
	"github.com/squall-chaos/squall/test/apiserver"
)

func TestMain(m *testing.M) { os.Exit(apiserver.Run(m)) }

// testCluster is an API server with activities that work on it.
type testCluster struct {
	*apicluster.Cluster
	*Activities
	env *testsuite.TestActivityEnvironment
}

func newCluster(t *testing.T) *testCluster {
	world := apicluster.New(t)
	acts := New(&cluster.Cluster{
		Kube: world.Client, Disruptions: world.Objects, ChaosPods: world.Watch, Targets: world.Store,
		Namespace: world.Chaos, Builder: world.Builds(), Parallel: 8,
	})
	acts.Rules.Policies = world.Policies
	acts.Clouds = &cloud.Clouds{Kube: world.Client, ConfigMap: types.NamespacedName{Namespace: world.Chaos, Name: "cloud-ranges"}}
	return &testCluster{world, acts, world.NewWorker(acts)}
}

// do runs an activity as a worker would.
func do[T any](c *testCluster, activity, input any) T {
	c.Helper()
	return apicluster.Do[T](c.Cluster, c.env, activity, input)
}

// started prepares a disruption, chooses its targets and creates its chaos pods.
func (c *testCluster) started(name string, change func(*v1beta1.DisruptionSpec)) v1beta1.DisruptionRef {
	c.Helper()
	ref := c.Disruption(name, change)
	do[prepare.Plan](c, c.Prepare, ref)
	for _, number := range do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref}).Added {
		do[inject.CreateResult](c, c.CreateChaosPods, inject.CreateInput{Shard: chaospod.Shard{Disruption: ref, Number: number}})
	}
	return ref
}

// injected starts a disruption whose injectors run and report that they inject.
func (c *testCluster) injected(name string, change func(*v1beta1.DisruptionSpec)) v1beta1.DisruptionRef {
	c.Helper()
	ref := c.started(name, change)
	for _, pod := range c.ChaosPodsOf(ref) {
		c.Becomes(pod, corev1.PodRunning, injectorRuns, corev1.ConditionTrue)
	}
	return ref
}

// removes removes a chaos pod with its finalizers.
func (c *testCluster) removes(pod *corev1.Pod) {
	c.Helper()
	now, pods := int64(0), c.Kube.CoreV1().Pods(c.Namespace)
	_, err := pods.Patch(c.Context(), pod.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	c.Must(err)
	c.Must(pods.Delete(c.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
}

// wantEvent wants one event with the reason, with all these parts in its message.
func (c *testCluster) wantEvent(reason string, parts ...string) {
	c.Helper()
	events := c.EventsOf(reason)
	if len(events) != 1 {
		c.Errorf("%d events %s, want 1", len(events), reason)
		return
	}
	for _, part := range parts {
		if !strings.Contains(events[0].Message, part) {
			c.Errorf("event %s is %q, want %q in it", reason, events[0].Message, part)
		}
	}
}

// through has a function called for each request of the activities' client. The function
// may answer it; nil passes the request on.
func (c *testCluster) through(answer func(*http.Request) (*http.Response, error)) {
	c.Helper()
	c.around(func(r *http.Request, server http.RoundTripper) (*http.Response, error) {
		if response, err := answer(r); response != nil || err != nil {
			return response, err
		}
		return server.RoundTrip(r)
	})
}

// around passes every later request of the client to do, which may call server.
func (c *testCluster) around(do func(r *http.Request, server http.RoundTripper) (*http.Response, error)) {
	c.Helper()
	config := apiserver.Start(c.T)
	config.QPS = -1
	config.Wrap(func(server http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) { return do(r, server) })
	})
	var err error
	c.Kube, err = kubernetes.NewForConfig(config)
	c.Must(err)
}
