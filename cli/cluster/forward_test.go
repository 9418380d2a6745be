package cluster

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

func TestServiceOf(t *testing.T) {
	for address, want := range map[string]string{
		"temporal-frontend.temporal:7233":                    "temporal/temporal-frontend",
		"temporal-frontend.temporal.svc:7233":                "temporal/temporal-frontend",
		"temporal-frontend.temporal.svc.cluster.local:7233":  "temporal/temporal-frontend",
		"temporal-frontend.temporal.svc.cluster.local.:7233": "temporal/temporal-frontend",
		"temporal.example.com:7233":                          "",
		"127.0.0.1:7233":                                     "",
		"[::1]:7233":                                         "",
		"localhost:7233":                                     "",
		"temporal-frontend.temporal":                         "",
		"temporal-frontend.temporal:grpc":                    "",
	} {
		namespace, service, port, ok := ServiceOf(address)
		if got := strings.Trim(namespace+"/"+service, "/"); got != want || ok != (want != "") || ok && port != 7233 {
			t.Errorf("ServiceOf(%s) = %s, %d, %t; want %q", address, got, port, ok, want)
		}
	}
}

func TestReadyPod(t *testing.T) {
	yes, no, name, other, number := true, false, "grpc", "metrics", int32(17233)
	ports := []corev1.ServicePort{{Name: "udp", Port: 7233, Protocol: corev1.ProtocolUDP}, {Name: name, Port: 7233, Protocol: corev1.ProtocolTCP}}
	pod := func(pod string, ready *bool) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: pod}, Conditions: discoveryv1.EndpointConditions{Ready: ready}}
	}
	slice := func(port *string, endpoints ...discoveryv1.Endpoint) discoveryv1.EndpointSlice {
		return discoveryv1.EndpointSlice{Ports: []discoveryv1.EndpointPort{{Name: port, Port: &number}}, Endpoints: endpoints}
	}
	for name, c := range map[string]struct {
		port   int32
		slices []discoveryv1.EndpointSlice
		pod    string
		err    string
	}{
		"the first that is ready":     {7233, []discoveryv1.EndpointSlice{slice(&other, pod("m", &yes)), slice(&name, pod("a", &no), pod("b", &yes))}, "b", ""},
		"unknown means ready":         {7233, []discoveryv1.EndpointSlice{slice(&name, pod("a", nil))}, "a", ""},
		"none is ready":               {7233, []discoveryv1.EndpointSlice{slice(&name, pod("a", &no))}, "", "none of its pods is ready"},
		"an address that is no pod's": {7233, []discoveryv1.EndpointSlice{slice(&name, discoveryv1.Endpoint{Addresses: []string{"192.0.2.1"}})}, "", "none of its pods is ready"},
		"a port that it has not":      {80, nil, "", "it has no port 80"},
	} {
		t.Run(name, func(t *testing.T) {
			got, target, err := readyPod(ports, c.port, c.slices)
			if got != c.pod || c.pod != "" && target != number || (err != nil) != (c.err != "") || err != nil && err.Error() != c.err {
				t.Errorf("readyPod = %q, %d, %v; want %q, %q", got, target, err, c.pod, c.err)
			}
		})
	}
}
