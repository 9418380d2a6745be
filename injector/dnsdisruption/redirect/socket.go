//go:build linux

package redirect

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/target"
)

// Socket is a destination of redirected packets.
type Socket struct {
	Network string // udp or tcp
	Address netip.AddrPort
	// Inode identifies the socket among all of this boot.
	Inode uint64
}

// String is the form that ParseSockets reads.
func (s Socket) String() string {
	return fmt.Sprintf("%s %s inode %d", s.Network, s.Address, s.Inode)
}

// Sockets are several.
type Sockets []Socket

// String is the form that ParseSockets reads.
func (s Sockets) String() string {
	texts := make([]string, len(s))
	for i, socket := range s {
		texts[i] = socket.String()
	}
	return strings.Join(texts, ", ")
}

// ParseSockets reads what String wrote.
func ParseSockets(text string) (Sockets, error) {
	var sockets Sockets
	for part := range strings.SplitSeq(text, ", ") {
		var socket Socket
		var address string
		if _, err := fmt.Sscanf(part, "%s %s inode %d", &socket.Network, &address, &socket.Inode); err != nil {
			return nil, fmt.Errorf("socket %q: %w", part, err)
		}
		var err error
		if socket.Address, err = netip.ParseAddrPort(address); err != nil {
			return nil, fmt.Errorf("socket %q: %w", part, err)
		}
		sockets = append(sockets, socket)
	}
	return sockets, nil
}

// SocketOf describes an open socket.
func SocketOf(network string, address netip.AddrPort, conn syscall.Conn) (Socket, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return Socket{}, err
	}
	var stat unix.Stat_t
	var statErr error
	if err := raw.Control(func(fd uintptr) { statErr = unix.Fstat(int(fd), &stat) }); err != nil {
		return Socket{}, err
	}
	return Socket{Network: network, Address: address, Inode: stat.Ino}, statErr
}

// Listening returns the sockets that are open in the network namespace at path, in any
// process.
func (s Sockets) Listening(path string) (Sockets, error) {
	open := map[uint64]bool{}
	err := target.Do(path, func() error {
		tables := []string{"udp", "udp6"}
		if listenersByDiag(open) != nil {
			tables = append(tables, "tcp", "tcp6")
		}
		for _, table := range tables {
			if err := socketsInTable(table, open); err != nil {
				return fmt.Errorf("list sockets: %w", err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(s), func(socket Socket) bool { return !open[socket.Inode] }), nil
}

// socketsInTable adds the sockets of a table in /proc.
func socketsInTable(table string, open map[uint64]bool) error {
	data, err := os.ReadFile(target.DefaultProc + "/thread-self/net/" + table)
	if err != nil && !os.IsNotExist(err) { // some kernels have no IPv6
		return err
	}
	const inode = 9 // the tenth column, in all four tables
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) > inode {
			number, _ := strconv.ParseUint(fields[inode], 10, 64) // the title has no number
			open[number] = true
		}
	}
	return nil
}

// listenersByDiag adds the listening TCP sockets. It returns an error without sock_diag.
// With it the kernel need not search the connections of all network namespaces, as it does
// for the tables of TCP.
func listenersByDiag(open map[uint64]bool) error {
	const (
		requestBytes  = 56 // struct inet_diag_req_v2 of linux/inet_diag.h
		inodeAt       = 68 // idiag_inode in struct inet_diag_msg
		stateListen   = 10 // TCP_LISTEN
		requestStates = 4  // where idiag_states is in the request
	)
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		question := make([]byte, requestBytes)
		question[0], question[1] = family, unix.IPPROTO_TCP
		binary.NativeEndian.PutUint32(question[requestStates:], 1<<stateListen)
		request := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP)
		request.AddRawData(question)
		answers, err := request.Execute(unix.NETLINK_INET_DIAG, 0)
		if err != nil {
			return err
		}
		for _, answer := range answers {
			if len(answer) >= inodeAt+4 {
				open[uint64(binary.NativeEndian.Uint32(answer[inodeAt:]))] = true
			}
		}
	}
	return nil
}

func (s Socket) protocol() byte { return protocols[s.Network] }

var protocols = map[string]byte{"udp": unix.IPPROTO_UDP, "tcp": unix.IPPROTO_TCP}
