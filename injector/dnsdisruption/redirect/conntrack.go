//go:build linux

package redirect

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/dump"
)

// Tracked are the connections to one port that the kernel tracks in a network namespace. A
// tracked connection keeps its path.
type Tracked struct {
	Netns   *os.File
	Port    uint16
	Sockets Sockets
}

// FreeOthers forgets the connections from within the namespace that are older than the
// redirect: their next packet is redirected. Redirected connections stay.
func (t Tracked) FreeOthers() error {
	local, err := t.localAddresses()
	if err != nil {
		return err
	}
	return t.free(func(f *netlink.ConntrackFlow) bool {
		return t.toPort(f) && slices.Contains(local, addrPort(f.Forward.SrcIP, 0).Addr()) && !t.redirected(f)
	})
}

// FreeRedirected forgets the connections that are redirected to the sockets.
func (t Tracked) FreeRedirected() error { return t.free(t.redirected) }

// Redirected lists the connections that are redirected to the sockets, as text.
func (t Tracked) Redirected() ([]string, error) {
	handle, err := t.open(unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, err
	}
	defer handle.Close()
	flows, err := list(handle)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, flow := range flows {
		if t.redirected(flow) {
			found = append(found, fmt.Sprintf("tracked connection from %s to %s, redirected to %s",
				addrPort(flow.Forward.SrcIP, flow.Forward.SrcPort), addrPort(flow.Forward.DstIP, flow.Forward.DstPort),
				addrPort(flow.Reverse.SrcIP, flow.Reverse.SrcPort)))
		}
	}
	return found, nil
}

// list reads the tracked connections of both families at once. The kernel searches the
// connections of all network namespaces for it, which takes milliseconds on a large node.
func list(handle *netlink.Handle) ([]*netlink.ConntrackFlow, error) {
	flows, err := dump.Whole(func() ([]*netlink.ConntrackFlow, error) {
		return handle.ConntrackTableList(netlink.ConntrackTable, unix.AF_UNSPEC)
	})
	if err != nil && !untracked(err) {
		return nil, fmt.Errorf("list tracked connections: %w", err)
	}
	return flows, nil
}

// Probe returns an error if the kernel cannot list what it tracks.
func (t Tracked) Probe() error {
	handle, err := t.open(unix.NETLINK_NETFILTER)
	if err != nil {
		return err
	}
	defer handle.Close()
	if _, err := dump.Whole(func() ([]*netlink.ConntrackFlow, error) {
		return handle.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
	}); err != nil {
		return fmt.Errorf("list tracked connections: %w", err)
	}
	return nil
}

// free forgets the matching connections. A connection that is already gone is no error.
func (t Tracked) free(fits match) error {
	handle, err := t.open(unix.NETLINK_NETFILTER)
	if err != nil {
		return err
	}
	defer handle.Close()
	flows, err := list(handle)
	if err != nil {
		return err
	}
	var errs []error
	for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
		if !slices.ContainsFunc(flows, func(f *netlink.ConntrackFlow) bool { return f.FamilyType == uint8(family) && fits(f) }) {
			continue
		}
		_, err := dump.Whole(func() (uint, error) {
			return handle.ConntrackDeleteFilters(netlink.ConntrackTable, family, fits)
		})
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("forget tracked connections to port %d: %w", t.Port, err)
	}
	return nil
}

// match selects connections.
type match func(*netlink.ConntrackFlow) bool

// MatchConntrackFlow implements the library's interface.
func (m match) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool { return m(flow) }

func (t Tracked) toPort(f *netlink.ConntrackFlow) bool {
	return f.Forward.DstPort == t.Port && slices.ContainsFunc(t.Sockets, func(s Socket) bool { return s.protocol() == f.Forward.Protocol })
}

func (t Tracked) redirected(f *netlink.ConntrackFlow) bool {
	return f.Forward.DstPort == t.Port && slices.ContainsFunc(t.Sockets, func(s Socket) bool {
		return s.protocol() == f.Forward.Protocol && s.Address == addrPort(f.Reverse.SrcIP, f.Reverse.SrcPort)
	})
}

// localAddresses returns the addresses of all links.
func (t Tracked) localAddresses() ([]netip.Addr, error) {
	handle, err := t.open(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	defer handle.Close()
	addresses, err := dump.Whole(func() ([]netlink.Addr, error) { return handle.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	var local []netip.Addr
	for _, address := range addresses {
		local = append(local, addrPort(address.IP, 0).Addr())
	}
	return local, nil
}

func (t Tracked) open(family int) (handle *netlink.Handle, err error) {
	err = Inside(t.Netns, func() (err error) {
		handle, err = netlink.NewHandle(family)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	return handle, nil
}

// untracked is true for the error of a kernel without connection tracking.
func untracked(err error) bool {
	return errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL)
}

func addrPort(ip net.IP, port uint16) netip.AddrPort {
	address, _ := netip.AddrFromSlice(ip)
	return netip.AddrPortFrom(address.Unmap(), port)
}
