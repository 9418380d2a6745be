package kube

import (
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

func TestPods(t *testing.T) {
	deleting := &metav1.Time{Time: time.Unix(1, 0)}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	crashed := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	for _, test := range []struct {
		name                    string
		pod                     corev1.Pod
		healthy, running, ended bool
	}{
		{name: "one that waits", pod: podWith(corev1.PodPending, nil)},
		{name: "one that runs", pod: podWith(corev1.PodRunning, nil), healthy: true, running: true},
		{name: "one whose only container crashes again and again",
			pod: podWith(corev1.PodRunning, nil, corev1.ContainerStatus{Name: "main", State: crashed}), running: true},
		{name: "one of whose containers crashes again and again",
			pod:     podWith(corev1.PodRunning, nil, corev1.ContainerStatus{Name: "main", State: crashed}, corev1.ContainerStatus{Name: "proxy", State: runs}),
			healthy: true, running: true},
		{name: "one that runs and is being deleted", pod: podWith(corev1.PodRunning, deleting), running: true},
		{name: "one that wants a node of another system",
			pod: corev1.Pod{Spec: corev1.PodSpec{NodeSelector: map[string]string{corev1.LabelOSStable: "windows"}}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}, running: true},
		{name: "one that is made for another system",
			pod: corev1.Pod{Spec: corev1.PodSpec{OS: &corev1.PodOS{Name: corev1.Windows}}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}, running: true},
		{name: "one that succeeded", pod: podWith(corev1.PodSucceeded, nil), ended: true},
		{name: "one that failed", pod: podWith(corev1.PodFailed, nil), ended: true},
		{name: "the injector ended, and the phase is late",
			pod:     podWith(corev1.PodRunning, nil, corev1.ContainerStatus{Name: "injector", State: ended}),
			running: true, ended: true},
		{name: "another container ended",
			pod:     podWith(corev1.PodRunning, nil, corev1.ContainerStatus{Name: "proxy", State: ended}, corev1.ContainerStatus{Name: "injector", State: runs}),
			healthy: true, running: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			healthy, running, ended := PodHealthy(&test.pod), PodRunning(&test.pod), InjectorEnded(&test.pod)
			if why := Unfit(&test.pod); (why == "") != healthy {
				t.Errorf("Unfit() = %q of one that is healthy: %t", why, healthy)
			}
			if healthy != test.healthy || running != test.running || ended != test.ended {
				t.Errorf("healthy %t, running %t, ended %t; want %t, %t, %t", healthy, running, ended, test.healthy, test.running, test.ended)
			}
		})
	}
}

// A pod that is held back at its start, before, during and after that.
func TestPodsThatWait(t *testing.T) {
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	pod := func(phase corev1.PodPhase, name string, state corev1.ContainerState, change func(*corev1.Pod)) corev1.Pod {
		pod := podWith(phase, nil)
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: name, State: state}}
		if change != nil {
			change(&pod)
		}
		return pod
	}
	for _, test := range []struct {
		name      string
		pod       corev1.Pod
		waits, up bool
	}{
		{"its container was not started yet", pod(corev1.PodPending, v1beta1.OnInitContainer, waiting, nil), false, false},
		{"its container runs", pod(corev1.PodPending, v1beta1.OnInitContainer, runs, nil), true, true},
		{"its container has ended, and no other has started", pod(corev1.PodPending, v1beta1.OnInitContainer, ended, nil), false, true},
		{"it runs", pod(corev1.PodRunning, v1beta1.OnInitContainer, ended, nil), false, true},
		{"it has ended", pod(corev1.PodSucceeded, v1beta1.OnInitContainer, ended, nil), false, false},
		{"an init container of its own runs", pod(corev1.PodPending, "migrate", runs, nil), false, false},
		{"it is being deleted", pod(corev1.PodPending, v1beta1.OnInitContainer, runs, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }), false, true},
		{"it is made for another system", pod(corev1.PodPending, v1beta1.OnInitContainer, runs, func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Windows} }), false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if waits, up := PodWaits(&test.pod), PodUp(&test.pod); waits != test.waits || up != test.up {
				t.Errorf("waits %t, up %t; want %t, %t", waits, up, test.waits, test.up)
			}
		})
	}
}

func podWith(phase corev1.PodPhase, deleting *metav1.Time, containers ...corev1.ContainerStatus) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: deleting},
		Status:     corev1.PodStatus{Phase: phase, ContainerStatuses: containers},
	}
}

func TestNodes(t *testing.T) {
	deleting := &metav1.Time{Time: time.Unix(1, 0)}
	for _, test := range []struct {
		name           string
		node           corev1.Node
		healthy, ready bool
	}{
		{"one that never reported", corev1.Node{}, false, false},
		{"one that is ready", nodeWith(corev1.ConditionTrue, nil), true, true},
		{"one that is not", nodeWith(corev1.ConditionFalse, nil), false, false},
		{"one that nobody has heard of lately", nodeWith(corev1.ConditionUnknown, nil), false, false},
		{"one of Linux", labelled(corev1.LabelOSStable, "linux"), true, true},
		{"one of another system", labelled(corev1.LabelOSStable, "windows"), false, true},
		{"one without a kubelet", labelled("type", "virtual-kubelet"), false, true},
		{"one that is ready and is being deleted", nodeWith(corev1.ConditionTrue, deleting), false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			healthy, ready := NodeHealthy(&test.node), NodeReady(&test.node)
			if why := UnfitNode(&test.node); (why == "") != healthy {
				t.Errorf("UnfitNode() = %q of one that is healthy: %t", why, healthy)
			}
			if healthy != test.healthy || ready != test.ready {
				t.Errorf("healthy %t, ready %t; want %t, %t", healthy, ready, test.healthy, test.ready)
			}
		})
	}
}

func nodeWith(ready corev1.ConditionStatus, deleting *metav1.Time) corev1.Node {
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: deleting},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue},
			{Type: corev1.NodeReady, Status: ready},
		}},
	}
}

func labelled(key, value string) corev1.Node {
	node := nodeWith(corev1.ConditionTrue, nil)
	node.Labels = map[string]string{key: value}
	return node
}

func TestFinalizerPatches(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: "7", Finalizers: []string{"a", "b"}}}
	for _, test := range []struct {
		name  string
		patch func(metav1.Object, string) ([]byte, bool)
		want  string
	}{
		{"of this version", FinalizerPatch,
			`[{"op":"test","path":"/metadata/resourceVersion","value":"7"},{"op":"test","path":"/metadata/finalizers/1","value":"b"},{"op":"remove","path":"/metadata/finalizers/1"}]`},
		{"of any version", FinalizerPatchAnyVersion,
			`[{"op":"test","path":"/metadata/uid","value":"u"},{"op":"test","path":"/metadata/finalizers/1","value":"b"},{"op":"remove","path":"/metadata/finalizers/1"}]`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if patch, found := test.patch(pod, "b"); !found || string(patch) != test.want {
				t.Errorf("patch = %s, %t; want %s", patch, found, test.want)
			}
			if patch, found := test.patch(pod, "c"); found {
				t.Errorf("patch of a finalizer that is not there = %s, want none", patch)
			}
		})
	}
}

func TestSharedKernels(t *testing.T) {
	node := func(name, boot string) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: boot}}}
	}
	kernels := Kernels{}
	for _, n := range []corev1.Node{node("a", "1"), node("b", "2"), node("c", "1"), node("d", ""), node("e", ""), node("f", "1")} {
		kernels.Add(&n)
	}
	want := map[string]string{"a": "c", "c": "a", "f": "a"}
	if got := kernels.Shared(); !maps.Equal(got, want) {
		t.Errorf("Shared() = %v, want %v", got, want)
	}
}
