package oninit

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// tokenDirectory is where every container of a pod gets the credentials of the pod's
// service account, unless another volume is mounted there.
const tokenDirectory = "/var/run/secrets/kubernetes.io/serviceaccount"

// emptyVolume is the name of the volume that is mounted there.
const emptyVolume = v1beta1.OnInitContainer

// shortestWait is the least time that a pod can be made to wait.
const shortestWait = time.Second

// operation is one operation of a JSON patch. The webhook patches the pod instead of
// encoding it, so that fields stay which this version does not know.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// patch returns the operations that make a labelled pod wait: our init container before all
// others. It is empty for a pod that has that already. It is empty, with the reason in
// notice, for a pod that cannot wait. The error reports an invalid annotation.
func patch(pod *corev1.Pod, s Settings) (operations []operation, notice string, err error) {
	if pod.Labels[v1beta1.LabelDisruptOnInit] != v1beta1.OnInitValue {
		return nil, "", nil
	}
	if why := cannotWait(pod); why != "" {
		return nil, fmt.Sprintf("label %s has no effect: %s", v1beta1.LabelDisruptOnInit, why), nil
	}
	timeout, err := timeoutOf(pod, s)
	if err != nil {
		return nil, "", err
	}
	want := container(s, timeout)
	at := slices.IndexFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == want.Name })
	if at == 0 && same(pod.Spec.InitContainers[0], want) {
		return nil, "", nil
	}
	if !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == emptyVolume }) {
		empty := corev1.Volume{Name: emptyVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
		operations = append(operations, prepend("/spec/volumes", len(pod.Spec.Volumes), empty))
	}
	if at >= 0 {
		operations = append(operations, operation{Op: "remove", Path: fmt.Sprintf("/spec/initContainers/%d", at)})
	}
	return append(operations, prepend("/spec/initContainers", len(pod.Spec.InitContainers), want)), "", nil
}

// prepend puts an item before those of a list, which may be missing.
func prepend(list string, items int, item any) operation {
	if items == 0 {
		return operation{Op: "add", Path: list, Value: []any{item}}
	}
	return operation{Op: "add", Path: list + "/0", Value: item}
}

// cannotWait returns why no disruption could hit the start of a pod; empty if one could.
func cannotWait(pod *corev1.Pod) string {
	_, static := pod.Annotations[corev1.MirrorPodAnnotationKey]
	system, chosen := pod.Spec.NodeSelector[corev1.LabelOSStable]
	switch {
	case static:
		return "it is a static pod, which its kubelet has started already"
	case pod.Spec.HostNetwork:
		return "the pod shares its node's network (hostNetwork), so it cannot be disrupted alone"
	case chosen && system != string(corev1.Linux), pod.Spec.OS != nil && pod.Spec.OS.Name != corev1.Linux:
		return "injectors run on Linux alone"
	}
	return ""
}

// timeoutOf is how long the pod waits at most.
func timeoutOf(pod *corev1.Pod, s Settings) (time.Duration, error) {
	text, set := pod.Annotations[v1beta1.AnnotationOnInitTimeout]
	if !set {
		return s.Timeout, nil
	}
	timeout, err := time.ParseDuration(text)
	if err != nil || timeout < shortestWait || timeout > s.MaxTimeout {
		return 0, fmt.Errorf("annotation %s %q: want a duration from %s to %s, such as \"30s\"", v1beta1.AnnotationOnInitTimeout, text, shortestWait, s.MaxTimeout)
	}
	return timeout, nil
}

// container holds the pod back. It has no rights and no credentials, and its requests are
// its limits, so that the pod keeps its quality of service.
func container(s Settings, timeout time.Duration) corev1.Container {
	yes, no, nonRoot := true, false, int64(65532)
	resources := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	return corev1.Container{
		Name: v1beta1.OnInitContainer, Image: s.Image, ImagePullPolicy: corev1.PullPolicy(s.ImagePullPolicy),
		Command:   []string{"/injector", v1beta1.OnInitCommand, "--timeout", timeout.String()},
		Resources: corev1.ResourceRequirements{Requests: resources, Limits: resources},
		SecurityContext: &corev1.SecurityContext{
			RunAsNonRoot: &yes, RunAsUser: &nonRoot, RunAsGroup: &nonRoot, Privileged: &no,
			AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
			Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: emptyVolume, MountPath: tokenDirectory, ReadOnly: true}},
	}
}

// same compares the fields that we set: the API server sets more.
func same(have, want corev1.Container) bool {
	if want.ImagePullPolicy == "" {
		want.ImagePullPolicy = have.ImagePullPolicy
	}
	want.TerminationMessagePath, want.TerminationMessagePolicy = have.TerminationMessagePath, have.TerminationMessagePolicy
	had, _ := json.Marshal(have)
	wanted, _ := json.Marshal(want)
	return string(had) == string(wanted)
}
