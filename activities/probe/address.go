package probe

import (
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// place returns the host:port to ask: of the target if there is one, otherwise of host.
// It fails for a port name that no container has, and for a pod without an address.
func (t *Target) place(host string, port intstr.IntOrString) (string, error) {
	if t != nil {
		host = t.Pod.Status.PodIP
		if host == "" {
			return "", fmt.Errorf("pod %s has no address yet", t.Pod.Name)
		}
	}
	number := port.IntVal
	if port.Type == intstr.String {
		var err error
		if number, err = t.namedPort(port.StrVal); err != nil {
			return "", err
		}
	}
	return net.JoinHostPort(host, strconv.Itoa(int(number))), nil
}

func (t *Target) namedPort(name string) (int32, error) {
	if t == nil {
		return 0, fmt.Errorf("port %q is a name, and there is no container that could have it: want a number", name)
	}
	container := t.container()
	for _, port := range container.Ports {
		if port.Name == name {
			return port.ContainerPort, nil
		}
	}
	return 0, fmt.Errorf("container %s of pod %s has no port of the name %q", container.Name, t.Pod.Name, name)
}

// container is the container that is asked; the zero value if the pod has none of that
// name.
func (t *Target) container() corev1.Container {
	for _, container := range t.Pod.Spec.Containers {
		if t.Container == "" || container.Name == t.Container {
			return container
		}
	}
	return corev1.Container{}
}

// status is what the kubelet reports of the container that is asked; the zero value
// without a report.
func (t *Target) status() corev1.ContainerStatus {
	name := t.container().Name
	for _, status := range t.Pod.Status.ContainerStatuses {
		if status.Name == name {
			return status
		}
	}
	return corev1.ContainerStatus{}
}
