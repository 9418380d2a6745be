package bench

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/test/world"
)

// podsANode is how many pods each played node has, and namespaces how many namespaces
// they are in.
const (
	podsANode  = 100
	namespaces = 20
)

// large measures the memory of the programs where n pods are targets and many more are not.
func (b bench) large(pods, n int) {
	b.Helper()
	nodes := (pods + podsANode - 1) / podsANode
	b.Targets(n)
	b.crowd(pods-n, nodes)
	logf("%s pods on %d nodes are there", thousands(int64(pods)), nodes)
	before := b.Meter.Settled(b)
	b.fresh() // the caches are filled again
	started := b.Meter.Settled(b).Since(before)
	_, bridgeStart := b.bridge.Memory()
	_, workerStart := b.worker.Memory()
	d := b.disruption(n)
	clock := world.StartClock()
	b.Create(d)
	b.Injected(d)
	created := clock.Stop()
	bridgeNow, _ := b.bridge.Memory()
	workerNow, _ := b.worker.Memory()
	clock = world.StartClock()
	b.Delete(d)
	deleted := clock.Stop()
	_, bridge := b.bridge.Memory()
	_, worker := b.worker.Memory()
	memory := table{title: "Resident memory", head: []string{"program", "peak after its start", "with everything injected", "peak of all"}}
	memory.add("bridge", megabytes(bridgeStart), megabytes(bridgeNow), megabytes(bridge))
	memory.add("worker", megabytes(workerStart), megabytes(workerNow), megabytes(worker))
	what := fmt.Sprintf("%s pods, %s of them targets", thousands(int64(pods)), thousands(int64(n)))
	publish(b, section{
		name: "large",
		lines: []line{
			{what: "memory of the bridge at most, " + what, value: float64(bridge) / 1e6, most: 400, unit: "MB"},
			{what: "memory of the worker at most, " + what, value: float64(worker) / 1e6, most: 400, unit: "MB"},
		},
		tables: []table{memory},
		notes: []string{
			fmt.Sprintf("%d nodes, %d namespaces. Create to `Injected` took %s, delete to gone %s. Start and one disruption of one target made %d LIST calls of pods.",
				nodes, namespaces+1, took(created.Time), took(deleted.Time), started["LIST pods"]),
			b.where(),
		},
	})
}

// crowd makes pods that no selector matches, as large as those of a usual workload, and
// their nodes.
func (b bench) crowd(pods, nodes int) {
	b.Helper()
	b.Each(nodes, 32, func(i int) error {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name:   fmt.Sprintf("crowd-%03d", i),
			Labels: map[string]string{"kubernetes.io/os": "linux", "topology.kubernetes.io/zone": fmt.Sprint("zone-", i%3)},
		}}
		made, err := b.Kube.CoreV1().Nodes().Create(b.Context(), node, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		slots := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceCPU: resource.MustParse("32")}
		made.Status = corev1.NodeStatus{
			Capacity: slots, Allocatable: slots,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}},
		}
		_, err = b.Kube.CoreV1().Nodes().UpdateStatus(b.Context(), made, metav1.UpdateOptions{})
		return err
	})
	each := (pods + namespaces - 1) / namespaces
	for i := range namespaces {
		namespace, n := b.NewNamespace("crowd-"), min(each, pods-i*each)
		b.Each(n, 64, func(j int) error {
			pod := usual(i*each+j, nodes)
			_, err := b.Kube.CoreV1().Pods(namespace).Create(b.Context(), pod, metav1.CreateOptions{})
			return err
		})
		logf("%s of %s other pods", thousands(int64(i*each+n)), thousands(int64(pods)))
		world.Eventually(b, b.Patience, "they run", func() bool { return b.Kubelets.Ready(namespace) >= n })
	}
}

// usual is a pod with a sidecar, environment, volumes and probes.
func usual(i, nodes int) *corev1.Pod {
	var env []corev1.EnvVar
	for k := range 20 {
		env = append(env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_OF_THE_SERVICE_%02d", k), Value: fmt.Sprintf("value-%06d-%02d.internal.example.com:8080", i, k)})
	}
	container := func(name string) corev1.Container {
		return corev1.Container{
			Name: name, Image: "registry.example.com/team/" + name + ":v1.2.3", Env: env, Args: []string{"--listen=:8080", "--log=json"},
			Ports:        []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
			Resources:    corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")}},
			VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/config"}, {Name: "scratch", MountPath: "/scratch"}},
		}
	}
	controller := true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("other-%05d-7d9c5b6f4d-x2x9z", i),
			Labels: map[string]string{
				"app": fmt.Sprintf("other-%03d", i%500), "pod-template-hash": "7d9c5b6f4d", "team": fmt.Sprintf("team-%02d", i%30), "version": "v1.2.3",
			},
			Annotations: map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "8080", "checksum/config": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: fmt.Sprintf("other-%03d-7d9c5b6f4d", i%500), UID: "8f3c0d3e-5f1a-4a44-9e6e-1f2a3b4c5d6e", Controller: &controller,
			}},
		},
		Spec: corev1.PodSpec{
			NodeName: fmt.Sprintf("crowd-%03d", i%nodes), Containers: []corev1.Container{container("server"), container("sidecar")},
			Volumes: []corev1.Volume{
				{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}}},
				{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			},
		},
	}
}
