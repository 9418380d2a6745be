//go:build linux

// Package queueing delays packets in queueing disciplines of the kernel, on an intermediate
// device (IFB) to which a link's filters send packets. The device returns them to the link.
// It promises to change no qdisc of any other link. Each device is in the journal before it
// is made, and deleting a device removes everything of it.
package queueing

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/attach"
	"github.com/squall-chaos/squall/injector/classifier"
	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/injector/target"
)

// Demand is the effect of a queue on packets. The zero value is no queue.
type Demand struct {
	// Delay is how long a packet waits, Jitter the largest deviation from it, with every value
	// equally likely: packets can overtake each other.
	Delay, Jitter time.Duration
	// Rate is in bytes per second, with the headers of links; 0 means no limit. A rate above 4
	// GiB per second counts as 4 GiB.
	Rate int64
}

// Device is an IFB of one injection in one network namespace.
type Device struct {
	Netns     target.Netns
	Mark      attach.Mark
	Direction classifier.Direction
	Demand
}

// Make makes the device with its qdiscs, brings it up, and returns its index. It replaces a
// device of an earlier attempt. It refuses to work beside devices of another injection:
// chance would decide which queue gets a packet.
func (d Device) Make(log attach.ChangeLog) (index int, err error) {
	err = attach.Exclusively(d.Netns.Path, func(c attach.Conn) error {
		if err := Free(d.Netns.Path, d.Mark); err != nil {
			return err
		}
		if err := log.Write(journal.Change{Object: d.object(), Before: absent, After: present}); err != nil {
			return err
		}
		if err := remove(c, d.name()); err != nil {
			return err
		}
		if index, err = d.make(c); err != nil {
			return errors.Join(fmt.Errorf("make device %s: %w", d.name(), err), remove(c, d.name()))
		}
		return nil
	})
	return index, err
}

// Free returns an error if another injection than that of the mark has devices in the
// namespace.
func Free(netns string, m attach.Mark) error {
	names, err := Names(netns)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.Contains(NamesOf(m), name) {
			return fmt.Errorf("another disruption delays or limits packets here already, by the network link %s."+
				" Find it with injector audit on the node; end it first, or request both faults in one disruption", name)
		}
	}
	return nil
}

// NamesOf returns the names of the devices of an injection.
func NamesOf(m attach.Mark) []string {
	return []string{m.Link(classifier.Egress), m.Link(classifier.Ingress)}
}

func (d Device) name() string { return d.Mark.Link(d.Direction) }

// The states of a device in the journal.
const (
	absent  = "absent"
	present = "present"
)

func (d Device) object() string {
	return fmt.Sprintf("link %s in network namespace %d:%d", d.name(), d.Netns.Dev, d.Netns.Ino)
}

func (d Device) make(c attach.Conn) (int, error) {
	link := &netlink.Ifb{LinkAttrs: netlink.LinkAttrs{Name: d.name(), NumTxQueues: 1, NumRxQueues: 1, TxQLen: -1}}
	if err := c.LinkAdd(link); err != nil {
		return 0, lacks(err, "IFB devices", "CONFIG_IFB, module ifb")
	}
	made, err := c.LinkByName(d.name())
	if err != nil {
		return 0, err
	}
	// Without an address the device sends nothing of its own. A kernel without IPv6 has
	// nothing to turn off.
	_ = c.LinkSetIP6AddrGenMode(made, 1)
	if err := d.addQdiscs(c, made.Attrs().Index); err != nil {
		return 0, err
	}
	if err := c.LinkSetUp(made); err != nil {
		return 0, fmt.Errorf("bring it up: %w", err)
	}
	return made.Attrs().Index, nil
}

// Remove deletes the devices of an injection, and with them the packets that wait there.
// The caller must first remove the filters that lead to them: a filter without its device
// drops the packets that it selects. A missing device counts as removed.
func Remove(netns string, m attach.Mark) error {
	return attach.Exclusively(netns, func(c attach.Conn) error {
		var errs []error
		for _, name := range NamesOf(m) {
			errs = append(errs, remove(c, name))
		}
		return errors.Join(errs...)
	})
}

func remove(c attach.Conn, name string) error {
	link, err := c.LinkByName(name)
	if isMissing(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for link %s: %w", name, err)
	}
	if !ours(link.Type(), name) {
		return nil
	}
	if err := c.LinkDel(link); err != nil && !isMissing(err) {
		return fmt.Errorf("remove link %s: %w", name, err)
	}
	return nil
}

// Names lists the devices of Squall in a namespace, of any disruption.
func Names(netns string) ([]string, error) {
	c, err := attach.Open(netns)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	links, err := c.Links()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, link := range links {
		if ours(link.Type, link.Name) {
			names = append(names, link.Name)
		}
	}
	return names, nil
}

func ours(linkType, name string) bool {
	return linkType == "ifb" && strings.HasPrefix(name, attach.LinkPrefix)
}

func isMissing(err error) bool {
	var missing netlink.LinkNotFoundError
	return errors.As(err, &missing) || errors.Is(err, unix.ENODEV)
}

// lacks returns an error with the missing kernel feature, if the kernel's error means that:
// for an unknown feature it answers ENOENT or EOPNOTSUPP.
func lacks(err error, what, how string) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("the kernel has no %s (%s): %w", what, how, err)
	}
	return fmt.Errorf("add %s: %w", what, err)
}

// bytesIn is how many bytes pass at a rate within a time, at least this many.
func bytesIn(rate int64, d time.Duration, least int64) uint32 {
	bytes := max(float64(rate)*d.Seconds(), float64(least))
	return uint32(min(bytes, math.MaxUint32))
}
