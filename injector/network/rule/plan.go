// Package rule decides which packets a network disruption is about: it turns the
// API's hosts into an ordered list of rules. It promises that what keeps a
// target observable and repairable passes unless a user names exactly that, and
// that the same parameters and site always give the same rules.
package rule

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/classifier"
)

// MaxRules is the largest number of rules a disruption may come to, the
// safeguards not counted. A name makes a rule for each of its addresses.
const MaxRules = 2048

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
func Plan(params v1beta1.NetworkDisruption, site Site) ([]classifier.Rule, error) {
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
	return order(pass, drop, classifier.Effect{Drop: classifier.Percent(params.Drop)}, site)
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

// order puts the parts in the order in which they win: what is allowed, what
// the user named so exactly that a safeguard must step back, the safeguards,
// and the rest of what the user asked for.
func order(pass, disturb []classifier.Match, effect classifier.Effect, site Site) ([]classifier.Rule, error) {
	protected := safeguards(site)
	var rules, rest []classifier.Rule
	for _, m := range pass {
		rules = append(rules, conversation(m)...)
	}
	for _, m := range disturb {
		if err := possible(m, site); err != nil {
			return nil, err
		}
		rule := classifier.Rule{Match: m, Effect: effect}
		if slices.ContainsFunc(protected, func(safeguard classifier.Match) bool { return names(m, safeguard) }) {
			rules = append(rules, rule)
			continue
		}
		rest = append(rest, rule)
	}
	for _, m := range protected {
		rules = append(rules, conversation(m)...)
	}
	return append(rules, rest...), nil
}

// safeguards are the conversations without which a target cannot be watched,
// probed or repaired.
func safeguards(site Site) []classifier.Match {
	var protected []classifier.Match
	if site.Level == v1beta1.LevelPod {
		addresses := slices.Concat(site.Gateways, site.NodeIPs)
		slices.SortFunc(addresses, netip.Addr.Compare)
		for _, address := range slices.Compact(addresses) {
			protected = append(protected, classifier.Match{Remote: single(address), Direction: classifier.Egress})
		}
	}
	if site.Level == v1beta1.LevelNode || site.NodeNetwork {
		metadata := netip.AddrFrom4([4]byte{169, 254, 169, 254})
		protected = append(protected,
			classifier.Match{Port: 22, Protocol: classifier.TCP, Direction: classifier.Ingress},
			classifier.Match{Remote: single(metadata), Direction: classifier.Egress})
	}
	return protected
}
