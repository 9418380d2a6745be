//go:build linux

package nfqueue

import (
	"encoding/binary"
	"errors"

	"github.com/mdlayher/netlink"
)

// genericHeader is the length of struct nfgenmsg, which begins every message.
const genericHeader = 4

// message makes a message of a subsystem of netfilter.
func message(subsystem, kind int, flags netlink.HeaderFlags, family byte, resource uint16, attributes []byte) netlink.Message {
	return netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(subsystem<<8 | kind), Flags: netlink.Request | flags},
		Data:   append(binary.BigEndian.AppendUint16([]byte{family, 0}, resource), attributes...),
	}
}

// encode writes attributes in netfilter's format. It fails only if one is too long, and
// none is.
func encode(write func(*netlink.AttributeEncoder)) []byte {
	encoder := netlink.NewAttributeEncoder()
	encoder.ByteOrder = binary.BigEndian
	write(encoder)
	data, err := encoder.Encode()
	if err != nil {
		panic(err)
	}
	return data
}

// nested writes attributes within one.
func nested(encoder *netlink.AttributeEncoder, kind uint16, write func(*netlink.AttributeEncoder)) {
	encoder.Nested(kind, func(inner *netlink.AttributeEncoder) error {
		inner.ByteOrder = binary.BigEndian
		write(inner)
		return nil
	})
}

func eachAttribute(m netlink.Message, read func(*netlink.AttributeDecoder)) error {
	if len(m.Data) < genericHeader {
		return errors.New("an answer is too short")
	}
	attributes, err := netlink.NewAttributeDecoder(m.Data[genericHeader:])
	if err != nil {
		return err
	}
	attributes.ByteOrder = binary.BigEndian
	for attributes.Next() {
		read(attributes)
	}
	return attributes.Err()
}
