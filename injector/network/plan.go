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

// MaxRules is the largest number of rules a disruption may come to, the
// safeguards not counted. A name makes a rule for each of its addresses.
const MaxRules = 2048

// Direction is where a packet goes, seen from the target.
type Direction string

// The directions; in the API's words they are flows.
const (
	Egress  Direction = "egress"
	Ingress Direction = "ingress"
)

// Protocol is an IP protocol number; Any matches every protocol.
type Protocol uint8

// The protocols a rule can ask for.
const (
	Any Protocol = 0
	TCP Protocol = 6
	UDP Protocol = 17
)

// Percent is the share of packets dropped, 0 to 100. 0 lets all pass.
type Percent int

// Pass is the verdict that drops nothing.
const Pass Percent = 0

// Rule is a match and its verdict. The first rule that matches a packet
// decides; a packet that matches none passes.
type Rule struct {
	Direction Direction
	// Remote is matched against the address of the other end: the destination
	// on egress, the source on ingress. The zero prefix matches every address
	// of both families.
	Remote netip.Prefix
	// Port is the destination port, SourcePort the source port; 0 means any.
	// A rule with a port matches TCP and UDP only, and no later fragment.
	Port, SourcePort uint16
	Protocol         Protocol
	Drop             Percent
}

// Site is all a plan depends on beyond the parameters.
type Site struct {
	Level v1beta1.Level
	// NodeNetwork is true when a pod's network namespace is its node's.
	NodeNetwork bool
	// Gateways are the next hops of the target's default routes.
	Gateways []netip.Addr
	NodeIPs  []netip.Addr
	// Resolved holds the addresses of every host that is a name.
	Resolved map[string][]netip.Addr
	// AllowedHosts is the operator's list.
	AllowedHosts []v1beta1.NetworkHost
	// SomeContainers is true when only a part of the pod's containers is meant.
	SomeContainers bool
}

// Plan turns parameters into the ordered rules that carry them out. Its errors
// name the host at fault and say what is expected instead.
func Plan(params v1beta1.NetworkDisruption, site Site) ([]Rule, error) {
	if params.Drop < 0 || params.Drop > 100 {
		return nil, fmt.Errorf("drop %d: want a share in percent, 0 to 100", params.Drop)
	}
	hosts := params.Hosts
	if len(hosts) == 0 {
		hosts = []v1beta1.NetworkHost{{}}
	}
	allowed := params.AllowedHosts
	if !params.DisableDefaultAllowedHosts {
		allowed = slices.Concat(allowed, site.AllowedHosts)
	}
	pass, err := expand(allowed, site.Resolved, "allowedHosts")
	if err != nil {
		return nil, err
	}
	drop, err := expand(hosts, site.Resolved, "hosts")
	if err != nil {
		return nil, err
	}
	if count := len(pass) + len(drop); count > MaxRules {
		return nil, fmt.Errorf("hosts and allowedHosts come to %d rules, at most %d are possible; use CIDRs, or fewer names with many addresses", count, MaxRules)
	}
	return order(pass, drop, Percent(params.Drop), site)
}

// Names lists the hosts of params and of the operator that must be resolved,
// sorted, each once.
func Names(params v1beta1.NetworkDisruption, operator []v1beta1.NetworkHost) []string {
	if params.DisableDefaultAllowedHosts {
		operator = nil
	}
	var names []string
	for _, host := range slices.Concat(params.Hosts, params.AllowedHosts, operator) {
		if isName(host.Host) {
			names = append(names, host.Host)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Directions lists the directions in which rules can drop anything.
func Directions(rules []Rule) []Direction {
	var directions []Direction
	for _, direction := range []Direction{Egress, Ingress} {
		if slices.ContainsFunc(rules, func(r Rule) bool { return r.Direction == direction && r.Drop > 0 }) {
			directions = append(directions, direction)
		}
	}
	return directions
}

// order puts the parts in the order in which they win: what is allowed, what
// the user named so exactly that a safeguard must step back, the safeguards,
// and the rest of what the user asked for.
func order(pass, drop []match, share Percent, site Site) ([]Rule, error) {
	protected := safeguards(site)
	var rules, rest []Rule
	for _, m := range pass {
		rules = append(rules, m.conversation()...)
	}
	for _, m := range drop {
		if err := m.possible(site); err != nil {
			return nil, err
		}
		rule := m.rule()
		rule.Drop = share
		if slices.ContainsFunc(protected, m.names) {
			rules = append(rules, rule)
			continue
		}
		rest = append(rest, rule)
	}
	for _, m := range protected {
		rules = append(rules, m.conversation()...)
	}
	return append(rules, rest...), nil
}

// match is one host of the API with its name replaced by an address.
type match struct {
	remote    netip.Prefix
	port      uint16
	protocol  Protocol
	direction Direction
}

// safeguards are the conversations without which a target cannot be watched,
// probed or repaired.
func safeguards(site Site) []match {
	var protected []match
	if site.Level == v1beta1.LevelPod {
		addresses := slices.Concat(site.Gateways, site.NodeIPs)
		slices.SortFunc(addresses, netip.Addr.Compare)
		for _, address := range slices.Compact(addresses) {
			protected = append(protected, match{remote: single(address), direction: Egress})
		}
	}
	if site.Level == v1beta1.LevelNode || site.NodeNetwork {
		metadata := netip.AddrFrom4([4]byte{169, 254, 169, 254})
		protected = append(protected,
			match{port: 22, protocol: TCP, direction: Ingress},
			match{remote: single(metadata), direction: Egress})
	}
	return protected
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
