//go:build linux

package redirect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

const (
	// nfgenmsg is the length of the header of all netfilter messages.
	nfgenmsg = 4
	// kernelTimeout is how long the kernel may take to answer, in seconds.
	kernelTimeout = 5
)

// Origins finds the original destination of redirected packets. Several goroutines may use
// it at once.
type Origins struct{ socket nl.SocketHandle }

// OpenOrigins asks the kernel in a network namespace.
func OpenOrigins(netns *os.File) (*Origins, error) {
	o := &Origins{}
	err := Inside(netns, func() (err error) {
		if o.socket.Socket, err = nl.Subscribe(unix.NETLINK_NETFILTER); err != nil {
			return err
		}
		return o.socket.Socket.SetReceiveTimeout(&unix.Timeval{Sec: kernelTimeout})
	})
	if err != nil {
		o.Close()
		return nil, fmt.Errorf("open connection tracking: %w", err)
	}
	return o, nil
}

// Close closes the socket to the kernel.
func (o *Origins) Close() { o.socket.Close() }

// Of returns the original destination of packets from an address to a socket. For a tracked
// packet that was not redirected it returns the socket itself.
func (o *Origins) Of(network string, socket, from netip.AddrPort) (netip.AddrPort, error) {
	family := byte(unix.AF_INET6)
	if socket.Addr().Is4() {
		family = unix.AF_INET
	}
	attributes := netlink.NewAttributeEncoder()
	attributes.ByteOrder = binary.BigEndian
	// The kernel sees the answer's path, from the socket to the asker.
	attributes.Nested(nl.CTA_TUPLE_REPLY, func(tuple *netlink.AttributeEncoder) error {
		encodeTuple(tuple, network, socket, from)
		return nil
	})
	data, err := attributes.Encode()
	if err != nil {
		return netip.AddrPort{}, err
	}
	// The kernel marks its single answer as one of several. The acknowledgement makes the end
	// visible.
	request := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_CTNETLINK<<8|nl.IPCTNL_MSG_CT_GET, unix.NLM_F_ACK)
	request.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_NETFILTER: &o.socket}
	request.AddRawData(append([]byte{family, unix.NFNETLINK_V0, 0, 0}, data...))
	answers, err := request.Execute(unix.NETLINK_NETFILTER, 0)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("look up the tracked connection from %s to %s: %w", from, socket, err)
	}
	if len(answers) != 1 || len(answers[0]) < nfgenmsg {
		return netip.AddrPort{}, fmt.Errorf("look up the tracked connection from %s to %s: %d answers", from, socket, len(answers))
	}
	return decodeDestination(answers[0][nfgenmsg:])
}

func encodeTuple(tuple *netlink.AttributeEncoder, network string, source, destination netip.AddrPort) {
	tuple.Nested(nl.CTA_TUPLE_IP, func(ip *netlink.AttributeEncoder) error {
		types := [2]uint16{nl.CTA_IP_V6_SRC, nl.CTA_IP_V6_DST}
		if source.Addr().Is4() {
			types = [2]uint16{nl.CTA_IP_V4_SRC, nl.CTA_IP_V4_DST}
		}
		ip.Bytes(types[0], source.Addr().AsSlice())
		ip.Bytes(types[1], destination.Addr().AsSlice())
		return nil
	})
	tuple.Nested(nl.CTA_TUPLE_PROTO, func(protocol *netlink.AttributeEncoder) error {
		protocol.Uint8(nl.CTA_PROTO_NUM, protocols[network])
		protocol.Uint16(nl.CTA_PROTO_SRC_PORT, source.Port())
		protocol.Uint16(nl.CTA_PROTO_DST_PORT, destination.Port())
		return nil
	})
}

// decodeDestination returns the destination of a connection's first packet.
func decodeDestination(data []byte) (netip.AddrPort, error) {
	attributes, err := netlink.NewAttributeDecoder(data)
	if err != nil {
		return netip.AddrPort{}, err
	}
	attributes.ByteOrder = binary.BigEndian
	var address netip.Addr
	var port uint16
	for attributes.Next() {
		if attributes.Type() != nl.CTA_TUPLE_ORIG {
			continue
		}
		attributes.Nested(func(tuple *netlink.AttributeDecoder) error {
			for tuple.Next() {
				tuple.Nested(func(part *netlink.AttributeDecoder) error {
					ip := tuple.Type() == nl.CTA_TUPLE_IP
					for part.Next() {
						switch kind := part.Type(); {
						case ip && (kind == nl.CTA_IP_V4_DST || kind == nl.CTA_IP_V6_DST):
							address, _ = netip.AddrFromSlice(part.Bytes())
						case !ip && kind == nl.CTA_PROTO_DST_PORT:
							port = part.Uint16()
						}
					}
					return nil
				})
			}
			return nil
		})
	}
	if err := attributes.Err(); err != nil {
		return netip.AddrPort{}, err
	}
	if !address.IsValid() || port == 0 {
		return netip.AddrPort{}, errors.New("the tracked connection has no destination")
	}
	return netip.AddrPortFrom(address, port), nil
}
