package network

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/attach"
	"github.com/squall-chaos/squall/injector/network/rule"
	"github.com/squall-chaos/squall/injector/resolve"
	"github.com/squall-chaos/squall/injector/target"
)

// survey finds out what a plan depends on, the addresses of names excepted.
func survey(t *target.Target, c attach.Conn, id target.NetnsID) (rule.Site, error) {
	site := rule.Site{
		Level:          t.Injection.Level,
		AllowedHosts:   t.Injection.AllowedHosts,
		SomeContainers: t.Injection.Target.SomeContainers,
	}
	var err error
	if site.NodeIPs, err = parseAddresses(t.Injection.Target.NodeIPs); err != nil {
		return rule.Site{}, fmt.Errorf("node %s: %w", t.Injection.Target.NodeName, err)
	}
	podIPs, err := parseAddresses(t.Injection.Target.PodIPs)
	if err != nil {
		return rule.Site{}, fmt.Errorf("pod %s: %w", t.Injection.Target.Name, err)
	}
	// Two signs, as each can be missing: the addresses may not be known yet,
	// and the node's first process may be one that nobody can look at.
	node, err := t.NodeNetns()
	site.NodeNetwork = (err == nil && node.NetnsID == id) ||
		slices.ContainsFunc(podIPs, func(a netip.Addr) bool { return slices.Contains(site.NodeIPs, a) })
	routes, err := c.Routes()
	site.Gateways = gateways(routes)
	return site, err
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

// resolve finds the addresses of all names, as the target would and, failing
// that, as its node would.
func (i *Injector) resolve(ctx context.Context) (map[string][]netip.Addr, error) {
	names := rule.Names(i.params, i.target.Injection.AllowedHosts)
	if len(names) == 0 {
		return nil, nil
	}
	resolvers := []resolve.Resolver{{Who: "the node", Netns: i.target.NodeNetnsPath(), Root: i.target.NodeRoot()}}
	if i.target.Injection.Level == v1beta1.LevelPod {
		for _, container := range i.target.Containers {
			if container.Check() != nil {
				continue
			}
			pod := resolve.Resolver{Who: "the pod", Netns: container.Netns.Path, Root: container.Root()}
			return resolve.All(ctx, names, append([]resolve.Resolver{pod}, resolvers...))
		}
	}
	return resolve.All(ctx, names, resolvers)
}
