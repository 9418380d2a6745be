package probe

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/cache"

	"github.com/squall-chaos/squall/kube/podops"
)

// everything is a pod with all fields that probes read, and more.
func everything() *corev1.Pod {
	started := metav1.NewTime(time.Unix(7, 0))
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-1", Namespace: "shop", UID: "u", ResourceVersion: "5", Labels: map[string]string{"app": "web"}, DeletionTimestamp: &started,
			Annotations: map[string]string{"big": "secret"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "secret"}}, Finalizers: []string{"secret"},
		},
		Spec: corev1.PodSpec{
			HostNetwork: true, RestartPolicy: corev1.RestartPolicyNever, NodeName: "secret", Volumes: []corev1.Volume{{Name: "secret"}},
			Containers: []corev1.Container{{
				Name: "app", Image: "secret", Args: []string{"secret"}, Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}, {ContainerPort: 81}},
				Env: []corev1.EnvVar{{Name: "HOME", Value: "/here"}, {Name: "TOKEN", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "secret"}}}},
			}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.1.0.5", PodIPs: []corev1.PodIP{{IP: "10.1.0.5"}}, Message: "secret",
			Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Reason: "secret"}, {Type: corev1.PodReady, Status: corev1.ConditionTrue, Message: "secret"}},
			ContainerStatuses: []corev1.ContainerStatus{
				{Name: "app", ContainerID: "c1", Image: "secret", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}},
				{Name: "ended", ContainerID: "c2", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: "secret"}}},
				{Name: "waits", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Message: "secret"}}},
			},
		},
	}
}

func TestStripKeepsWhatProbesRead(t *testing.T) {
	for _, env := range []bool{true, false} {
		pod := everything()
		kept, err := strip(env)(pod.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		got := kept.(*corev1.Pod)
		if text, _ := json.Marshal(got); strings.Contains(string(text), "secret") {
			t.Errorf("env %t: strip keeps more than probes read: %s", env, text)
		}
		reads := func(pod *corev1.Pod) []any {
			target := &Target{Pod: pod, Container: "app"}
			http, err := target.place("", intstr.FromString("http"))
			status := target.status()
			return []any{
				pod.Name, pod.Namespace, pod.UID, pod.Labels, pod.DeletionTimestamp, pod.Spec.HostNetwork, pod.Spec.RestartPolicy, pod.Status.PodIPs,
				ended(pod), podops.Ready(pod), http, err, status.ContainerID, status.State.Running.StartedAt,
				(&Target{Pod: pod, Container: "ended"}).container().Name,
			}
		}
		if diff := cmp.Diff(reads(pod), reads(got)); diff != "" {
			t.Errorf("env %t: probes read something else (-pod +stripped):\n%s", env, diff)
		}
		if s := got.Status.ContainerStatuses; len(s) != 3 || s[1].State.Terminated == nil || s[2].State != (corev1.ContainerState{}) {
			t.Errorf("env %t: statuses %+v, want one that runs, one that ended, and one that waits", env, s)
		}
		command := strings.Join(expand([]string{"$(HOME)$(TOKEN)$(NONE)"}, got.Spec.Containers[0].Env), " ")
		if want := map[bool]string{true: "/here$(NONE)", false: "$(HOME)$(TOKEN)$(NONE)"}[env]; command != want {
			t.Errorf("env %t: the command is %s, want %s", env, command, want)
		}
	}
	tombstone := cache.DeletedFinalStateUnknown{Key: "k"}
	if got, err := strip(false)(tombstone); err != nil || got != any(tombstone) {
		t.Errorf("strip(tombstone) = %v, %v, want it untouched", got, err)
	}
}

// The watch itself holds stripped objects, which suffice for all questions.
func TestTheWatchHoldsStrippedObjects(t *testing.T) {
	s := newShop(t)
	s.pod("web-1", "10.1.0.5", corev1.PodRunning, true, func(pod *corev1.Pod) {
		pod.Annotations = map[string]string{"big": "secret"}
		pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "TOKEN", Value: "secret"}}
	})
	address := s.service("web", "10.1.0.5")
	namespace := s.watched()
	pod, err := namespace.Pods.Get("web-1")
	if err != nil {
		t.Fatal(err)
	}
	service, err := namespace.services.Get("web")
	if err != nil {
		t.Fatal(err)
	}
	slice, err := namespace.slices.Get("web")
	if err != nil {
		t.Fatal(err)
	}
	if pod.Annotations != nil || pod.Spec.Containers[0].Image != "" || pod.Spec.Containers[0].Env != nil || service.Spec.Ports != nil || slice.ManagedFields != nil {
		t.Errorf("the watch holds more than probes read: %+v\n%+v\n%+v", pod, service, slice)
	}
	if why := namespace.Belongs(netip.MustParseAddr(address)); why != "" {
		t.Errorf("Belongs(%s) = %q", address, why)
	}
	if slice.Labels[discoveryv1.LabelServiceName] != "web" {
		t.Errorf("the labels of the slice are %v", slice.Labels)
	}
}
