package targets

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apiserver"
	"github.com/squall-chaos/squall/test/objects"
)

func TestMain(m *testing.M) { os.Exit(apiserver.Run(m)) }

// cluster is a real API server with a store of its own.
type cluster struct {
	*testing.T
	*Store
	namespace string
}

func newCluster(t *testing.T) *cluster {
	config := apiserver.Start(t)
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{T: t}
	c.namespace = c.makeNamespace(clientset, "shop-")
	chaos := c.makeNamespace(clientset, "chaos-")
	watch := NewWatch(clientset, chaos)
	go watch.Run(t.Context())
	c.must(watch.Sync(t.Context()))
	c.Store = NewStore(clientset, chaos, watch, 8)
	return c
}

func (c *cluster) makeNamespace(clientset kubernetes.Interface, prefix string) string {
	made, err := clientset.CoreV1().Namespaces().Create(c.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}, metav1.CreateOptions{})
	c.must(err)
	return made.Name
}

func (c *cluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// targets creates n running pods.
func (c *cluster) targets(n int, labels map[string]string) {
	c.Helper()
	for i := range n {
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
		_, err = c.Kube.CoreV1().Pods(c.namespace).UpdateStatus(c.Context(), created, metav1.UpdateOptions{})
		c.must(err)
	}
}

// two is a disruption that wants two targets; it is not in the cluster.
func (c *cluster) two(name string) *v1beta1.Disruption {
	d := objects.Disruption(c.namespace, name, intstr.FromInt32(2))
	d.UID = types.UID(c.namespace + "-" + name)
	return d
}

// claim chooses targets for the disruption, and returns those that it holds then.
func (c *cluster) claim(d *v1beta1.Disruption) []types.UID {
	c.Helper()
	healthy, err := c.Healthy(c.Context(), d)
	c.must(err)
	_, err = c.Claim(c.Context(), d, Choice{}, healthy, nil)
	c.must(err)
	return c.chosen(d)
}

func (c *cluster) chosen(d *v1beta1.Disruption) []types.UID {
	c.Helper()
	shards, err := c.Shards(c.Context(), d.Ref())
	c.must(err)
	uids := uidsOf(Active(shards))
	slices.Sort(uids)
	return uids
}

// rule 19: the watch may lag behind by any number of writes.
func TestClaimsWithAWatchThatIsBehind(t *testing.T) {
	distinct := func(c *cluster, n int, claims ...[]types.UID) {
		c.Helper()
		held := map[types.UID]bool{}
		for _, claim := range claims {
			for _, uid := range claim {
				held[uid] = true
			}
		}
		if len(held) != n {
			c.Errorf("%d targets are held, want %d", len(held), n)
		}
	}
	t.Run("it has seen no claim", func(t *testing.T) {
		c := newCluster(t)
		c.targets(4, nil)
		c.Watch = behind()
		a, b := c.two("a"), c.two("b")
		c.claim(a)
		c.claim(b)
		distinct(c, 4, c.chosen(a), c.chosen(b))
	})
	t.Run("it has not seen that a claim was withdrawn", func(t *testing.T) {
		c := newCluster(t)
		c.targets(2, nil)
		a := c.two("a")
		c.claim(a)
		var past []Shard
		for deadline := time.Now().Add(time.Minute); len(past) != 1; time.Sleep(20 * time.Millisecond) {
			if past, _, _ = c.Watch.now(nil); time.Now().After(deadline) {
				t.Fatal("the watch does not see the claim")
			}
		}
		c.must(c.DeleteRecords(t.Context(), a.Ref()))
		c.Watch = behind(past...)
		distinct(c, 2, c.claim(c.two("b")))
	})
	t.Run("it has not seen what an earlier attempt claimed", func(t *testing.T) {
		c := newCluster(t)
		c.targets(4, nil)
		c.Watch = behind()
		a := c.two("a")
		first := c.claim(a)
		if again := c.claim(a); len(again) != 2 || !slices.Equal(again, first) {
			t.Errorf("the second attempt chose %v, the first %v", again, first)
		}
	})
}
