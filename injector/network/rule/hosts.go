//go:build linux

package rule

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/classifier"
)

// names is true if the user, by m, means exactly what the safeguard protects, and not a
// larger set that contains it.
func names(m, safeguard classifier.Match) bool {
	if safeguard.Remote.IsValid() {
		return m.Remote == safeguard.Remote
	}
	return m.Direction == safeguard.Direction && m.Port == safeguard.Port &&
		(m.Protocol == classifier.Any || m.Protocol == safeguard.Protocol)
}

// possible refuses rules that the kernel cannot apply. Before an arriving packet belongs to
// a container, the kernel can select by port only; later it can only drop it.
func possible(m classifier.Match, effect classifier.Effect, site Site) error {
	if m.Direction != classifier.Ingress || m.Port != 0 || effect == (classifier.Effect{Drop: effect.Drop}) {
		return nil
	}
	if site.NodeNetwork && site.Level == v1beta1.LevelPod {
		return errors.New("flow ingress without a port can only drop here, as the pod uses the node's network;" +
			" add the pod's port, or use level node")
	}
	if site.SomeContainers {
		return errors.New("flow ingress without a port can only drop here, because spec.containers is set;" +
			" add the container's port, or leave out spec.containers")
	}
	return nil
}

// conversation passes the packets of m and the answers to them. A packet of state New has
// no answer: the answer would be established.
func conversation(m classifier.Match) []classifier.Rule {
	if m.State == classifier.New {
		return []classifier.Rule{{Match: m}}
	}
	answer := m
	answer.Direction = classifier.Ingress
	if m.Direction == classifier.Ingress {
		answer.Direction = classifier.Egress
	}
	answer.Port, answer.SourcePort = 0, m.Port
	return []classifier.Rule{{Match: m}, {Match: answer}}
}

func (s Site) expand(hosts []v1beta1.NetworkHost, field string) ([]classifier.Match, error) {
	var matches []classifier.Match
	for i, host := range hosts {
		expanded, err := s.expandHost(host)
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", field, i, err)
		}
		matches = append(matches, expanded...)
	}
	return matches, nil
}

func (s Site) expandHost(host v1beta1.NetworkHost) ([]classifier.Match, error) {
	m, err := traffic(host)
	if err != nil {
		return nil, err
	}
	if host.Host == "" {
		return []classifier.Match{m}, nil
	}
	if prefix, literal := literalPrefix(host.Host); literal {
		m.Remote = prefix
		return []classifier.Match{m}, nil
	}
	if !isName(host.Host) {
		return nil, fmt.Errorf("host %q: want a name, an IPv4 or IPv6 address, a CIDR such as 10.0.0.0/8, or nothing for every host", host.Host)
	}
	addresses := slices.Clone(s.Resolved[NameOf(host)])
	if len(addresses) == 0 {
		return nil, fmt.Errorf("host %q: has no address", host.Host)
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	addresses = slices.Compact(addresses)
	if host.Percentage != nil {
		addresses = v1beta1.Share(addresses, int(*host.Percentage), host.Host, s.Disruption)
	}
	var matches []classifier.Match
	for _, address := range addresses {
		m.Remote = single(address)
		matches = append(matches, m)
	}
	return matches, nil
}

// traffic reads all of a host but its addresses.
func traffic(host v1beta1.NetworkHost) (classifier.Match, error) {
	if host.Port < 0 || host.Port > 65535 {
		return classifier.Match{}, fmt.Errorf("port %d: want 1 to 65535, or 0 for any", host.Port)
	}
	m := classifier.Match{Port: uint16(host.Port)}
	switch strings.ToLower(host.Protocol) {
	case "", "both":
		m.Protocol = classifier.Any
	case "tcp":
		m.Protocol = classifier.TCP
	case "udp":
		m.Protocol = classifier.UDP
	default:
		return classifier.Match{}, fmt.Errorf("protocol %q: want tcp, udp, or nothing for both", host.Protocol)
	}
	m.Direction = cmp.Or(classifier.Direction(strings.ToLower(host.Flow)), classifier.Egress)
	if m.Direction != classifier.Egress && m.Direction != classifier.Ingress {
		return classifier.Match{}, fmt.Errorf("flow %q: want egress or ingress", host.Flow)
	}
	switch strings.ToLower(host.ConnState) {
	case "":
	case "new":
		m.State = classifier.New
	case "est":
		m.State = classifier.Established
	default:
		return classifier.Match{}, fmt.Errorf("connState %q: want new, est, or nothing for both", host.ConnState)
	}
	if host.Percentage != nil && (*host.Percentage < 1 || *host.Percentage > 100) {
		return classifier.Match{}, fmt.Errorf("percentage %d: want a share in percent, 1 to 100", *host.Percentage)
	}
	return m, nil
}

func isName(host string) bool {
	if _, literal := literalPrefix(host); literal || host == "" {
		return false
	}
	return !strings.ContainsAny(host, "/:% \t")
}

// literalPrefix reads an address or a CIDR. An IPv4 address written as IPv6 becomes IPv4,
// as on the wire.
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
