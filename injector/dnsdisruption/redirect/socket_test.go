//go:build linux

package redirect

import (
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"

	"github.com/squall-chaos/squall/test/testneeds"
)

func TestSocketsAreListeningWhileTheyAreOpen(t *testing.T) {
	testneeds.BeRoot(t)
	var sockets Sockets
	var open []interface{ Close() error }
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		tcp, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		udp, err := net.ListenPacket("udp", address)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, tcp, udp)
		for network, listens := range map[string]net.Addr{"tcp": tcp.Addr(), "udp": udp.LocalAddr()} {
			conn := map[string]any{"tcp": tcp, "udp": udp}[network].(syscall.Conn)
			socket, err := SocketOf(network, netip.MustParseAddrPort(listens.String()), conn)
			if err != nil {
				t.Fatal(err)
			}
			sockets = append(sockets, socket)
		}
	}
	if got, err := sockets.Listening("/proc/self/ns/net"); err != nil || !slices.Equal(got, sockets) {
		t.Errorf("Listening() = %v, %v, want %v", got, err, sockets)
	}
	byDiag, byTable := map[uint64]bool{}, map[uint64]bool{}
	if err := listenersByDiag(byDiag); err != nil {
		t.Logf("this kernel has no sock_diag: %v", err)
		byDiag = nil
	}
	for _, table := range []string{"tcp", "tcp6"} {
		if err := socketsInTable(table, byTable); err != nil {
			t.Fatal(err)
		}
	}
	for _, socket := range sockets {
		if listens := socket.Network == "tcp"; byTable[socket.Inode] != listens || byDiag != nil && byDiag[socket.Inode] != listens {
			t.Errorf("%s: by table %t, by sock_diag %t, want %t", socket, byTable[socket.Inode], byDiag[socket.Inode], listens)
		}
	}
	for _, each := range open {
		each.Close()
	}
	if got, err := sockets.Listening("/proc/self/ns/net"); err != nil || len(got) > 0 {
		t.Errorf("Listening() of closed sockets = %v, %v, want none", got, err)
	}
}
