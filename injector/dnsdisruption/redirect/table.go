//go:build linux

// Package redirect leads packets from a network namespace to one port to sockets on the
// namespace's own loopback, by network address translation. It promises that the kernel
// removes the redirect when its process ends, however it ends. It changes no foreign
// tables, and finds and frees connections by their tracking.
package redirect

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/target"
)

const (
	// Mark is on the packets of sockets that the redirect leaves alone: "Sqal".
	Mark = 0x5371616c
	// tablePrefix begins the name of a table. The UIDs of disruption and target follow. No UID
	// contains the separator.
	tablePrefix = "squall-dns"
	separator   = "_"
	// before is the priority of the chain: 10 ahead of the usual redirects, as the first one
	// decides.
	before = -110
	// tableOwner is NFT_TABLE_F_OWNER of linux/netfilter/nf_tables.h.
	tableOwner = 2
	// register is the register that rules use.
	register = 1
)

// Table is a redirect in force. The kernel removes it when the process that made it ends.
type Table struct {
	conn  *nftables.Conn
	table *nftables.Table
}

// ProbeTable is the name of a table that tests what a kernel accepts.
const ProbeTable = tablePrefix + separator + "probe"

// TableOf returns the name of an injection's table.
func TableOf(injection v1beta1.Injection) string {
	return strings.Join([]string{tablePrefix, string(injection.Disruption.UID), string(injection.Target.UID)}, separator)
}

// UIDs returns the UIDs of the disruption and the target from a table's name.
func UIDs(table string) (disruption, targetUID types.UID) {
	_, uids, _ := strings.Cut(table, separator)
	first, second, _ := strings.Cut(uids, separator)
	return types.UID(first), types.UID(second)
}

// Install redirects packets to port, to each socket by its protocol and its family. If it
// fails, nothing is redirected.
func Install(netns *os.File, name string, port uint16, sockets []Socket) (*Table, error) {
	if err := target.CheckNetfilter(); err != nil {
		return nil, err
	}
	var socket *netlink.Conn
	conn, err := nftables.New(nftables.AsLasting(), nftables.WithNetNSFd(int(netns.Fd())),
		nftables.WithSockOptions(func(c *netlink.Conn) error { socket = c; return nil }))
	if err != nil {
		return nil, fmt.Errorf("open nftables: %w", err)
	}
	t := &Table{conn: conn, table: &nftables.Table{Name: name, Family: nftables.TableFamilyINet}}
	if err := own(socket, name); err != nil {
		return nil, errors.Join(fmt.Errorf("make nftables table %s: %w", name, err), conn.CloseLasting())
	}
	policy := nftables.ChainPolicyAccept
	chain := conn.AddChain(&nftables.Chain{
		Name: "output", Table: t.table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityRef(before), Policy: &policy,
	})
	for _, exprs := range rules(port, sockets) {
		conn.AddRule(&nftables.Rule{Table: t.table, Chain: chain, Exprs: exprs})
	}
	if err := conn.Flush(); err != nil {
		return nil, errors.Join(fmt.Errorf("redirect port %d by nftables table %s: %w", port, name, err), conn.CloseLasting())
	}
	return t, nil
}

// Remove removes the redirect. Tracked connections stay on it. Close must follow.
func (t *Table) Remove() error {
	t.conn.DelTable(t.table)
	if err := t.conn.Flush(); err != nil {
		return errors.Join(fmt.Errorf("delete nftables table %s: %w", t.table.Name, err), t.Close())
	}
	return nil
}

// Close removes the table, if Remove has not. Called later after Remove, it waits less for
// the kernel, which frees a deleted table once no processor uses it. It is safe to call
// twice.
func (t *Table) Close() error { return t.conn.CloseLasting() }

// own makes an empty table that the kernel removes with the socket. The library lacks this
// flag.
func own(socket *netlink.Conn, name string) error {
	family := []byte{unix.NFPROTO_INET, unix.NFNETLINK_V0, 0, 0}
	attributes, err := netlink.MarshalAttributes([]netlink.Attribute{
		{Type: unix.NFTA_TABLE_NAME, Data: []byte(name + "\x00")},
		{Type: unix.NFTA_TABLE_FLAGS, Data: binaryutil.BigEndian.PutUint32(tableOwner)},
	})
	if err != nil {
		return err
	}
	batch := []byte{unix.NFPROTO_UNSPEC, unix.NFNETLINK_V0, 0, unix.NFNL_SUBSYS_NFTABLES}
	_, err = socket.SendMessages([]netlink.Message{
		{Header: netlink.Header{Type: unix.NFNL_MSG_BATCH_BEGIN, Flags: netlink.Request}, Data: batch},
		{Header: netlink.Header{
			Type:  unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWTABLE,
			Flags: netlink.Request | netlink.Acknowledge | netlink.Create | netlink.Excl,
		}, Data: append(family, attributes...)},
		{Header: netlink.Header{Type: unix.NFNL_MSG_BATCH_END, Flags: netlink.Request}, Data: batch},
	})
	if err != nil {
		return err
	}
	_, err = socket.Receive()
	return err
}

// rules returns the rules of the chain. Packets with the mark keep their destination, also
// where foreign rules would redirect them: such a rule may lead them back to their sender.
func rules(port uint16, sockets []Socket) [][]expr.Any {
	var rules [][]expr.Any
	for _, ipv4 := range []bool{true, false} {
		rules = append(rules, append(family(ipv4),
			&expr.Meta{Key: expr.MetaKeyMARK, Register: register},
			&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: binaryutil.NativeEndian.PutUint32(Mark)},
			destination(ipv4),
			&expr.NAT{Type: expr.NATTypeDestNAT, Family: protocolFamily(ipv4), RegAddrMin: register}))
	}
	for _, socket := range sockets {
		rules = append(rules, append(family(socket.Address.Addr().Is4()),
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register},
			&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: []byte{socket.protocol()}},
			&expr.Payload{DestRegister: register, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
			&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: binaryutil.BigEndian.PutUint16(port)},
			&expr.Immediate{Register: register, Data: binaryutil.BigEndian.PutUint16(socket.Address.Port())},
			&expr.Redir{RegisterProtoMin: register}))
	}
	return rules
}

func family(ipv4 bool) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: register},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: []byte{byte(protocolFamily(ipv4))}},
	}
}

func protocolFamily(ipv4 bool) uint32 {
	if ipv4 {
		return unix.NFPROTO_IPV4
	}
	return unix.NFPROTO_IPV6
}

// destination loads the destination address from a packet's header.
func destination(ipv4 bool) expr.Any {
	if ipv4 {
		return &expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 4}
	}
	return &expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: 24, Len: 16}
}
