package ui

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// killInjector ends an injector and its guard as a crash would, so that neither cleans.
func (c *cluster) killInjector(t *testing.T, pod corev1.Pod) {
	t.Helper()
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	c.onNode(t.Context(), t, pod.Spec.NodeName, probeImage, "/probe", "kill", "--guard", "--name", "injector", "--container", id)
}

// onNode runs a command with all rights on a node, to its end.
func (c *cluster) onNode(ctx context.Context, t *testing.T, node, image string, command ...string) {
	t.Helper()
	yes, root := true, int64(0)
	pods := c.kube.CoreV1().Pods(c.namespace)
	pod, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "on-node-"},
		Spec: corev1.PodSpec{NodeName: node, RestartPolicy: corev1.RestartPolicyNever, HostPID: true, HostNetwork: true,
			Containers: []corev1.Container{{
				Name: "program", Image: image, ImagePullPolicy: corev1.PullIfNotPresent, Command: command,
				SecurityContext: &corev1.SecurityContext{Privileged: &yes, RunAsUser: &root},
				VolumeMounts:    []corev1.VolumeMount{{Name: "cgroup", MountPath: "/sys/fs/cgroup"}, {Name: "journal", MountPath: "/var/lib/squall"}},
			}},
			Volumes: []corev1.Volume{hostPath("cgroup", "/sys/fs/cgroup"), hostPath("journal", "/var/lib/squall")},
		}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		live, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		switch live.Status.Phase {
		case corev1.PodSucceeded:
			return ""
		case corev1.PodFailed:
			logs, _ := pods.GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(ctx)
			t.Fatalf("%v on %s failed: %s", command, node, logs)
		}
		return fmt.Sprintf("%v on %s has not ended", command, node)
	})
}

func hostPath(name, path string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}}
}
