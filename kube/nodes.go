package kube

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// NodeHealthy is true for a node that may be a target: it is ready, an injector can run
// there, and it is not being deleted.
func NodeHealthy(node *corev1.Node) bool {
	return NodeReady(node) && NodeRunsInjectors(node) && node.DeletionTimestamp == nil
}

// UnfitNode returns why a node is not healthy, for people; empty for a healthy one.
func UnfitNode(node *corev1.Node) string {
	switch {
	case NodeHealthy(node):
		return ""
	case node.DeletionTimestamp != nil:
		return "it is being deleted"
	case !NodeReady(node):
		return "it is not ready"
	}
	return "no injector can run there: it is not Linux, or has no kubelet"
}

// NodeRunsInjectors is false for a node that reports another system than Linux, or that
// no kubelet runs.
func NodeRunsInjectors(node *corev1.Node) bool {
	return isLinux(node.Labels) && node.Labels["type"] != "virtual-kubelet"
}

// isLinux is true unless the labels of a node, or the node selector of a pod, name
// another operating system.
func isLinux(labels map[string]string) bool {
	system := labels[corev1.LabelOSStable]
	return system == "" || system == string(corev1.Linux)
}

// NodeReady is true also for a node that is being deleted.
func NodeReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// Kernels has the names of the nodes that run on one kernel, by its boot ID: nodes that
// are containers of one machine report the same.
type Kernels map[string][]string

// Add adds a node. A node without a kubelet has no kernel.
func (k Kernels) Add(node *corev1.Node) {
	if boot := node.Status.NodeInfo.BootID; boot != "" {
		k[boot] = append(k[boot], node.Name)
	}
}

// ReadKernels reads the kernels of all nodes.
func ReadKernels(ctx context.Context, clientset kubernetes.Interface) (Kernels, error) {
	kernels := Kernels{}
	err := Pages(ctx, clientset.CoreV1().Nodes().List, metav1.ListOptions{}, func(nodes *corev1.NodeList) {
		for i := range nodes.Items {
			kernels.Add(&nodes.Items[i])
		}
	})
	return kernels, err
}

// SharedKernel returns why a node must not be ended whose kernel another node runs on.
func SharedKernel(node, other string) string {
	return fmt.Sprintf("node %s runs on the same kernel as node %s (same boot ID), which would end too; choose a node with its own kernel", node, other)
}

// Shared names, for each node that shares its kernel, one other node on it.
func (k Kernels) Shared() map[string]string {
	shared := map[string]string{}
	for _, nodes := range k {
		for i, name := range nodes {
			switch {
			case i > 0:
				shared[name] = nodes[0]
			case len(nodes) > 1:
				shared[name] = nodes[1]
			}
		}
	}
	return shared
}
