//go:build linux

package queueing

import (
	"fmt"
	"math"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/attach"
	"github.com/squall-chaos/squall/injector/target"
)

const (
	// delayedPackets is how many packets wait at once. More are dropped.
	delayedPackets = 100_000
	// burstTime is how long a limited link may be faster after a pause, and burstBytes the
	// least amount: a full packet. A kernel with a coarse clock, or without a processor, may
	// be late by less than that without losing bandwidth.
	burstTime  = 50 * time.Millisecond
	burstBytes = 2000
	// backlogTime is how long packets wait behind a limit before more are dropped. Three of
	// the largest always fit, each of up to 64 KiB while hardware does their segmentation.
	backlogTime  = 200 * time.Millisecond
	backlogBytes = 3 << 16
)

// Handles of the qdiscs. A device is ours alone, so no other program uses them.
const (
	delayMajor, rateMajor, backlogMajor = 1, 2, 3
)

// addQdiscs adds the delay at the root and the rate behind it.
func (d Device) addQdiscs(c attach.Conn, index int) error {
	parent := uint32(netlink.HANDLE_ROOT)
	if d.Delay > 0 {
		attrs := netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(delayMajor, 0), Parent: parent}
		netem := netlink.NewNetem(attrs, netlink.NetemQdiscAttrs{
			Latency: uint32(d.Delay.Microseconds()), Jitter: uint32(d.Jitter.Microseconds()), Limit: delayedPackets,
		})
		if err := c.QdiscAdd(netem); err != nil {
			return lacks(err, "queueing discipline netem", "CONFIG_NET_SCH_NETEM, module sch_netem")
		}
		parent = netlink.MakeHandle(delayMajor, 1)
	}
	if d.Rate == 0 {
		return nil
	}
	if err := d.addRate(c, index, parent); err != nil {
		return err
	}
	return addBacklog(d.Netns.Path, index, bytesIn(d.Rate, backlogTime, backlogBytes))
}

// addRate limits by HTB: unlike TBF it sends packets larger than its burst.
func (d Device) addRate(c attach.Conn, index int, parent uint32) error {
	attrs := netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(rateMajor, 0), Parent: parent}
	htb := netlink.NewHtb(attrs)
	htb.Defcls = 1
	if err := c.QdiscAdd(htb); err != nil {
		return lacks(err, "queueing discipline HTB", "CONFIG_NET_SCH_HTB, module sch_htb")
	}
	rate := uint64(min(d.Rate, math.MaxUint32))
	burst := bytesIn(d.Rate, burstTime, burstBytes)
	class := netlink.NewHtbClass(
		netlink.ClassAttrs{LinkIndex: index, Handle: netlink.MakeHandle(rateMajor, 1), Parent: netlink.MakeHandle(rateMajor, 0)},
		netlink.HtbClassAttrs{Rate: 8 * rate, Ceil: 8 * rate, Buffer: burst, Cbuffer: burst, Quantum: burstBytes})
	if err := c.ClassAdd(class); err != nil {
		return fmt.Errorf("add a class of %d bytes per second: %w", d.Rate, err)
	}
	return nil
}

// addBacklog adds a queue of this many bytes. The library has only its name.
func addBacklog(netns string, index int, bytes uint32) error {
	request := nl.NewNetlinkRequest(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
	request.AddData(&nl.TcMsg{
		Family: nl.FAMILY_ALL, Ifindex: int32(index),
		Handle: netlink.MakeHandle(backlogMajor, 0), Parent: netlink.MakeHandle(rateMajor, 1),
	})
	request.AddData(nl.NewRtAttr(nl.TCA_KIND, nl.ZeroTerminated("bfifo")))
	request.AddData(nl.NewRtAttr(nl.TCA_OPTIONS, nl.Uint32Attr(bytes)))
	return target.Do(netns, func() error {
		if _, err := request.Execute(unix.NETLINK_ROUTE, 0); err != nil {
			return lacks(err, "queueing discipline bfifo", "CONFIG_NET_SCH_FIFO")
		}
		return nil
	})
}
