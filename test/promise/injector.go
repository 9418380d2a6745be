package promise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Injectors runs commands of the injector on nodes, in pods of its own.
type Injectors struct {
	Kube kubernetes.Interface
	// Namespace is where the pods are, for a moment each.
	Namespace string
	// Image has the program /injector.
	Image string
}

// InjectorImage is the image of chaos pods in Squall's settings in the cluster.
func InjectorImage(ctx context.Context, kube kubernetes.Interface) (string, error) {
	const namespace, setting = "squall-system", "SQUALL_INJECTOR_IMAGE"
	worker, err := kube.AppsV1().Deployments(namespace).Get(ctx, "squall-worker", metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("find Squall in the cluster: %w; make demo installs it", err)
	}
	for _, source := range worker.Spec.Template.Spec.Containers[0].EnvFrom {
		if source.ConfigMapRef == nil {
			continue
		}
		settings, err := kube.CoreV1().ConfigMaps(namespace).Get(ctx, source.ConfigMapRef.Name, metav1.GetOptions{})
		if err != nil {
			return "", fmt.Errorf("read the settings of Squall: %w", err)
		}
		if image := settings.Data[setting]; image != "" {
			return image, nil
		}
	}
	return "", fmt.Errorf("the settings of deployment %s/%s do not have %s", namespace, worker.Name, setting)
}

// Audit asks the injector what carries marks of disruptions on a node.
func (i Injectors) Audit(ctx context.Context, node string) (v1beta1.Audit, error) {
	output, err := i.Run(ctx, node, "audit")
	if err != nil {
		return v1beta1.Audit{}, err
	}
	var audit v1beta1.Audit
	if err := json.Unmarshal([]byte(output), &audit); err != nil {
		return v1beta1.Audit{}, fmt.Errorf("audit of %s said %q: %w", node, output, err)
	}
	return audit, nil
}

// Run runs a command on a node and returns its output, however it ended.
func (i Injectors) Run(ctx context.Context, node string, args ...string) (string, error) {
	yes, root := true, int64(0)
	pods := i.Kube.CoreV1().Pods(i.Namespace)
	create := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "injector-"}, Spec: corev1.PodSpec{
		NodeName: node, RestartPolicy: corev1.RestartPolicyNever, HostPID: true, HostNetwork: true,
		Containers: []corev1.Container{{
			Name: "injector", Image: i.Image, ImagePullPolicy: corev1.PullIfNotPresent, Command: append([]string{"/injector"}, args...),
			SecurityContext: &corev1.SecurityContext{Privileged: &yes, RunAsUser: &root},
			VolumeMounts:    []corev1.VolumeMount{{Name: "cgroup", MountPath: "/sys/fs/cgroup"}, {Name: "journal", MountPath: "/var/lib/squall"}},
		}},
		Volumes: NodeVolumes(),
	}}
	pod, err := pods.Create(ctx, create, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("run injector %v on %s: %w", args, node, err)
	}
	for pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("injector %v on %s has not ended: %w", args, node, errors.Join(ctx.Err(), context.Cause(ctx)))
		case <-time.After(200 * time.Millisecond):
		}
		if pod, err = pods.Get(ctx, pod.Name, metav1.GetOptions{}); err != nil {
			return "", err
		}
	}
	log, err := pods.GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(ctx)
	if err != nil {
		return "", err
	}
	return string(log), pods.Delete(ctx, pod.Name, metav1.DeleteOptions{})
}

// NodeVolumes are the directories of a node where disruptions leave traces:
// "cgroup" and "journal".
func NodeVolumes() []corev1.Volume {
	create := corev1.HostPathDirectoryOrCreate
	return []corev1.Volume{
		{Name: "cgroup", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/sys/fs/cgroup"}}},
		{Name: "journal", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/lib/squall", Type: &create}}},
	}
}
