package probe

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// strip keeps only the fields that probes read: the worker holds all pods of each
// namespace with probes, in memory that cleanup needs, too. If env is true it keeps the
// variables of containers, for the commands of exec probes.
func strip(env bool) func(any) (any, error) {
	return func(object any) (any, error) {
		switch o := object.(type) {
		case *corev1.Pod:
			return stripPod(o, env), nil
		case *corev1.Service:
			return &corev1.Service{ObjectMeta: stripMeta(o.ObjectMeta), Spec: corev1.ServiceSpec{ClusterIPs: o.Spec.ClusterIPs}}, nil
		case *discoveryv1.EndpointSlice:
			kept := &discoveryv1.EndpointSlice{ObjectMeta: stripMeta(o.ObjectMeta)}
			kept.Labels = map[string]string{discoveryv1.LabelServiceName: o.Labels[discoveryv1.LabelServiceName]}
			for _, endpoint := range o.Endpoints {
				kept.Endpoints = append(kept.Endpoints, discoveryv1.Endpoint{Addresses: endpoint.Addresses})
			}
			return kept, nil
		}
		return object, nil
	}
}

func stripPod(pod *corev1.Pod, env bool) *corev1.Pod {
	kept := &corev1.Pod{ObjectMeta: stripMeta(pod.ObjectMeta)}
	kept.Labels, kept.DeletionTimestamp = pod.Labels, pod.DeletionTimestamp
	kept.Spec.HostNetwork, kept.Spec.RestartPolicy = pod.Spec.HostNetwork, pod.Spec.RestartPolicy
	for _, container := range pod.Spec.Containers {
		stripped := corev1.Container{Name: container.Name}
		for _, port := range container.Ports {
			if port.Name != "" {
				stripped.Ports = append(stripped.Ports, corev1.ContainerPort{Name: port.Name, ContainerPort: port.ContainerPort})
			}
		}
		if env {
			for _, variable := range container.Env {
				stripped.Env = append(stripped.Env, corev1.EnvVar{Name: variable.Name, Value: variable.Value})
			}
		}
		kept.Spec.Containers = append(kept.Spec.Containers, stripped)
	}
	kept.Status.Phase, kept.Status.PodIP, kept.Status.PodIPs = pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			kept.Status.Conditions = []corev1.PodCondition{{Type: condition.Type, Status: condition.Status}}
		}
	}
	for _, status := range pod.Status.ContainerStatuses {
		kept.Status.ContainerStatuses = append(kept.Status.ContainerStatuses,
			corev1.ContainerStatus{Name: status.Name, ContainerID: status.ContainerID, State: stripState(status.State)})
	}
	return kept
}

// stripState keeps whether a container runs, and since when, or has ended.
func stripState(state corev1.ContainerState) corev1.ContainerState {
	switch {
	case state.Running != nil:
		return corev1.ContainerState{Running: state.Running}
	case state.Terminated != nil:
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	}
	return corev1.ContainerState{}
}

func stripMeta(meta metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: meta.Name, Namespace: meta.Namespace, UID: meta.UID, ResourceVersion: meta.ResourceVersion}
}
