package targets

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// A node that is being deleted is no target, as a pod that is being deleted is none.
// The controller does not count such a node as a candidate either.
func TestNodesThatAreBeingDeletedAreNotChosen(t *testing.T) {
	deleted := metav1.NewTime(time.Unix(1, 0))
	node := func(name string, deletion *metav1.Time, ready corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"role": "worker"}, DeletionTimestamp: deletion, Finalizers: []string{"f/f"}},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
		}
	}
	s := NewStore(fake.NewClientset(
		node("well", nil, corev1.ConditionTrue), node("leaving", &deleted, corev1.ConditionTrue), node("away", nil, corev1.ConditionUnknown)), "squall-chaos", nil, 1)
	d := &v1beta1.Disruption{Spec: v1beta1.DisruptionSpec{Level: v1beta1.LevelNode, Selector: map[string]string{"role": "worker"}}}
	found, err := s.Healthy(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, candidate := range found {
		names = append(names, candidate.Target.Name)
	}
	if diff := cmp.Diff([]string{"well"}, names); diff != "" {
		t.Errorf("candidates (-want +got):\n%s", diff)
	}
}

// runningPod is a healthy pod of one container that the selector of app=web matches.
func runningPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", ContainerID: "containerd://abc", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}},
	}
}

// wantChosen requires that all pods are candidates, which of them are chosen, and how
// the explanation begins if none is.
func wantChosen(t *testing.T, d *v1beta1.Disruption, pods []*corev1.Pod, chosen []types.UID, reason string) {
	t.Helper()
	var objects []runtime.Object
	for _, pod := range pods {
		objects = append(objects, pod)
	}
	healthy, err := NewStore(fake.NewClientset(objects...), "squall-chaos", nil, 1).Healthy(t.Context(), d)
	if err != nil || len(healthy) != len(pods) {
		t.Fatalf("%d candidates, %v, want %d", len(healthy), err, len(pods))
	}
	next, _ := nextClaims(d.Spec, healthy, nil, nil, nil, nil, Budgets(nil).without(nil))
	if diff := cmp.Diff(chosen, uidsOf(next), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("chosen (-want +got):\n%s", diff)
	}
	if got := Unusable(d.Spec, healthy); !strings.HasPrefix(got, reason) || reason == "" && got != "" {
		t.Errorf("reason %q, want %q", got, reason)
	}
}

// A static pod cannot be distinguished from a pod that only claims to be one, so it is
// no target. A spec that matches only such pods gets the reason; otherwise the other
// pods are chosen.
func TestStaticPodsAreRefusedWithTheReason(t *testing.T) {
	yes := true
	mirror, owned, plain := runningPod("mirror"), runningPod("owned"), runningPod("plain")
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "0123", "kubernetes.io/config.hash": "0123"}
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "node-1", Controller: &yes}}
	every := intstr.FromString("100%")
	for name, test := range map[string]struct {
		pods   []*corev1.Pod
		fault  v1beta1.Faults
		chosen []types.UID
		reason string
	}{
		"static pods alone":          {[]*corev1.Pod{mirror, owned}, v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}}, nil, "pod mirror cannot be disrupted, nor can any other matching pod: it is a static pod"},
		"one beside another":         {[]*corev1.Pod{mirror, plain}, v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}}, []types.UID{"plain"}, ""},
		"one that is to be replaced": {[]*corev1.Pod{owned}, v1beta1.Faults{PodReplacement: &v1beta1.PodReplacement{}}, nil, "pod owned cannot be replaced, nor can any other matching pod: it is a static pod"},
	} {
		t.Run(name, func(t *testing.T) {
			d := &v1beta1.Disruption{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Spec: v1beta1.DisruptionSpec{
				Faults: test.fault, Count: &every, Level: v1beta1.LevelPod, Selector: map[string]string{"app": "web"},
			}}
			wantChosen(t, d, test.pods, test.chosen, test.reason)
		})
	}
}

// A container of kubectl debug runs, so "does not run" would be a wrong reason.
func TestEphemeralContainersAreRefusedWithTheReason(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", UID: "web-0", Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			Containers:          []corev1.Container{{Name: "main"}},
			EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "dbg"}}},
		},
		Status: corev1.PodStatus{
			Phase:                      corev1.PodRunning,
			ContainerStatuses:          []corev1.ContainerStatus{{Name: "main", ContainerID: "containerd://abc", State: running}},
			EphemeralContainerStatuses: []corev1.ContainerStatus{{Name: "dbg", ContainerID: "containerd://def", State: running}},
		},
	}
	one := intstr.FromInt32(1)
	d := &v1beta1.Disruption{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Spec: v1beta1.DisruptionSpec{
		Faults: v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}}, Count: &one, Level: v1beta1.LevelPod, Selector: map[string]string{"app": "web"},
	}}
	for container, want := range map[string]string{"dbg": "is, in pod web-0, an ephemeral container", "other": "does not run in pod web-0"} {
		d.Spec.Containers = []string{container}
		healthy, err := NewStore(fake.NewClientset(pod), "squall-chaos", nil, 1).Healthy(t.Context(), d)
		if err != nil || len(healthy) != 1 {
			t.Fatalf("%d candidates, %v, want one with a reason against it", len(healthy), err)
		}
		if got := Unusable(d.Spec, healthy); !strings.Contains(got, want) {
			t.Errorf("containers [%s]: %q, want %q", container, got, want)
		}
		if got := healthy[0].Unusable(); strings.Contains(got, "ephemeral") != (container == "dbg") {
			t.Errorf("containers [%s]: the candidate says %q", container, got)
		}
	}
}

func TestCandidatesInPages(t *testing.T) {
	c := newCluster(t)
	c.targets(5, nil)
	c.targets(2, map[string]string{"app": "other"})
	c.pageSize = 2
	var group sync.WaitGroup
	for range 2 * parallelLists {
		group.Go(func() {
			found, err := c.Healthy(t.Context(), &v1beta1.Disruption{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace},
				Spec: v1beta1.DisruptionSpec{Level: v1beta1.LevelPod, Selector: map[string]string{"app": "web"}}})
			if err != nil || len(found) != 5 {
				t.Errorf("%d candidates, %v; want 5", len(found), err)
			}
		})
	}
	group.Wait()
}

func TestListsAtOnceAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(fake.NewClientset(), "squall-chaos", nil, 1)
		for range parallelLists {
			if err := s.acquireList(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		listed := make(chan error, 1)
		go func() {
			_, err := s.Healthy(t.Context(), &v1beta1.Disruption{})
			listed <- err
		}()
		synctest.Wait()
		if len(listed) > 0 {
			t.Fatalf("Healthy() = %v while %d lists are under way, want it to wait", <-listed, parallelLists)
		}
		s.releaseList()
		if err := <-listed; err != nil {
			t.Errorf("Healthy() = %v once a list has ended, want no error", err)
		}
	})
}

// With onInit the candidates are the pods that are held back, with the container that
// holds them. Without it the candidates are the pods that run.
func TestCandidatesThatWait(t *testing.T) {
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	pod := func(name string, phase corev1.PodPhase, init, main corev1.ContainerState) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{InitContainers: []corev1.Container{{Name: v1beta1.OnInitContainer}}, Containers: []corev1.Container{{Name: "main"}}},
			Status: corev1.PodStatus{Phase: phase,
				InitContainerStatuses: []corev1.ContainerStatus{{Name: v1beta1.OnInitContainer, ContainerID: "containerd://wait-" + name, State: init}},
				ContainerStatuses:     []corev1.ContainerStatus{{Name: "main", ContainerID: "containerd://main-" + name, State: main}}},
		}
	}
	none := corev1.ContainerState{}
	s := NewStore(fake.NewClientset(
		pod("waits", corev1.PodPending, runs, none), pod("pulls", corev1.PodPending, none, none), pod("runs", corev1.PodRunning, none, runs)), "squall-chaos", nil, 1)
	for onInit, want := range map[bool]v1beta1.InjectionTarget{
		true:  {Namespace: "shop", Name: "waits", Containers: []v1beta1.InjectionContainer{{Name: v1beta1.OnInitContainer, ID: "wait-waits"}}},
		false: {Namespace: "shop", Name: "runs", Containers: []v1beta1.InjectionContainer{{Name: "main", ID: "main-runs"}}},
	} {
		found, err := s.Healthy(t.Context(), &v1beta1.Disruption{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"},
			Spec: v1beta1.DisruptionSpec{Level: v1beta1.LevelPod, OnInit: onInit, Selector: map[string]string{"app": "web"}}})
		if err != nil || len(found) != 1 {
			t.Fatalf("with onInit %t: %+v, %v, want one candidate", onInit, found, err)
		}
		if diff := cmp.Diff(want, found[0].Target); diff != "" || !found[0].usable() {
			t.Errorf("with onInit %t (-want +got), missing %q:\n%s", onInit, found[0].Missing, diff)
		}
	}
}

// Without a limit memory pressure at level pod would take the memory of the node. N9
func TestMemoryPressureNeedsALimit(t *testing.T) {
	limited, free := runningPod("limited"), runningPod("free")
	limited.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
	every := intstr.FromString("100%")
	for name, test := range map[string]struct {
		pods   []*corev1.Pod
		fault  v1beta1.Faults
		unsafe *v1beta1.UnsafeMode
		chosen []types.UID
		reason string
	}{
		"one of two has a limit": {[]*corev1.Pod{free, limited}, v1beta1.Faults{MemoryPressure: &v1beta1.MemoryPressure{}}, nil, []types.UID{"limited"}, ""},
		"none has":               {[]*corev1.Pod{free}, v1beta1.Faults{MemoryPressure: &v1beta1.MemoryPressure{}}, nil, nil, `pod free cannot be disrupted, nor can any other matching pod: container "main" has no memory limit`},
		"the spec allows it":     {[]*corev1.Pod{free}, v1beta1.Faults{MemoryPressure: &v1beta1.MemoryPressure{}}, &v1beta1.UnsafeMode{AllowMemoryPressureWithoutLimit: true}, []types.UID{"free"}, ""},
		"another fault":          {[]*corev1.Pod{free}, v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}}, nil, []types.UID{"free"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := &v1beta1.Disruption{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Spec: v1beta1.DisruptionSpec{
				Faults: test.fault, Count: &every, Level: v1beta1.LevelPod, Selector: map[string]string{"app": "web"}, UnsafeMode: test.unsafe,
			}}
			wantChosen(t, d, test.pods, test.chosen, test.reason)
		})
	}
}
