//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// onInit: the first network traffic of an application is disrupted already.
func onInit(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	peer := s.targets(1)[0]
	s.label(peer, "peer")

	// A name that it looks up.
	d := s.create("names", "{selector: {app: target}, count: 1, duration: 5m, onInit: true, dns: {records: [{hostname: first.example.com, record: {type: A, value: 192.0.2.77}}]}}")
	pod := s.startsWith("looks-up", "5m", "lookup", "--timeout", "20s", "first.example.com")
	s.injectedOnce(d)
	var answer struct{ Addresses []string }
	s.firstOutput(pod, &answer)
	if fmt.Sprint(answer.Addresses) != "[192.0.2.77]" {
		t.Errorf("the application was told %v, want the record", answer.Addresses)
	}
	s.delete(d)
	s.gone(d)

	// A packet that it sends.
	ping := []string{"ping", "--udp", peer.Status.PodIP + ":9090", "--sockets", "1", "--count", "20", "--timeout", "1500ms", "--interval", "2ms"}
	d = s.create("packets", "{selector: {app: target}, count: 1, duration: 5m, onInit: true, network: {drop: 100, hosts: [{port: 9090, protocol: udp}]}}")
	pod = s.startsWith("sends", "5m", ping...)
	s.injectedOnce(d)
	var result struct{ Sent, Received int }
	s.firstOutput(pod, &result)
	if result.Sent != 20 || result.Received != 0 {
		t.Errorf("of %d packets %d were answered, want 20 and none", result.Sent, result.Received)
	}
	s.delete(d)
	s.gone(d)

	// A pod that is not selected starts, undisrupted, after its wait.
	pod = s.startsWith("undisturbed", "5s", ping...)
	s.firstOutput(pod, &result)
	if result.Received < 19 {
		t.Errorf("of %d packets %d were answered, want all: nothing disturbs the pod", result.Sent, result.Received)
	}
}

// startsWith creates a pod that may be disturbed at its start, and whose only
// container does one thing and ends. It waits at most for so long.
func (s *space) startsWith(name, timeout string, args ...string) *corev1.Pod {
	s.t.Helper()
	pod := s.pod(name, s.hosts[0])
	pod.Labels[v1beta1.LabelDisruptOnInit] = v1beta1.OnInitValue
	pod.Annotations = map[string]string{v1beta1.AnnotationOnInitTimeout: timeout}
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.Containers[0].Args = args
	created, err := s.kube.CoreV1().Pods(s.name).Create(s.t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	if len(created.Spec.InitContainers) != 1 {
		s.t.Fatalf("init containers of %s: %v, want ours", name, created.Spec.InitContainers)
	}
	for _, mount := range created.Spec.InitContainers[0].VolumeMounts {
		if strings.Contains(mount.MountPath, "serviceaccount") && mount.Name != v1beta1.OnInitContainer {
			s.t.Errorf("our container has the pod's credentials: %v", mount)
		}
	}
	return created
}

// injectedOnce waits until the disruption was injected: a target that has done what
// it does is gone soon after.
func (s *space) injectedOnce(d *v1beta1.Disruption) {
	s.t.Helper()
	s.await(d, "injected", func(d *v1beta1.Disruption) bool { return d.Status.InjectedTime != nil })
}

// firstWords decodes what the pod's container printed, once it has ended.
func (s *space) firstOutput(pod *corev1.Pod, into any) {
	s.t.Helper()
	eventually(s.t, func() string {
		live, err := s.kube.CoreV1().Pods(s.name).Get(s.t.Context(), pod.Name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if live.Status.Phase != corev1.PodSucceeded && live.Status.Phase != corev1.PodFailed {
			return fmt.Sprintf("pod %s is %s: %v %v", pod.Name, live.Status.Phase, live.Status.InitContainerStatuses, live.Status.ContainerStatuses)
		}
		return ""
	})
	output, err := s.kube.CoreV1().Pods(s.name).GetLogs(pod.Name, &corev1.PodLogOptions{Container: pod.Spec.Containers[0].Name}).DoRaw(s.t.Context())
	if err == nil {
		err = json.Unmarshal(output, into)
	}
	if err != nil {
		s.t.Fatalf("%s said %q: %v", pod.Name, output, err)
	}
}
