package kube

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

func servicePort(name string, port int32, protocol corev1.Protocol) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Port: port, Protocol: protocol}
}

// web is a service of two ports whose endpoints listen on others.
func web(clusterIPs ...string) *corev1.Service {
	return &corev1.Service{Spec: corev1.ServiceSpec{ClusterIPs: clusterIPs, ClusterIP: clusterIPs[0], Ports: []corev1.ServicePort{
		servicePort("http", 80, corev1.ProtocolTCP), servicePort("dns", 53, corev1.ProtocolUDP)}}}
}

func slicePort(name string, port int32, protocol corev1.Protocol) discoveryv1.EndpointPort {
	return discoveryv1.EndpointPort{Name: &name, Port: &port, Protocol: &protocol}
}

// endpoints is a slice with ready endpoints; an address that begins with ! is not
// ready.
func endpoints(addresses ...string) discoveryv1.EndpointSlice {
	part := discoveryv1.EndpointSlice{Ports: []discoveryv1.EndpointPort{
		slicePort("http", 8080, corev1.ProtocolTCP), slicePort("dns", 5353, corev1.ProtocolUDP)}}
	for _, address := range addresses {
		address, no := strings.CutPrefix(address, "!")
		ready := !no
		part.Endpoints = append(part.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}})
	}
	return part
}

func TestServiceHosts(t *testing.T) {
	type (
		want  = v1beta1.NetworkService
		ports = []v1beta1.NetworkServicePort
		parts = []discoveryv1.EndpointSlice
	)
	host := func(address string, port int, protocol string) v1beta1.NetworkHost {
		return v1beta1.NetworkHost{Host: address, Port: port, Protocol: protocol}
	}
	hosts := func(all ...v1beta1.NetworkHost) []v1beta1.NetworkHost { return all }
	half := v1beta1.PercentNumber(50)
	withSCTP := web("10.0.0.1")
	withSCTP.Spec.Ports = append(withSCTP.Spec.Ports, servicePort("sig", 99, corev1.ProtocolSCTP))
	portless := &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}}
	unknown := endpoints("10.1.0.7")
	unknown.Endpoints[0].Conditions.Ready = nil
	for name, test := range map[string]struct {
		want    want
		service *corev1.Service
		parts   parts
		hosts   []v1beta1.NetworkHost
		refused string
	}{
		"the cluster address with its ports, endpoints with theirs": {
			service: web("10.0.0.1"), parts: parts{endpoints("10.1.0.2", "10.1.0.1", "!10.1.0.3")},
			hosts: hosts(host("10.0.0.1", 53, "udp"), host("10.0.0.1", 80, "tcp"),
				host("10.1.0.1", 5353, "udp"), host("10.1.0.1", 8080, "tcp"), host("10.1.0.2", 5353, "udp"), host("10.1.0.2", 8080, "tcp")),
		},
		"both families, an endpoint in two parts": {
			want: want{Ports: ports{{Name: "http"}}}, service: web("10.0.0.1", "fd00::1"), parts: parts{endpoints("fd01::1"), endpoints("fd01::1")},
			hosts: hosts(host("10.0.0.1", 80, "tcp"), host("fd00::1", 80, "tcp"), host("fd01::1", 8080, "tcp")),
		},
		"a port by number":              {want: want{Ports: ports{{Port: 53}}}, service: web("10.0.0.1"), hosts: hosts(host("10.0.0.1", 53, "udp"))},
		"a port by both":                {want: want{Ports: ports{{Name: "http", Port: 80}}}, service: web("10.0.0.1"), hosts: hosts(host("10.0.0.1", 80, "tcp"))},
		"headless: endpoints only":      {want: want{Ports: ports{{Port: 80}}}, service: web("None"), parts: parts{endpoints("10.1.0.1")}, hosts: hosts(host("10.1.0.1", 8080, "tcp"))},
		"headless without ports":        {service: portless, parts: parts{endpoints("10.1.0.1")}, hosts: hosts(host("10.1.0.1", 0, ""))},
		"an endpoint says nothing":      {want: want{Ports: ports{{Port: 80}}}, service: web("None"), parts: parts{unknown}, hosts: hosts(host("10.1.0.7", 8080, "tcp"))},
		"an endpoint that is a name":    {want: want{Ports: ports{{Port: 80}}}, service: web("10.0.0.1"), parts: parts{endpoints("db.example.com")}, hosts: hosts(host("10.0.0.1", 80, "tcp"))},
		"a share, with all their ports": {want: want{Percentage: &half}, service: web("None"), parts: parts{endpoints("10.1.0.1")}, hosts: hosts(host("10.1.0.1", 5353, "udp"), host("10.1.0.1", 8080, "tcp"))},
		"no such service":               {refused: "service shop/db does not exist"},
		"a name of something else": {
			service: &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "db.example.com"}},
			refused: "put that into network.hosts",
		},
		"no port of that name":   {want: want{Ports: ports{{Name: "grpc"}}}, service: web("10.0.0.1"), refused: `has no port "grpc", it has "http" (80), "dns" (53)`},
		"no port of both":        {want: want{Ports: ports{{Name: "http", Port: 81}}}, service: web("10.0.0.1"), refused: `has no port "http" (81)`},
		"headless, nobody ready": {service: web("None"), parts: parts{endpoints("!10.1.0.1")}, refused: "neither a cluster address nor a ready endpoint"},
		"one port of two: the other is disturbed": {
			want: want{Ports: ports{{Name: "http"}, {Name: "grpc"}}}, service: web("10.0.0.1"),
			hosts: hosts(host("10.0.0.1", 80, "tcp")), refused: `no port "grpc"`,
		},
		"SCTP cannot be told": {
			service: withSCTP, hosts: hosts(host("10.0.0.1", 53, "udp"), host("10.0.0.1", 80, "tcp")), refused: `"sig" (99) of SCTP`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.Namespace, test.want.Name = "shop", "db"
			got, err := ServiceHosts(test.want, test.service, test.parts, "uid")
			if diff := cmp.Diff(test.hosts, got); diff != "" {
				t.Errorf("hosts (-want +got):\n%s", diff)
			}
			if test.refused == "" && err != nil || test.refused != "" && (err == nil || !strings.Contains(err.Error(), test.refused)) {
				t.Errorf("error = %v, want %q", err, test.refused)
			}
		})
	}
}

func TestServiceHostsAreAShareOfTheAddresses(t *testing.T) {
	quarter := v1beta1.PercentNumber(25)
	want := v1beta1.NetworkService{Name: "db", Namespace: "shop", Percentage: &quarter}
	got, err := ServiceHosts(want, web("None"), []discoveryv1.EndpointSlice{endpoints("10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4", "10.1.0.5")}, "uid")
	if err != nil || len(got) != 4 || got[0].Host == got[3].Host {
		t.Errorf("hosts = %+v, %v, want two addresses of five with two ports each", got, err)
	}
}
