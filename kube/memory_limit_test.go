package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestWithoutMemoryLimit(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	limited := corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}}
	onCPUs := corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}
	for name, test := range map[string]struct {
		spec corev1.PodSpec
		want string
	}{
		"a limit on each":         {corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Resources: limited}, {Name: "b", Resources: limited}}}, ""},
		"none on the second":      {corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Resources: limited}, {Name: "b", Resources: onCPUs}}}, "b"},
		"a limit of the pod":      {corev1.PodSpec{Resources: &limited, Containers: []corev1.Container{{Name: "a"}}}, ""},
		"the pod's is on CPUs":    {corev1.PodSpec{Resources: &onCPUs, Containers: []corev1.Container{{Name: "a"}}}, "a"},
		"an init container":       {corev1.PodSpec{InitContainers: []corev1.Container{{Name: "i"}}, Containers: []corev1.Container{{Name: "a", Resources: limited}}}, ""},
		"a sidecar, which stays":  {corev1.PodSpec{InitContainers: []corev1.Container{{Name: "s", RestartPolicy: &always}}, Containers: []corev1.Container{{Name: "a", Resources: limited}}}, "s"},
		"a sidecar with a limit":  {corev1.PodSpec{InitContainers: []corev1.Container{{Name: "s", RestartPolicy: &always, Resources: limited}}, Containers: []corev1.Container{{Name: "a", Resources: limited}}}, ""},
		"nothing said of anybody": {corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := WithoutMemoryLimit(&corev1.Pod{Spec: test.spec}); got != test.want {
				t.Errorf("WithoutMemoryLimit = %q, want %q", got, test.want)
			}
		})
	}
}
