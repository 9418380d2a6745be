package chaospod

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

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
