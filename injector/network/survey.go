package network

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/vishvananda/netlink"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/target"
)

// survey finds out what a plan depends on, the addresses of names excepted.
func survey(t *target.Target, c tc, id target.NetnsID) (Site, error) {
	site := Site{
		Level:          t.Injection.Level,
		AllowedHosts:   t.Injection.AllowedHosts,
		SomeContainers: t.Injection.Target.SomeContainers,
	}
	var err error
	if site.NodeIPs, err = parseAddresses(t.Injection.Target.NodeIPs); err != nil {
		return Site{}, fmt.Errorf("node %s: %w", t.Injection.Target.NodeName, err)
	}
	podIPs, err := parseAddresses(t.Injection.Target.PodIPs)
	if err != nil {
		return Site{}, fmt.Errorf("pod %s: %w", t.Injection.Target.Name, err)
	}
	// Two signs, as each can be missing: the addresses may not be known yet,
	// and the node's first process may be one that nobody can look at.
	node, err := netnsID(filepath.Join(procDir(t), "1/ns/net"))
	site.NodeNetwork = (err == nil && node == id) ||
		slices.ContainsFunc(podIPs, func(a netip.Addr) bool { return slices.Contains(site.NodeIPs, a) })
	site.Gateways, err = c.gateways()
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
func (c tc) gateways() ([]netip.Addr, error) {
	routes, err := dump(func() ([]netlink.Route, error) { return c.RouteList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
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
	return gateways, nil
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
	names := Names(i.params, i.target.Injection.AllowedHosts)
	if len(names) == 0 {
		return nil, nil
	}
	proc := procDir(i.target)
	resolvers := []resolver{{"the node", filepath.Join(proc, "1/ns/net"), filepath.Join(proc, "1/root")}}
	if i.target.Injection.Level == v1beta1.LevelPod {
		for _, container := range i.target.Containers {
			if container.Check() != nil {
				continue
			}
			root := filepath.Join(proc, strconv.Itoa(container.PID), "root")
			return resolveAll(ctx, names, append([]resolver{{"the pod", container.Netns.Path, root}}, resolvers...))
		}
	}
	return resolveAll(ctx, names, resolvers)
}

func procDir(t *target.Target) string {
	if t.Proc == "" {
		return target.DefaultProc
	}
	return t.Proc
}
