package kube

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// NodeHealthy is true for a node that may be a target: it is ready, and nobody
// is deleting it.
func NodeHealthy(node *corev1.Node) bool {
	return NodeReady(node) && node.DeletionTimestamp == nil
}

// NodeReady is true also for a node that is being deleted.
func NodeReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
