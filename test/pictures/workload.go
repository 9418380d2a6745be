package main

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// start runs what is disturbed, and a client on the other node.
func (s *space) start(ctx context.Context, p plan, r run) (err error) {
	if r.workload != nil {
		if err := r.workload(ctx, s); err != nil || r.alone {
			return err
		}
	}
	node := s.nodes[0]
	if p.ownKernel {
		node = s.own.Name
	}
	target, asking := s.pod("target", node), s.pod("client", s.nodes[1])
	if r.target != nil {
		r.target(target)
	}
	asking.Spec.Containers[0].Image, asking.Spec.Containers[0].Args = target.Spec.Containers[0].Image, []string{"serve"}
	if s.target, err = s.running(ctx, target); err != nil {
		return err
	}
	s.client, err = s.running(ctx, asking)
	return err
}

// pod is one of a container and with a volume, not yet created.
func (s *space) pod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			NodeName: node, TerminationGracePeriodSeconds: new(int64),
			Containers: []corev1.Container{{
				Name: name, Image: targetImage, ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"serve"},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
			}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		},
	}
}

// running creates a pod and returns it as it is when its container runs.
func (s *space) running(ctx context.Context, pod *corev1.Pod) (corev1.Pod, error) {
	if err := s.api.Create(ctx, pod); err != nil {
		return *pod, err
	}
	err := await(ctx, func() error {
		if err := s.api.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if statuses := pod.Status.ContainerStatuses; len(statuses) == 0 || statuses[0].State.Running == nil {
			return fmt.Errorf("pod %s is %s: %v", pod.Name, pod.Status.Phase, statuses)
		}
		return nil
	})
	return *pod, err
}

// serviceNames are those that names asks for.
var serviceNames = []string{"orders-db", "payments", "stock"}

// services have names to be asked for.
func services(ctx context.Context, s *space) error {
	for _, name := range serviceNames {
		err := s.api.Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.name},
			Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "target"}, Ports: []corev1.ServicePort{{Port: 80}}}})
		if err != nil {
			return err
		}
	}
	return nil
}

// deployment has a pod on each of two nodes.
func deployment(ctx context.Context, s *space) error {
	two, labels := int32(2), map[string]string{"app": "target"}
	template := s.pod("target", "")
	template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelHostname,
		WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{MatchLabels: labels}}}
	err := s.api.Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "target", Namespace: s.name}, Spec: appsv1.DeploymentSpec{
		Replicas: &two, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: template.Spec},
	}})
	if err != nil {
		return err
	}
	return await(ctx, func() error {
		var now appsv1.Deployment
		if err := s.api.Get(ctx, client.ObjectKey{Namespace: s.name, Name: "target"}, &now); err != nil {
			return err
		}
		if now.Status.ReadyReplicas != two {
			return fmt.Errorf("%d pods of the Deployment are ready", now.Status.ReadyReplicas)
		}
		return nil
	})
}

// ask asks the probe on the target's node.
func (s *space) ask(ctx context.Context, into any, command ...string) error {
	return s.probes.Run(ctx, into, s.target.Spec.NodeName, command...)
}

// containerID is the runtime's name of a pod's container.
func containerID(pod corev1.Pod) string {
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	return id
}
