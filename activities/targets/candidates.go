package targets

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// Healthy lists the running pods, or ready nodes, that match the disruption's
// selector. It is a live, consistent read: a failure is an error, never an
// empty list.
func (s *Store) Healthy(ctx context.Context, d *v1beta1.Disruption) ([]Candidate, error) {
	if err := s.acquireList(ctx); err != nil {
		return nil, err
	}
	defer s.releaseList()
	selector, err := d.Spec.LabelSelector()
	if err != nil {
		return nil, fmt.Errorf("selector of disruption %s/%s: %w", d.Namespace, d.Name, err)
	}
	options := metav1.ListOptions{LabelSelector: selector.String()}
	if d.Spec.Level == v1beta1.LevelNode {
		return s.readyNodes(ctx, d, options)
	}
	options.Limit = s.pageSize
	var found []Candidate
	for {
		pods, err := s.Kube.CoreV1().Pods(d.Namespace).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("list pods of namespace %s that match %q: %w", d.Namespace, options.LabelSelector, err)
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			if !kube.PodHealthy(pod) || !d.Spec.Matches(pod.Labels, pod.Annotations) {
				continue
			}
			if c := podCandidate(pod, d.Spec.Containers); len(c.Target.Containers) > 0 || !has(pod, c.Missing) {
				found = append(found, c)
			}
		}
		if options.Continue = pods.Continue; options.Continue == "" {
			return found, nil
		}
	}
}

// acquireList waits until few enough other lists are under way.
func (s *Store) acquireList(ctx context.Context) error {
	select {
	case s.listSlots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for other disruptions that choose targets: %w", ctx.Err())
	}
}

func (s *Store) releaseList() { <-s.listSlots }

func (s *Store) readyNodes(ctx context.Context, d *v1beta1.Disruption, options metav1.ListOptions) ([]Candidate, error) {
	nodes, err := s.Kube.CoreV1().Nodes().List(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("list nodes that match %q: %w", options.LabelSelector, err)
	}
	var found []Candidate
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if !kube.NodeHealthy(node) || !d.Spec.Matches(node.Labels, node.Annotations) {
			continue
		}
		target := v1beta1.InjectionTarget{Name: node.Name, UID: node.UID, NodeName: node.Name}
		for _, address := range node.Status.Addresses {
			if address.Type == corev1.NodeInternalIP || address.Type == corev1.NodeExternalIP {
				target.NodeIPs = append(target.NodeIPs, address.Address)
			}
		}
		found = append(found, Candidate{Target: target})
	}
	return found, nil
}

// has tells whether the pod has a container of that name, whether it runs or not.
// One of which no wanted container runs is no candidate now; one that lacks them
// never is, and a person must know.
func has(pod *corev1.Pod, container string) bool {
	return slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), func(c corev1.Container) bool { return c.Name == container })
}

// podCandidate describes a pod as an injector needs it. wanted are the
// container names of spec.containers; empty means all that run.
func podCandidate(pod *corev1.Pod, wanted []string) Candidate {
	c := Candidate{Target: v1beta1.InjectionTarget{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, NodeName: pod.Spec.NodeName,
	}}
	for _, ip := range pod.Status.HostIPs {
		c.Target.NodeIPs = append(c.Target.NodeIPs, ip.IP)
	}
	for _, ip := range pod.Status.PodIPs {
		c.Target.PodIPs = append(c.Target.PodIPs, ip.IP)
	}
	running := 0
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if status.State.Running == nil {
			continue
		}
		running++
		if len(wanted) > 0 && !slices.Contains(wanted, status.Name) {
			continue
		}
		_, id, _ := strings.Cut(status.ContainerID, "://")
		c.Target.Containers = append(c.Target.Containers, v1beta1.InjectionContainer{Name: status.Name, ID: id})
	}
	c.Target.SomeContainers = len(c.Target.Containers) < running
	for _, name := range wanted {
		if !slices.ContainsFunc(c.Target.Containers, func(r v1beta1.InjectionContainer) bool { return r.Name == name }) {
			c.Missing = name
		}
	}
	return c
}
