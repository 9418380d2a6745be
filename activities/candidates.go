package activities

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// looksAtOnce bounds for how many disruptions a worker lists candidates at once,
// and pageSize what each of them holds in memory: one page of pods. All pages
// are of one moment. Tests take smaller ones.
const looksAtOnce = 8

var pageSize int64 = 1000

// healthy lists the running pods, or ready nodes, that match the disruption's
// selector. It is a live, consistent read: a failure is an error, never an
// empty list.
func (a *Activities) healthy(ctx context.Context, d *v1beta1.Disruption) ([]candidate, error) {
	if err := a.looks.acquire(ctx); err != nil {
		return nil, err
	}
	defer a.looks.release()
	selector, err := d.Spec.LabelSelector()
	if err != nil {
		return nil, fmt.Errorf("selector of disruption %s/%s: %w", d.Namespace, d.Name, err)
	}
	options := metav1.ListOptions{LabelSelector: selector.String()}
	if d.Spec.Level == v1beta1.LevelNode {
		return a.readyNodes(ctx, d, options)
	}
	options.Limit = pageSize
	var found []candidate
	for {
		pods, err := a.Kube.CoreV1().Pods(d.Namespace).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("list pods of namespace %s that match %q: %w", d.Namespace, options.LabelSelector, err)
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			if kube.PodHealthy(pod) && d.Spec.Matches(pod.Labels, pod.Annotations) {
				found = append(found, podCandidate(pod, d.Spec.Containers))
			}
		}
		if options.Continue = pods.Continue; options.Continue == "" {
			return found, nil
		}
	}
}

// looks are those under way; the zero value is ready.
type looks struct {
	once  sync.Once
	slots chan struct{}
}

func (l *looks) acquire(ctx context.Context) error {
	l.once.Do(func() { l.slots = make(chan struct{}, looksAtOnce) })
	select {
	case l.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for other disruptions that choose targets: %w", ctx.Err())
	}
}

func (l *looks) release() { <-l.slots }

func (a *Activities) readyNodes(ctx context.Context, d *v1beta1.Disruption, options metav1.ListOptions) ([]candidate, error) {
	nodes, err := a.Kube.CoreV1().Nodes().List(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("list nodes that match %q: %w", options.LabelSelector, err)
	}
	var found []candidate
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
		found = append(found, candidate{target: target})
	}
	return found, nil
}

// podCandidate describes a pod as an injector needs it. wanted are the
// container names of spec.containers; empty means all that run.
func podCandidate(pod *corev1.Pod, wanted []string) candidate {
	c := candidate{target: v1beta1.InjectionTarget{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, NodeName: pod.Spec.NodeName,
	}}
	for _, ip := range pod.Status.HostIPs {
		c.target.NodeIPs = append(c.target.NodeIPs, ip.IP)
	}
	for _, ip := range pod.Status.PodIPs {
		c.target.PodIPs = append(c.target.PodIPs, ip.IP)
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
		c.target.Containers = append(c.target.Containers, v1beta1.InjectionContainer{Name: status.Name, ID: id})
	}
	c.target.SomeContainers = len(c.target.Containers) < running
	for _, name := range wanted {
		if !slices.ContainsFunc(c.target.Containers, func(r v1beta1.InjectionContainer) bool { return r.Name == name }) {
			c.missing = name
		}
	}
	return c
}
