//go:build linux

package rule

import (
	"cmp"
	"slices"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Name is a host to resolve, with its resolver: "pod", "node", "pod-fallback-node" or
// "node-fallback-pod".
type Name struct{ Host, Resolver string }

// DefaultResolver resolves hosts without a resolver of their own.
const DefaultResolver = "pod-fallback-node"

// NameOf returns the name to resolve for a host.
func NameOf(host v1beta1.NetworkHost) Name {
	return Name{host.Host, cmp.Or(host.DNSResolver, DefaultResolver)}
}

// Names lists the hosts of params and of the operator that must be resolved,
// sorted, each once for each resolver.
func Names(params v1beta1.NetworkDisruption, operator []v1beta1.NetworkHost) []Name {
	if params.DisableDefaultAllowedHosts {
		operator = nil
	}
	var names []Name
	for _, host := range slices.Concat(params.Hosts, params.AllowedHosts, operator) {
		if isName(host.Host) {
			names = append(names, NameOf(host))
		}
	}
	slices.SortFunc(names, func(a, b Name) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Resolver, b.Resolver))
	})
	return slices.Compact(names)
}
