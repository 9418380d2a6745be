package chaospod

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// The file with the addresses of services and clouds, as the chaos pod sees it. The
// kubelet rewrites it when the annotation changes.
const (
	resolvedHostsDir  = "/etc/squall"
	resolvedHostsName = "resolved-hosts"
)

// addResolvedHosts mounts that file into the pod's container.
func addResolvedHosts(spec *corev1.PodSpec) {
	annotation := "metadata.annotations['" + v1beta1.AnnotationResolvedHosts + "']"
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: resolvedHostsName, VolumeSource: corev1.VolumeSource{
		DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
			{Path: resolvedHostsName, FieldRef: &corev1.ObjectFieldSelector{FieldPath: annotation}},
		}},
	}})
	container := &spec.Containers[0]
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: resolvedHostsName, MountPath: resolvedHostsDir, ReadOnly: true})
}

// addRights adds the rights of needs that the pod's container lacks.
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
