package promise

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// StartProbes runs a privileged pod on each of some nodes, which sees what is in
// force there (test/probe), and returns their names by node once all run. What runs
// already is left as it is.
func StartProbes(ctx context.Context, kube kubernetes.Interface, namespace, image string, nodes []string) (map[string]string, error) {
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := kube.CoreV1().Namespaces().Create(ctx, space, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	labels, yes := map[string]string{"app": "probe"}, true
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			HostPID:     true, HostNetwork: true, TerminationGracePeriodSeconds: new(int64),
			Containers: []corev1.Container{{
				Name: "probe", Image: image, ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"serve"},
				SecurityContext: &corev1.SecurityContext{Privileged: &yes},
				VolumeMounts:    []corev1.VolumeMount{{Name: "cgroup", MountPath: "/sys/fs/cgroup"}, {Name: "journal", MountPath: "/var/lib/squall"}},
			}},
			Volumes: NodeVolumes(),
		}},
	}}
	if _, err := kube.AppsV1().DaemonSets(namespace).Create(ctx, set, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	probes := map[string]string{}
	for len(probes) < len(nodes) {
		pods, err := kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=probe"})
		if err != nil {
			return nil, fmt.Errorf("wait for the probes: %w", err)
		}
		for _, pod := range pods.Items {
			if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
				probes[pod.Spec.NodeName] = pod.Name
			}
		}
		if err := Pause(ctx, 200*time.Millisecond); err != nil {
			return nil, fmt.Errorf("wait for the probes: %w", err)
		}
	}
	return probes, nil
}
