package disruption

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/internal/bridgetest"
	"github.com/squall-chaos/squall/workflows/contract"
)

// names are disruptions of a service of the same namespace.
func names(service string) func(*v1beta1.Disruption) {
	return func(d *v1beta1.Disruption) {
		d.Spec.Faults = v1beta1.Faults{Network: &v1beta1.NetworkDisruption{Drop: 100, Services: []v1beta1.NetworkService{{Name: service}}}}
	}
}

// service makes a service and the slice of its endpoints.
func (b *bridge) service(name string, addresses ...string) *discoveryv1.EndpointSlice {
	b.T.Helper()
	b.Must(b.Kube.Create(b.T.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}))
	unnamed, port, protocol := "", int32(8080), corev1.ProtocolTCP
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: b.Namespace, Name: name + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &unnamed, Port: &port, Protocol: &protocol}},
	}
	b.Must(b.Kube.Create(b.T.Context(), slice))
	b.hasEndpoints(slice, addresses...)
	return slice
}

func (b *bridge) hasEndpoints(slice *discoveryv1.EndpointSlice, addresses ...string) {
	b.T.Helper()
	slice.Endpoints = nil
	for _, address := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}})
	}
	b.Must(b.Kube.Update(b.T.Context(), slice))
}

func TestAWorkflowIsInformedWhenItsServicesChange(t *testing.T) {
	b := newBridge(t).start()
	slice := b.service("db", "10.250.0.1")
	other := b.service("other", "10.250.0.9")
	d := b.Disrupt("follows", names("db"))
	b.Disrupt("follows-too", names("db"))
	bridgetest.Eventually(t, bridgetest.Soon, "the workflow has the addresses of the service", func() bool {
		return b.Temporal.LastObservation(d).Services != ""
	})
	b.Quiet()
	first, observations := b.Temporal.LastObservation(d).Services, len(b.Temporal.Signals(d, contract.SignalObserved))

	// Another service and a slice without a new address are no change.
	b.hasEndpoints(other, "10.250.0.10")
	slice.Annotations = map[string]string{"note": "changed"}
	b.hasEndpoints(slice, "10.250.0.1")
	b.Quiet()
	if now := len(b.Temporal.Signals(d, contract.SignalObserved)); now != observations {
		t.Errorf("%d observations, want %d: no address changed", now, observations)
	}

	b.hasEndpoints(slice, "10.250.0.1", "10.250.0.2")
	bridgetest.Eventually(t, bridgetest.Soon, "the workflow is informed of the new endpoint", func() bool {
		return b.Temporal.LastObservation(d).Services != first
	})
	if n := strings.Count(strings.Join(b.Traffic.All(), "\n"), "WATCH services"); n != 1 {
		t.Errorf("%d watches on services for two disruptions of one, want 1", n)
	}
	// The disruption keeps the services that it began with, despite an edit.
	b.Must(b.Kube.Patch(context.Background(), d, client.RawPatch(bridgetest.MergePatch, []byte(`{"spec":{"network":{"services":[{"name":"other"}]}}}`))))
	b.Quiet()
	edited := b.Temporal.LastObservation(d).Services
	b.hasEndpoints(slice, "10.250.0.3")
	bridgetest.Eventually(t, bridgetest.Soon, "the first service is still followed", func() bool {
		return b.Temporal.LastObservation(d).Services != edited
	})
}

func TestServicesAreWatchedNoLongerThanNeeded(t *testing.T) {
	b := newBridge(t).start()
	b.service("db", "10.250.0.1")
	d := b.Disrupt("ends", names("db"))
	bridgetest.Eventually(t, bridgetest.Soon, "the service is watched", func() bool { return b.Temporal.LastObservation(d).Services != "" })
	b.SetStatus(d, func(s *v1beta1.DisruptionStatus) { s.Phase = v1beta1.PhaseCleaning })
	b.Quiet()
	b.Traffic.Reset()
	again := b.Disrupt("begins", names("db"))
	bridgetest.Eventually(t, bridgetest.Soon, "the service is watched again", func() bool { return b.Temporal.LastObservation(again).Services != "" })
	if n := strings.Count(strings.Join(b.Traffic.All(), "\n"), "WATCH services"); n != 1 {
		t.Errorf("%d watches on services, want 1: the other one should have ended with its disruption", n)
	}
}
