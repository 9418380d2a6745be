//go:build linux

package attach

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/classifier"
	"github.com/squall-chaos/squall/injector/dump"
	"github.com/squall-chaos/squall/injector/target"
)

// Conn is an rtnetlink connection in one network namespace.
type Conn struct{ *netlink.Handle }

// Open returns target.ErrGone, wrapped, if the namespace does not exist. It makes the
// socket inside; no thread stays there.
func Open(netns string) (Conn, error) {
	var handle *netlink.Handle
	err := target.Do(netns, func() (err error) {
		// The family is named because a handle of all families fails without xfrm.
		handle, err = netlink.NewHandle(unix.NETLINK_ROUTE)
		return err
	})
	if err != nil {
		return Conn{}, fmt.Errorf("open rtnetlink in %s: %w", netns, err)
	}
	return Conn{handle}, nil
}

// Links lists the links of the namespace.
func (c Conn) Links() ([]Link, error) {
	found, err := dump.Whole(c.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list network links: %w", err)
	}
	var links []Link
	for _, link := range found {
		attrs := link.Attrs()
		parent := attrs.ParentIndex
		if attrs.NetNsID >= 0 {
			parent = 0 // an index of another namespace
		}
		links = append(links, Link{
			Index: attrs.Index, Name: attrs.Name, Type: link.Type(),
			Loopback: attrs.RawFlags&unix.IFF_LOOPBACK != 0,
			Parent:   parent, Master: attrs.MasterIndex,
		})
	}
	return links, nil
}

// Addresses lists the addresses of each link of the namespace, by its index.
func (c Conn) Addresses() (map[int][]netip.Addr, error) {
	found, err := dump.Whole(func() ([]netlink.Addr, error) { return c.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	addresses := map[int][]netip.Addr{}
	for _, address := range found {
		if address.IPNet == nil {
			continue
		}
		if parsed, ok := netip.AddrFromSlice(address.IP); ok {
			addresses[address.LinkIndex] = append(addresses[address.LinkIndex], parsed.Unmap())
		}
	}
	return addresses, nil
}

// Routes lists the routes of the namespace, of both families.
func (c Conn) Routes() ([]netlink.Route, error) {
	routes, err := dump.Whole(func() ([]netlink.Route, error) { return c.RouteList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	return routes, nil
}

// filters lists what is attached at a hook, in all its chains.
func (c Conn) filters(hook Hook) ([]netlink.Filter, error) {
	filters, err := dump.Whole(func() ([]netlink.Filter, error) { return c.FilterList(byIndex(hook.Index), parent(hook.Direction)) })
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return nil, fmt.Errorf("list %s filters of %s: %w", hook.Direction, hook.Name, err)
	}
	return filters, nil
}

// classifiers maps a link to the kind of qdisc with its direct filters: "clsact", or the
// older "ingress". The kernel only lists the qdiscs of all links together, so the caller
// reads them once.
func (c Conn) classifiers() (map[int]string, error) {
	qdiscs, err := dump.Whole(func() ([]netlink.Qdisc, error) { return c.QdiscList(nil) })
	if err != nil {
		return nil, fmt.Errorf("list qdiscs: %w", err)
	}
	kinds := map[int]string{}
	for _, qdisc := range qdiscs {
		if qdisc.Attrs().Parent == netlink.HANDLE_CLSACT {
			kinds[qdisc.Attrs().LinkIndex] = qdisc.Type()
		}
	}
	return kinds, nil
}

func clsactOf(index int) *netlink.Clsact {
	return &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: index,
		Handle:    netlink.MakeHandle(0xffff, 0),
		Parent:    netlink.HANDLE_CLSACT,
	}}
}

func byIndex(index int) netlink.Link {
	return &netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: index}}
}

func parent(direction classifier.Direction) uint32 {
	if direction == classifier.Ingress {
		return netlink.HANDLE_MIN_INGRESS
	}
	return netlink.HANDLE_MIN_EGRESS
}

// isGone is true for the errors about a link or filter that does not exist any more.
func isGone(err error) bool {
	return errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) || errors.Is(err, os.ErrNotExist)
}

func netnsID(path string) (target.NetnsID, error) {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return target.NetnsID{}, fmt.Errorf("look at network namespace %s: %w", path, err)
	}
	return target.NetnsID{Dev: stat.Dev, Ino: stat.Ino}, nil
}
