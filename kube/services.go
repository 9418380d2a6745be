package kube

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// ServiceHosts returns the hosts that want means now, sorted: the cluster addresses of
// the service with its ports, and the addresses of its ready endpoints with theirs. The
// slices are the service's own; service is nil if it does not exist. The error lists
// what cannot be disrupted; the rest is returned anyway.
func ServiceHosts(want v1beta1.NetworkService, service *corev1.Service, parts []discoveryv1.EndpointSlice, disruption types.UID) ([]v1beta1.NetworkHost, error) {
	name := want.Namespace + "/" + want.Name
	switch {
	case service == nil:
		return nil, fmt.Errorf("service %s does not exist", name)
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		return nil, fmt.Errorf("service %s is another name of %s (type ExternalName): put that into network.hosts instead", name, service.Spec.ExternalName)
	}
	ports, err := portsOf(want.Ports, service)
	if err != nil {
		err = fmt.Errorf("service %s %w", name, err)
	}
	found := clusterPeers(service, ports)
	for _, part := range parts {
		found = append(found, readyPeers(part, service, ports)...)
	}
	if len(found) == 0 && err == nil {
		err = fmt.Errorf("service %s has neither a cluster address nor a ready endpoint now", name)
	}
	if want.Percentage != nil {
		found = shareOf(found, int(*want.Percentage), name, disruption)
	}
	return hostsOf(found), err
}

// SlicesOf selects the EndpointSlices of a service by their labels.
func SlicesOf(service string) string { return discoveryv1.LabelServiceName + "=" + service }

// peer is a destination of packets to a service. Port 0 is any, and no protocol is all.
type peer struct {
	address  netip.Addr
	port     int
	protocol corev1.Protocol
}

// portsOf returns the requested ports of the service, all if none is requested. The
// error names the ports that cannot be disrupted.
func portsOf(asked []v1beta1.NetworkServicePort, service *corev1.Service) ([]corev1.ServicePort, error) {
	if len(asked) == 0 {
		asked = []v1beta1.NetworkServicePort{{}}
	}
	var ports []corev1.ServicePort
	var errs []error
	for _, a := range asked {
		found := false
		for _, p := range service.Spec.Ports {
			if a.Name != "" && a.Name != p.Name || a.Port != 0 && a.Port != int(p.Port) {
				continue
			}
			found = true
			if protocolOf(p.Protocol) == "" {
				errs = append(errs, fmt.Errorf("has port %s of %s; only TCP and UDP have ports, so name only those ports", portName(p), p.Protocol))
				continue
			}
			ports = append(ports, p)
		}
		if !found && (a.Name != "" || a.Port != 0) {
			errs = append(errs, fmt.Errorf("has no port %s, it has %s", portName(corev1.ServicePort{Name: a.Name, Port: int32(a.Port)}), portNames(service.Spec.Ports)))
		}
	}
	return ports, errors.Join(errs...)
}

func portName(p corev1.ServicePort) string {
	switch {
	case p.Name == "":
		return fmt.Sprint(p.Port)
	case p.Port == 0:
		return fmt.Sprintf("%q", p.Name)
	}
	return fmt.Sprintf("%q (%d)", p.Name, p.Port)
}

func portNames(ports []corev1.ServicePort) string {
	if len(ports) == 0 {
		return "none"
	}
	var names []string
	for _, p := range ports {
		names = append(names, portName(p))
	}
	return strings.Join(names, ", ")
}

// clusterPeers are the service's own addresses; a headless one has none.
func clusterPeers(service *corev1.Service, ports []corev1.ServicePort) []peer {
	var peers []peer
	for _, text := range slices.Concat(service.Spec.ClusterIPs, []string{service.Spec.ClusterIP}) {
		address, err := netip.ParseAddr(text)
		if err != nil {
			continue // the text None, or no address yet
		}
		for _, p := range ports {
			peers = append(peers, peer{address, int(p.Port), p.Protocol})
		}
	}
	return peers
}

// readyPeers are the ready endpoints of a slice. For a headless service without ports
// they match any port.
func readyPeers(part discoveryv1.EndpointSlice, service *corev1.Service, ports []corev1.ServicePort) []peer {
	var where []peer
	if len(service.Spec.Ports) == 0 {
		where = []peer{{}}
	}
	for _, p := range part.Ports {
		asked := slices.ContainsFunc(ports, func(s corev1.ServicePort) bool { return p.Name != nil && s.Name == *p.Name })
		if asked && p.Port != nil && p.Protocol != nil {
			where = append(where, peer{port: int(*p.Port), protocol: *p.Protocol})
		}
	}
	var peers []peer
	for _, endpoint := range part.Endpoints {
		if ready := endpoint.Conditions.Ready; ready != nil && !*ready {
			continue
		}
		for _, text := range endpoint.Addresses {
			address, err := netip.ParseAddr(text)
			if err != nil {
				continue // a name, in a slice of type FQDN
			}
			for _, w := range where {
				peers = append(peers, peer{address, w.port, w.protocol})
			}
		}
	}
	return peers
}

// shareOf keeps a share of the addresses, each with all of its ports.
func shareOf(peers []peer, percentage int, name string, disruption types.UID) []peer {
	var addresses []netip.Addr
	for _, p := range peers {
		addresses = append(addresses, p.address)
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	chosen := v1beta1.Share(slices.Compact(addresses), percentage, name, disruption)
	return slices.DeleteFunc(peers, func(p peer) bool { return !slices.Contains(chosen, p.address) })
}

func hostsOf(peers []peer) []v1beta1.NetworkHost {
	slices.SortFunc(peers, func(a, b peer) int {
		return cmp.Or(a.address.Compare(b.address), cmp.Compare(a.port, b.port), cmp.Compare(a.protocol, b.protocol))
	})
	var hosts []v1beta1.NetworkHost
	for _, p := range slices.Compact(peers) {
		hosts = append(hosts, v1beta1.NetworkHost{Host: p.address.String(), Port: p.port, Protocol: protocolOf(p.protocol)})
	}
	return hosts
}

// protocolOf is empty for a protocol without ports.
func protocolOf(p corev1.Protocol) string {
	switch p {
	case corev1.ProtocolTCP:
		return "tcp"
	case corev1.ProtocolUDP:
		return "udp"
	}
	return ""
}
