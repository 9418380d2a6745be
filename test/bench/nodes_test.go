package bench

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/promise"
	"github.com/squall-chaos/squall/test/world"
)

// probeImage has the programs /probe and /injector.
const probeImage = "squall.local/probe:dev"

// chaosPods are those of a disruption.
func (c *realCluster) chaosPods(t *testing.T, d *v1beta1.Disruption) []corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	must(t, c.client.List(t.Context(), &pods, client.InNamespace(chaosNamespace), client.MatchingLabels{v1beta1.LabelDisruptionUID: string(d.UID)}))
	if len(pods.Items) != d.Spec.Count.IntValue() {
		t.Fatalf("%s has %d chaos pods, want %d", d.Name, len(pods.Items), d.Spec.Count.IntValue())
	}
	return pods.Items
}

// floorPods are the chaos pods of a disruption but for what makes them
// Squall's, and with a program that is ready at once. The probes are the same:
// the image has the injector, too.
func (c *realCluster) floorPods(t *testing.T, d *v1beta1.Disruption) (pods []*corev1.Pod) {
	t.Helper()
	for i, pod := range c.chaosPods(t, d) {
		spec := pod.Spec.DeepCopy()
		container := &spec.Containers[0]
		container.Image, container.ImagePullPolicy = probeImage, corev1.PullIfNotPresent
		container.Command, container.Args = []string{"/probe"}, []string{"hold"}
		pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.floorNamespace, Name: fmt.Sprintf("floor-%02d", i)}, Spec: *spec})
	}
	return pods
}

// floor is the least that these pods cost here: to create them and see them
// ready, and to delete them and see them gone.
func (c *realCluster) floor(t *testing.T, pods []*corev1.Pod) (up, down world.Cost) {
	t.Helper()
	clock := world.StartClock()
	remove := c.run(t, pods)
	up, clock = clock.Stop(), world.StartClock()
	remove()
	return up, clock.Stop()
}

// run creates pods and waits until all are ready. The function that it returns
// deletes them and waits until all are gone.
func (c *realCluster) run(t *testing.T, pods []*corev1.Pod) (remove func()) {
	t.Helper()
	each := func(do func(pod *corev1.Pod) error) {
		t.Helper()
		var group errgroup.Group
		group.SetLimit(world.AtOnce(len(pods)))
		for _, pod := range pods {
			group.Go(func() error { return do(pod.DeepCopy()) })
		}
		must(t, group.Wait())
	}
	each(func(pod *corev1.Pod) error { return c.client.Create(t.Context(), pod) })
	world.Eventually(t, 3*time.Minute, "the pods are ready", func() bool { _, ready := c.there(c.floorNamespace); return ready == len(pods) })
	return func() {
		t.Helper()
		each(func(pod *corev1.Pod) error { return client.IgnoreNotFound(c.client.Delete(t.Context(), pod)) })
		world.Eventually(t, 3*time.Minute, "the pods are gone", func() bool { all, _ := c.there(c.floorNamespace); return all == 0 })
	}
}

// startProbes runs a privileged pod on every node, which sees what is in force.
func (c *realCluster) startProbes(t *testing.T) {
	t.Helper()
	yes := true
	for _, node := range c.nodes {
		must(t, c.client.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "probe-" + node},
			Spec: corev1.PodSpec{
				NodeName: node, HostPID: true, HostNetwork: true, TerminationGracePeriodSeconds: new(int64),
				Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
				Containers: []corev1.Container{{
					Name: "probe", Image: probeImage, ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"serve"},
					SecurityContext: &corev1.SecurityContext{Privileged: &yes},
					VolumeMounts:    []corev1.VolumeMount{{Name: "cgroup", MountPath: "/sys/fs/cgroup"}, {Name: "journal", MountPath: "/var/lib/squall"}},
				}},
				Volumes: promise.NodeVolumes(),
			},
		}))
	}
	world.Eventually(t, 3*time.Minute, "the probes run", func() bool { return c.running(t, "probe-") == len(c.nodes) })
}

// probe asks the probe on a node.
func (c *realCluster) probe(ctx context.Context, into any, node string, command ...string) error {
	return promise.Pods{Config: c.config, Kube: c.kube}.Exec(ctx, into, c.namespace, "probe-"+node, "", append([]string{"/probe"}, command...)...)
}

// busy is how many processors are at work on all nodes, over -holding. Nodes
// that share a machine are counted once. of is how many there are.
func (c *realCluster) busy(t *testing.T) (processors float64, of int) {
	t.Helper()
	<-time.After(5 * time.Second) // what began has its echo in events and status
	var mu sync.Mutex
	type work struct {
		Machine    string
		Processors float64
		Of         int
	}
	machines := map[string]work{}
	var group errgroup.Group
	for _, node := range c.nodes {
		group.Go(func() error {
			var answer work
			err := c.probe(t.Context(), &answer, node, "busy", "--for", holdingFor.String())
			mu.Lock()
			defer mu.Unlock()
			machines[answer.Machine] = answer
			return err
		})
	}
	must(t, group.Wait())
	for _, m := range machines {
		processors, of = processors+m.Processors, of+m.Of
	}
	return processors, of
}

// wantClean lets the injector look at every node: what was measured was undone.
func (c *realCluster) wantClean(t *testing.T) {
	t.Helper()
	injectors := promise.Injectors{Kube: c.kube, Namespace: c.namespace, Image: probeImage}
	for _, node := range c.nodes {
		audit, err := injectors.Audit(t.Context(), node)
		must(t, err)
		if len(audit.Marks) > 0 {
			t.Errorf("node %s still has %v", node, audit.Marks)
		}
	}
}

// containerID is that of the pod's first container, without its scheme.
func containerID(pod corev1.Pod) string {
	if len(pod.Status.ContainerStatuses) == 0 {
		return ""
	}
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	return id
}
