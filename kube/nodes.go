package kube

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// NodeHealthy is true for a node that may be a target: it is ready, an injector
// can run there, and nobody is deleting it.
func NodeHealthy(node *corev1.Node) bool {
	return NodeReady(node) && NodeRunsInjectors(node) && node.DeletionTimestamp == nil
}

// NodeRunsInjectors is false for a node that says that it is not Linux, or that
// no kubelet stands behind it.
func NodeRunsInjectors(node *corev1.Node) bool {
	return isLinux(node.Labels) && node.Labels["type"] != "virtual-kubelet"
}

// isLinux is true unless the labels of a node, or those that a pod wants of its
// node, name another operating system.
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
