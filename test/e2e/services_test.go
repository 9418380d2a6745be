//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// TestAServiceIsDisturbedAndFollowed: packets from a target to a service are lost,
// at the service's address and at its endpoints, and the disruption follows the
// service.
func TestAServiceIsDisturbedAndFollowed(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	pods := s.targets(3)
	first, second, victim := pods[0], pods[1], pods[2]
	s.label(first, "backend")
	s.label(second, "spare")
	made, err := s.kube.CoreV1().Services(s.name).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "backend"},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "backend"}, Ports: []corev1.ServicePort{
			{Name: "echo", Port: 9090, Protocol: corev1.ProtocolUDP}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.eventuallyLost(victim, made.Spec.ClusterIP, false) // it has its endpoint, and nodes know it
	before := s.snapshots([]corev1.Pod{victim})

	d := s.injected(s.create("followed", "{selector: {app: target}, count: 1, duration: 5m, network: {drop: 100, services: [{name: backend}]}}"))
	s.eventuallyLost(victim, made.Spec.ClusterIP, true)
	s.eventuallyLost(victim, first.Status.PodIP, true)
	s.wantLoss(victim, second, "to no endpoint", 0, 5)

	s.label(second, "backend")
	s.label(first, "spare")
	s.eventuallyLost(victim, second.Status.PodIP, true)
	s.eventuallyLost(victim, first.Status.PodIP, false)

	s.delete(d)
	s.gone(d)
	s.wantLoss(victim, second, "after", 0, 5)
	s.wantSame(before, s.snapshots([]corev1.Pod{victim}))
}

func TestAServiceThatIsNotThereIsRefused(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.targets(1)
	d := s.create("refused", "{selector: {app: target}, count: 1, duration: 5m, network: {drop: 100, services: [{name: nowhere}]}}")
	s.await(d, "rejected, and says why", func(d *v1beta1.Disruption) bool {
		return d.Status.Phase == v1beta1.PhaseRejected && strings.Contains(fmt.Sprint(d.Status.Conditions), s.name+"/nowhere does not exist")
	})
	if pods := s.chaosPods(t, d); len(pods) > 0 {
		t.Errorf("%d chaos pods of a disruption that was refused", len(pods))
	}
}

// eventuallyLost waits until all datagrams that a pod sends to an address are
// lost, or none.
func (s *space) eventuallyLost(from corev1.Pod, address string, all bool) {
	s.t.Helper()
	eventually(s.t, func() string {
		var result struct{ Sent, Received int }
		err := s.exec(s.t.Context(), &result, s.name, from.Name, "/target", "ping", "--udp", address+":9090",
			"--sockets", "5", "--count", "5", "--timeout", "500ms", "--interval", "2ms")
		if err != nil {
			return err.Error()
		}
		if result.Sent > 0 && (all && result.Received == 0 || !all && result.Received == result.Sent) {
			return ""
		}
		return fmt.Sprintf("%d of %d datagrams to %s were answered; all lost is wanted: %t", result.Received, result.Sent, address, all)
	})
}
