package activities

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// sweeperPatience is how long a sweep waits for a command on a node: a few
// seconds where the image is there, longer where it is pulled first.
const sweeperPatience = time.Minute

// errand is on whose behalf a sweeper runs.
type errand struct {
	// name tells apart the sweepers of two errands.
	name   string
	labels map[string]string
}

// sweepErrand is that of a sweep: its sweepers belong to no disruption.
func sweepErrand(ctx context.Context) errand {
	run := activity.GetInfo(ctx).WorkflowExecution.RunID
	return errand{run, map[string]string{v1beta1.LabelSweep: run}}
}

// sweeper is a pod that runs one command of the injector on a node, with the
// rights of the chaos pods of all kinds together. It is no chaos pod: it has no
// finalizer, and may be taken away at any moment.
func (a *Activities) sweeper(e errand, node *corev1.Node, args []string) (*corev1.Pod, error) {
	template, err := chaosPodTemplate()
	if err != nil {
		return nil, err
	}
	pod := template.DeepCopy()
	sum := sha256.Sum256([]byte(strings.Join(append([]string{e.name, string(node.UID)}, args...), "/")))
	pod.Name = "sweep-" + args[0] + "-" + hex.EncodeToString(sum[:])[:16]
	pod.Namespace, pod.Finalizers = a.Namespace, nil
	pod.Labels = e.labels
	pod.Spec.NodeName = node.Name
	seconds := int64(sweeperPatience.Seconds())
	pod.Spec.ActiveDeadlineSeconds = &seconds
	for _, kind := range v1beta1.SupportedKinds() {
		addRights(&pod.Spec, kind.Needs())
	}
	container := &pod.Spec.Containers[0]
	container.Image, container.ImagePullPolicy = a.Image, corev1.PullPolicy(a.ImagePullPolicy)
	container.Args, container.StartupProbe, container.ReadinessProbe = args, nil, nil
	container.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	return pod, nil
}

// onNode runs a command of the injector on a node and returns its pod as it
// ended; the pod itself is gone then. One that an attempt before this left is
// taken for its own. When that cannot be done on this node
// now, why says so; an error is what the API server cannot do now for any node.
func (a *Activities) onNode(ctx context.Context, e errand, node *corev1.Node, args ...string) (ended *corev1.Pod, why string, err error) {
	pod, err := a.sweeper(e, node, args)
	if err != nil {
		return nil, "", err
	}
	defer func() {
		if left := a.removeSweeper(context.WithoutCancel(ctx), pod.Name); left != nil && err == nil {
			err = left
		}
	}()
	if why, err := a.create(ctx, pod); err != nil || why != "" {
		return nil, why, err
	}
	return a.awaitSweeper(ctx, pod.Name)
}

func (a *Activities) awaitSweeper(ctx context.Context, name string) (*corev1.Pod, string, error) {
	deadline := time.Now().Add(sweeperPatience)
	for gap := 250 * time.Millisecond; ; gap = min(2*gap, 2*time.Second) {
		if err := pause(ctx, gap); err != nil {
			return nil, "", err
		}
		pod, err := a.Kube.CoreV1().Pods(a.Namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil, "pod " + name + " was taken away", nil
		case err != nil:
			return nil, "", fmt.Errorf("read pod %s: %w", name, err)
		case kube.InjectorEnded(pod):
			return pod, "", nil
		case time.Now().After(deadline):
			return nil, strings.TrimSuffix(fmt.Sprintf("pod %s did not end within %s: %s", name, sweeperPatience, waitingFor(pod)), ": "), nil
		}
	}
}

// removeSweeper takes a sweeper away, whether it runs or not. Gone is done.
func (a *Activities) removeSweeper(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	now := int64(0)
	err := a.Kube.CoreV1().Pods(a.Namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete pod %s: %w", name, err)
	}
	return nil
}

// removeSweepers takes away the sweepers of sweeps that died: one schedule lets
// no two sweeps run at once.
func (a *Activities) removeSweepers(ctx context.Context) error {
	now := int64(0)
	others := v1beta1.LabelSweep + "," + v1beta1.LabelSweep + "!=" + activity.GetInfo(ctx).WorkflowExecution.RunID
	err := a.Kube.CoreV1().Pods(a.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{LabelSelector: others})
	if err != nil {
		return fmt.Errorf("delete the pods of an earlier sweep: %w", err)
	}
	return nil
}

// addRights gives the pod's container what it lacks of needs.
func addRights(spec *corev1.PodSpec, needs v1beta1.Needs) {
	container := &spec.Containers[0]
	for _, name := range needs.Capabilities {
		if capability := corev1.Capability(name); !slices.Contains(container.SecurityContext.Capabilities.Add, capability) {
			container.SecurityContext.Capabilities.Add = append(container.SecurityContext.Capabilities.Add, capability)
		}
	}
	mounted := slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == "cgroup" })
	if needs.Cgroups && !mounted {
		directory := corev1.HostPathDirectory
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "cgroup", VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: "/sys/fs/cgroup", Type: &directory},
		}})
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: "cgroup", MountPath: "/sys/fs/cgroup"})
	}
}
