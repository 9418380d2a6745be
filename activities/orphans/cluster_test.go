package orphans

import (
	"os"
	"testing"

	"go.temporal.io/sdk/testsuite"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities"
	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/choose"
	"github.com/squall-chaos/squall/activities/cluster"
	"github.com/squall-chaos/squall/activities/inject"
	"github.com/squall-chaos/squall/activities/prepare"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apicluster"
	"github.com/squall-chaos/squall/test/apiserver"
)

func TestMain(m *testing.M) { os.Exit(apiserver.Run(m)) }

// testCluster is an API server that disruptions and sweeps work on.
type testCluster struct {
	*apicluster.Cluster
	acts  *activities.Activities
	sweep *Activities
	env   *testsuite.TestActivityEnvironment
}

func newCluster(t *testing.T) *testCluster {
	world := apicluster.New(t)
	acts := activities.New(&cluster.Cluster{
		Kube: world.Client, Disruptions: world.Objects, ChaosPods: world.Watch, Targets: world.Store,
		Namespace: world.Chaos, Builder: world.Builds(), Parallel: 8,
	})
	sweep := &Activities{Kube: world.Client, Disruptions: world.Objects, Builder: world.Builds(), Parallel: 8}
	return &testCluster{world, acts, sweep, world.NewWorker(acts, sweep)}
}

// started is a disruption whose chaos pods were just created.
func (c *testCluster) started(name string, change func(*v1beta1.DisruptionSpec)) v1beta1.DisruptionRef {
	c.Helper()
	ref := c.Disruption(name, change)
	apicluster.Do[prepare.Plan](c.Cluster, c.env, c.acts.Prepare, ref)
	for _, number := range apicluster.Do[targets.Selection](c.Cluster, c.env, c.acts.SelectTargets, choose.Input{Disruption: ref}).Added {
		apicluster.Do[inject.CreateResult](c.Cluster, c.env, c.acts.CreateChaosPods, inject.CreateInput{Shard: chaospod.Shard{Disruption: ref, Number: number}})
	}
	return ref
}

// force removes a chaos pod whatever the state of its node.
func (c *testCluster) force(pod *corev1.Pod) error {
	now := int64(0)
	pods := c.Client.CoreV1().Pods(c.Chaos)
	if _, err := pods.Patch(c.Context(), pod.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		return err
	}
	return pods.Delete(c.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
}
