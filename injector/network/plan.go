package network

import (
	"fmt"
	"net/netip"
	"slices"

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
