//go:build linux

// Package rule decides which packets a network disruption selects: it turns the API's hosts
// into an ordered list of rules. It promises to pass what keeps a target observable and
// repairable, unless a user names exactly that. The same parameters and site always give
// the same rules.
package rule

import (
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/classifier"
)

// MaxRules is the largest number of rules of a disruption, the safeguards not counted. A
// name makes a rule for each of its addresses.
const MaxRules = 2048

// Site has all inputs of a plan beyond the parameters.
type Site struct {
	Level v1beta1.Level
	// NodeNetwork is true when a pod's network namespace is its node's.
	NodeNetwork bool
	// Gateways are the next hops of the target's default routes.
	Gateways []netip.Addr
	NodeIPs  []netip.Addr
	// Resolved holds the addresses of every host that is a name.
	Resolved map[Name][]netip.Addr
	// ResolvedHosts are the hosts of services and cloud.
	ResolvedHosts []v1beta1.NetworkHost
	// Disruption decides which addresses are the share of a host.
	Disruption types.UID
	// AllowedHosts is the operator's list.
	AllowedHosts []v1beta1.NetworkHost
	// ControlPlane has the peers of the node's kubelet: its connections carry the
	// request to end the chaos pod. At level node only.
	ControlPlane []netip.AddrPort
	// SomeContainers is true when the disruption covers only some of the pod's containers.
	SomeContainers bool
}

// Plan turns parameters into ordered rules. Its errors name the wrong host and what is
// expected instead.
func Plan(params v1beta1.NetworkDisruption, site Site) ([]classifier.Rule, error) {
	effect, err := effectOf(params)
	if err != nil {
		return nil, err
	}
	hosts := params.Hosts
	if len(hosts) == 0 && !params.NeedsResolving() {
		hosts = []v1beta1.NetworkHost{{}}
	}
	allowed := params.AllowedHosts
	if !params.DisableDefaultAllowedHosts {
		allowed = slices.Concat(allowed, site.AllowedHosts)
	}
	pass, err := site.expand(allowed, "allowedHosts")
	if err != nil {
		return nil, err
	}
	disturb, err := site.expand(hosts, "hosts")
	if err != nil {
		return nil, err
	}
	resolved, err := site.expand(site.ResolvedHosts, "addresses of services and cloud")
	if err != nil {
		return nil, err
	}
	disturb = append(disturb, resolved...)
	if count := len(pass) + len(disturb); count > MaxRules {
		return nil, fmt.Errorf("hosts, allowedHosts, services and cloud need %d rules; the limit is %d;"+
			" use CIDRs, fewer names with many addresses, or a percentage of a service", count, MaxRules)
	}
	if len(params.Services) > 0 && !slices.ContainsFunc(disturb, func(m classifier.Match) bool { return m.Direction == classifier.Egress }) {
		disturb = append(disturb, nowhere)
	}
	return order(pass, disturb, effect, site)
}

// nowhere matches no packet: 0.0.0.0 is never a destination. It stands for services without
// an address for now, so that the programs for outgoing packets are in place when they get
// one.
var nowhere = classifier.Match{Remote: netip.MustParsePrefix("0.0.0.0/32"), Direction: classifier.Egress}

func effectOf(params v1beta1.NetworkDisruption) (classifier.Effect, error) {
	for _, share := range []struct {
		name  string
		value int
	}{{"drop", int(params.Drop)}, {"corrupt", int(params.Corrupt)}, {"duplicate", int(params.Duplicate)}} {
		if share.value < 0 || share.value > 100 {
			return classifier.Effect{}, fmt.Errorf("%s %d: want a share in percent, 0 to 100", share.name, share.value)
		}
	}
	return classifier.Effect{
		Drop: classifier.Percent(params.Drop), Corrupt: classifier.Percent(params.Corrupt), Duplicate: classifier.Percent(params.Duplicate),
		Queue: params.Delay > 0 || params.BandwidthLimit > 0,
	}, nil
}

// order sorts the parts by precedence: the connections that end the disruption, allowed
// hosts, hosts that the user named so exactly that a safeguard yields, the safeguards, and
// the user's other hosts.
func order(pass, disturb []classifier.Match, effect classifier.Effect, site Site) ([]classifier.Rule, error) {
	protected := safeguards(site)
	var rules, rest []classifier.Rule
	for _, peer := range site.ControlPlane {
		rules = append(rules, conversation(classifier.Match{
			Remote: single(peer.Addr()), Port: peer.Port(), Protocol: classifier.TCP, Direction: classifier.Egress,
		})...)
	}
	for _, m := range pass {
		rules = append(rules, conversation(m)...)
	}
	for _, m := range disturb {
		if err := possible(m, effect, site); err != nil {
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

// safeguards are the conversations without which a target cannot be watched, probed or
// repaired.
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
