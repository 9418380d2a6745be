//go:build linux

package attach

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/classifier"
	"github.com/squall-chaos/squall/injector/target"
)

// redirecting filters send the packets that their program selects to the egress of a
// device.
var redirecting = filterKind{"cls_bpf and mirred", queueSuffix, writeRedirect}

// Redirect adds filters that send selected packets to the devices of the point, ahead of
// all other filters of their hooks, or changes nothing. The filters stay when the injector
// dies.
func Redirect(p Point) (Attachment, error) { return addFilters(p, redirecting) }

// writeRedirect writes a filter with an action, which the library cannot: the attributes
// are those of linux/pkt_cls.h.
func writeRedirect(_ Conn, p Point, filter *netlink.BpfFilter, direction classifier.Direction, replace bool) error {
	flags := unix.NLM_F_CREATE | unix.NLM_F_ACK
	if !replace {
		flags |= unix.NLM_F_EXCL
	}
	options := nl.NewRtAttr(nl.TCA_OPTIONS, nil)
	options.AddRtAttr(nl.TCA_BPF_FD, nl.Uint32Attr(uint32(filter.Fd)))
	options.AddRtAttr(nl.TCA_BPF_NAME, nl.ZeroTerminated(filter.Name))
	mirred := netlink.NewMirredAction(p.Devices[direction])
	if err := netlink.EncodeActions(options.AddRtAttr(nl.TCA_BPF_ACT, nil), []netlink.Action{mirred}); err != nil {
		return fmt.Errorf("encode filter %s: %w", filter.Name, err)
	}
	// A request has one use: its parts are addressed when it is sent.
	request := nl.NewNetlinkRequest(unix.RTM_NEWTFILTER, flags)
	request.AddData(&nl.TcMsg{
		Family: nl.FAMILY_ALL, Ifindex: int32(filter.LinkIndex), Handle: filter.Handle, Parent: filter.Parent,
		Info: netlink.MakeHandle(filter.Priority, nl.Swap16(filter.Protocol)),
	})
	request.AddData(nl.NewRtAttr(nl.TCA_KIND, nl.ZeroTerminated("bpf")))
	request.AddData(options)
	return target.Do(p.Netns, func() error {
		_, err := request.Execute(unix.NETLINK_ROUTE, 0)
		return err
	})
}
