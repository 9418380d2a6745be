//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// needNodeOfItsOwn skips what ends a node where the nodes are containers.
func needNodeOfItsOwn(t *testing.T) {
	if onlyNode == "" {
		t.Skip("needs a node with a kernel of its own (SQUALL_E2E_NODE)")
	}
}

// TestNodeFailureEndsTheNode: a node that ends comes back once, and the status
// reports it.
func TestNodeFailureEndsTheNode(t *testing.T) {
	needNodeOfItsOwn(t)
	for name, shutdown := range map[string]bool{"panic": false, "power off": true} {
		t.Run(name, func(t *testing.T) {
			s := newSpace(t)
			s.targets(1)
			boot := s.bootID(onlyNode)
			began := time.Now()
			d := s.injected(s.endNode(shutdown))
			t.Logf("told after %s", time.Since(began).Round(time.Second))
			began = time.Now()
			s.awaitReady(func(node *corev1.Node) bool { return node.Status.NodeInfo.BootID != boot })
			t.Logf("the node is ready again %s after it was told", time.Since(began).Round(time.Second))
			boot = s.bootID(onlyNode)

			s.delete(d)
			s.gone(d)
			if events := s.events(d.Name, "NodeCameBack"); len(events) != 1 || !strings.Contains(events[0].Message, onlyNode) {
				t.Errorf("events NodeCameBack = %v, want one that names the node", events)
			}
			if now := s.bootID(onlyNode); now != boot {
				t.Errorf("boot ID of the node = %s, want %s: it ended more than once", now, boot)
			}
		})
	}
}

// TestNodeFailureEndsWithoutTheNode: Squall does not wait for a node that stays
// away, and needs no decision.
func TestNodeFailureEndsWithoutTheNode(t *testing.T) {
	needNodeOfItsOwn(t)
	s := newSpace(t)
	s.targets(1)
	boot := s.bootID(onlyNode)
	d := s.endNode(true) // a slow node ends before it has reported
	number := onlyNode[len(onlyNode)-1:]
	s.awaitNode(func(node *corev1.Node) bool { return !kube.NodeReady(node) })
	s.hurt("node", "freeze", number)
	defer s.awaitReady(func(node *corev1.Node) bool { return node.Status.NodeInfo.BootID != boot })
	defer s.hurt("node", "thaw", number)

	s.delete(d)
	s.gone(d)
	if events := s.events(d.Name, "NodeDidNotComeBack"); len(events) != 1 || !strings.Contains(events[0].Message, onlyNode) {
		t.Errorf("events NodeDidNotComeBack = %v, want one that names the node", events)
	}
}

func (s *space) endNode(shutdown bool) *v1beta1.Disruption {
	s.t.Helper()
	return s.create("end-node", fmt.Sprintf("{selector: {app: target}, count: 1, duration: 30m, staticTargeting: true, nodeFailure: {shutdown: %t}}", shutdown))
}

// awaitReady waits until the node is ready and is as wanted.
func (s *space) awaitReady(wanted func(*corev1.Node) bool) {
	s.t.Helper()
	s.awaitNode(func(node *corev1.Node) bool { return kube.NodeReady(node) && wanted(node) })
}

func (s *space) awaitNode(wanted func(*corev1.Node) bool) {
	s.t.Helper()
	eventually(s.t, func() string {
		node, err := s.kube.CoreV1().Nodes().Get(s.t.Context(), onlyNode, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if !wanted(node) {
			return fmt.Sprintf("node %s, boot %s, is not as wanted: ready %t", node.Name, node.Status.NodeInfo.BootID, kube.NodeReady(node))
		}
		return ""
	})
}
