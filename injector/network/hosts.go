package network

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// match is one host of the API with its name replaced by an address.
type match struct {
	remote    netip.Prefix
	port      uint16
	protocol  Protocol
	direction Direction
}

// names reports whether the user, by m, means exactly what the safeguard
// protects, and not something larger that happens to hold it.
func (m match) names(safeguard match) bool {
	if safeguard.remote.IsValid() {
		return m.remote == safeguard.remote
	}
	return m.direction == safeguard.direction && m.port == safeguard.port &&
		(m.protocol == Any || m.protocol == safeguard.protocol)
}

// possible refuses what the kernel cannot tell apart: an arriving packet does
// not belong to a container yet.
func (m match) possible(site Site) error {
	if m.direction != Ingress || m.port != 0 {
		return nil
	}
	if site.NodeNetwork && site.Level == v1beta1.LevelPod {
		return errors.New("flow ingress without a port would hit the whole node, whose network the pod uses; add the port the pod listens on, or use level node")
	}
	if site.SomeContainers {
		return errors.New("flow ingress without a port cannot be limited to some containers of a pod; add the port the container listens on, or leave out spec.containers")
	}
	return nil
}

func (m match) rule() Rule {
	return Rule{Direction: m.direction, Remote: m.remote, Port: m.port, Protocol: m.protocol}
}

// conversation lets the packets of m and the answers to them pass.
func (m match) conversation() []Rule {
	answer := m.rule()
	answer.Direction = Ingress
	if m.direction == Ingress {
		answer.Direction = Egress
	}
	answer.Port, answer.SourcePort = 0, m.port
	return []Rule{m.rule(), answer}
}

func expand(hosts []v1beta1.NetworkHost, resolved map[string][]netip.Addr, field string) ([]match, error) {
	var matches []match
	for i, host := range hosts {
		expanded, err := expandHost(host, resolved)
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", field, i, err)
		}
		matches = append(matches, expanded...)
	}
	return matches, nil
}

func expandHost(host v1beta1.NetworkHost, resolved map[string][]netip.Addr) ([]match, error) {
	m, err := ports(host)
	if err != nil {
		return nil, err
	}
	if host.Host == "" {
		return []match{m}, nil
	}
	if prefix, literal := literalPrefix(host.Host); literal {
		m.remote = prefix
		return []match{m}, nil
	}
	if !isName(host.Host) {
		return nil, fmt.Errorf("host %q: want a name, an IPv4 or IPv6 address, a CIDR such as 10.0.0.0/8, or nothing for every host", host.Host)
	}
	addresses := slices.Clone(resolved[host.Host])
	if len(addresses) == 0 {
		return nil, fmt.Errorf("host %q: has no address", host.Host)
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	var matches []match
	for _, address := range slices.Compact(addresses) {
		m.remote = single(address)
		matches = append(matches, m)
	}
	return matches, nil
}

func ports(host v1beta1.NetworkHost) (match, error) {
	if host.Port < 0 || host.Port > 65535 {
		return match{}, fmt.Errorf("port %d: want 1 to 65535, or 0 for any", host.Port)
	}
	m := match{port: uint16(host.Port)}
	switch strings.ToLower(host.Protocol) {
	case "", "both":
		m.protocol = Any
	case "tcp":
		m.protocol = TCP
	case "udp":
		m.protocol = UDP
	default:
		return match{}, fmt.Errorf("protocol %q: want tcp, udp, or nothing for both", host.Protocol)
	}
	m.direction = cmp.Or(Direction(strings.ToLower(host.Flow)), Egress)
	if m.direction != Egress && m.direction != Ingress {
		return match{}, fmt.Errorf("flow %q: want egress or ingress", host.Flow)
	}
	return m, nil
}

func isName(host string) bool {
	if _, literal := literalPrefix(host); literal || host == "" {
		return false
	}
	return !strings.ContainsAny(host, "/:% \t")
}

// literalPrefix reads an address or a CIDR. An IPv4 address written as IPv6 is
// what is on the wire: IPv4.
func literalPrefix(host string) (netip.Prefix, bool) {
	if address, err := netip.ParseAddr(host); err == nil {
		return single(address), true
	}
	if prefix, err := netip.ParsePrefix(host); err == nil {
		if prefix.Addr().Is4In6() && prefix.Bits() >= 96 {
			prefix = netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-96)
		}
		return prefix.Masked(), true
	}
	return netip.Prefix{}, false
}

func single(address netip.Addr) netip.Prefix {
	address = address.Unmap().WithZone("")
	return netip.PrefixFrom(address, address.BitLen())
}
