//go:build linux

package network

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/attach"
	"github.com/squall-chaos/squall/injector/network/rule"
	"github.com/squall-chaos/squall/injector/oneline"
	"github.com/squall-chaos/squall/injector/resolve"
	"github.com/squall-chaos/squall/injector/target"
)

// survey reads the inputs of a plan, except the addresses of names.
func survey(t *target.Target, c attach.Conn, id target.NetnsID) (rule.Site, error) {
	site := rule.Site{
		Level:          t.Injection.Level,
		AllowedHosts:   t.Injection.AllowedHosts,
		Disruption:     t.Injection.Disruption.UID,
		SomeContainers: t.Injection.Target.SomeContainers,
	}
	var err error
	if site.NodeIPs, err = parseAddresses(t.Injection.Target.NodeIPs); err != nil {
		return rule.Site{}, fmt.Errorf("node %s: %w", t.Injection.Target.NodeName, err)
	}
	if site.NodeNetwork, err = t.SharesNodeNetwork(id); err != nil {
		return rule.Site{}, err
	}
	routes, err := c.Routes()
	site.Gateways = gateways(routes)
	return site, err
}

// controlPlane returns the addresses to which a node must stay connected, so that the
// disruption can end early. These connections never use a pod's own network.
func (i *Injector) controlPlane(ctx context.Context) ([]netip.AddrPort, error) {
	if i.target.Injection.Level != v1beta1.LevelNode {
		return nil, nil
	}
	return i.target.ControlPlane(ctx)
}

func parseAddresses(texts []string) ([]netip.Addr, error) {
	var addresses []netip.Addr
	for _, text := range texts {
		address, err := netip.ParseAddr(text)
		if err != nil {
			return nil, fmt.Errorf("address %q: want an IPv4 or IPv6 address", text)
		}
		addresses = append(addresses, address.Unmap())
	}
	return addresses, nil
}

// gateways are the next hops of the default routes, of both families.
func gateways(routes []netlink.Route) []netip.Addr {
	var gateways []netip.Addr
	add := func(ip net.IP) {
		if address, ok := netip.AddrFromSlice(ip); ok {
			gateways = append(gateways, address.Unmap())
		}
	}
	for _, route := range routes {
		if !isDefault(route) {
			continue
		}
		add(route.Gw)
		if via, ok := route.Via.(*netlink.Via); ok {
			add(via.Addr)
		}
		for _, hop := range route.MultiPath {
			add(hop.Gw)
		}
	}
	return gateways
}

func isDefault(route netlink.Route) bool {
	if route.Dst == nil {
		return true
	}
	ones, _ := route.Dst.Mask.Size()
	return ones == 0 && route.Dst.IP.IsUnspecified()
}

// resolve finds the addresses of all names, each by the resolvers of its host. The error
// names every name that has none.
func (i *Injector) resolve(ctx context.Context) (map[rule.Name][]netip.Addr, error) {
	byResolver := map[string][]string{}
	for _, name := range rule.Names(i.params, i.target.Injection.AllowedHosts) {
		byResolver[name.Resolver] = append(byResolver[name.Resolver], name.Host)
	}
	resolved := map[rule.Name][]netip.Addr{}
	var errs []error
	for _, which := range slices.Sorted(maps.Keys(byResolver)) {
		resolvers, err := i.resolvers(which)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		found, err := resolve.All(ctx, byResolver[which], resolvers)
		errs = append(errs, err)
		for host, addresses := range found {
			resolved[rule.Name{Host: host, Resolver: which}] = addresses
		}
	}
	return resolved, oneline.Join(errs...)
}

// resolvers returns the resolvers of a host's dnsResolver, the first choice first.
func (i *Injector) resolvers(which string) ([]resolve.Resolver, error) {
	node := resolve.Resolver{Who: "the node", Netns: i.target.NodeNetnsPath(), Root: i.target.NodeRoot()}
	pod, hasPod := i.podResolver()
	switch {
	case which == "node":
		return []resolve.Resolver{node}, nil
	case which == "pod" && hasPod:
		return []resolve.Resolver{pod}, nil
	case which == "pod" && i.target.Injection.Level == v1beta1.LevelNode:
		return nil, errors.New("dnsResolver pod: a node has no pod to resolve names; use node")
	case which == "pod":
		return nil, errors.New("dnsResolver pod: none of the pod's containers runs; use pod-fallback-node")
	case !hasPod:
		return []resolve.Resolver{node}, nil
	case which == "node-fallback-pod":
		return []resolve.Resolver{node, pod}, nil
	case which == rule.DefaultResolver:
		return []resolve.Resolver{pod, node}, nil
	}
	return nil, fmt.Errorf("dnsResolver %q: want pod, node, pod-fallback-node or node-fallback-pod", which)
}

// podResolver resolves like the first container that still runs.
func (i *Injector) podResolver() (resolve.Resolver, bool) {
	if i.target.Injection.Level == v1beta1.LevelPod {
		for _, container := range i.target.Containers {
			if container.Check() == nil {
				return resolve.Resolver{Who: "the pod", Netns: container.Netns.Path, Root: container.Root()}, true
			}
		}
	}
	return resolve.Resolver{}, false
}
