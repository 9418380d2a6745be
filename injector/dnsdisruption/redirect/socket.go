package redirect

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/target"
)

// Socket is where redirected packets go.
type Socket struct {
	Network string // udp or tcp
	Address netip.AddrPort
	// Inode tells the socket from every other of this boot.
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

// Listening are those of the sockets that are open in the network namespace at
// path, whose process ever they are.
func (s Sockets) Listening(path string) (Sockets, error) {
	var tables strings.Builder
	err := target.Do(path, func() error {
		for _, file := range []string{"udp", "udp6", "tcp", "tcp6"} {
			table, err := os.ReadFile(target.DefaultProc + "/thread-self/net/" + file)
			if err != nil && !os.IsNotExist(err) { // there are kernels without IPv6
				return fmt.Errorf("list sockets: %w", err)
			}
			tables.Write(table)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	const inode = 9 // the tenth column, in all four tables
	open := map[string]bool{}
	for line := range strings.Lines(tables.String()) {
		if fields := strings.Fields(line); len(fields) > inode {
			open[fields[inode]] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(s), func(socket Socket) bool {
		return !open[strconv.FormatUint(socket.Inode, 10)]
	}), nil
}

func (s Socket) protocol() byte { return protocols[s.Network] }

var protocols = map[string]byte{"udp": unix.IPPROTO_UDP, "tcp": unix.IPPROTO_TCP}
