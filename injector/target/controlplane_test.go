//go:build linux

package target

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSocketsAreReadAsTheKernelWritesThem(t *testing.T) {
	dir := t.TempDir()
	write := func(name, lines string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("  sl  local_address rem_address   st\n"+lines), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const rest = " 00000000:00000000 00:00000000 00000000     0        0 "
	write("tcp", "   0: 00000000:280A 00000000:0000 0A"+rest+"11 1 0\n   1: 0400A8C0:C001 0A00000A:192B 01"+rest+"12 1 0\n")
	write("tcp6", "   0: B80D0120000000000000000001000000:C002 B80D0120000000000000000002000000:01BB 02"+rest+"13 1 0\n"+
		"   1: 0000000000000000FFFF00000400A8C0:C003 0000000000000000FFFF00000A00000A:192B 01"+rest+"14 1 0\n")
	at := netip.MustParseAddrPort
	want := []socket{
		{at("0.0.0.0:10250"), at("0.0.0.0:0"), tcpListen, 11},
		{at("192.168.0.4:49153"), at("10.0.0.10:6443"), tcpEstablished, 12},
		{at("[2001:db8::1]:49154"), at("[2001:db8::2]:443"), tcpSynSent, 13},
		{at("192.168.0.4:49155"), at("10.0.0.10:6443"), tcpEstablished, 14},
	}
	got, err := readSockets(dir)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(socket{}), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); err != nil || diff != "" {
		t.Errorf("readSockets: %v (-want +got):\n%s", err, diff)
	}
	write("tcp", "   0: nonsense\n")
	if got, err := readSockets(dir); err == nil {
		t.Errorf("readSockets of nonsense = %v, want an error", got)
	}
}

func TestKubeletIsFollowedThroughProxies(t *testing.T) {
	at := netip.MustParseAddrPort
	listens := func(port uint16, inode uint64) socket {
		return socket{netip.AddrPortFrom(netip.IPv4Unspecified(), port), at("0.0.0.0:0"), tcpListen, inode}
	}
	to := func(remote string, inode uint64) socket {
		return socket{netip.AddrPortFrom(netip.MustParseAddr("192.168.0.4"), 40000+uint16(inode)), at(remote), tcpEstablished, inode}
	}
	// A connection to the kubelet's own port does not count as one of its own.
	called := socket{at("192.168.0.4:10250"), at("10.9.9.9:5555"), tcpEstablished, 50}
	for _, c := range []struct {
		name     string
		sockets  []socket
		owners   map[int][]uint64
		kubelets []int
		found    bool
		want     map[uint64]netip.AddrPort
	}{
		{"no kubelet", []socket{to("10.0.0.10:6443", 1)}, map[int][]uint64{7: {1}}, nil, false, nil},
		{"by its name", []socket{to("10.0.0.10:6443", 1), to("10.0.0.77:80", 2)}, map[int][]uint64{7: {1}, 8: {2}}, []int{7},
			true, map[uint64]netip.AddrPort{1: at("10.0.0.10:6443")}},
		{"by its port, under another name", []socket{listens(10250, 3), called, to("10.0.0.10:6443", 1)}, map[int][]uint64{7: {1, 3, 50}}, nil,
			true, map[uint64]netip.AddrPort{1: at("10.0.0.10:6443")}},
		{"through a proxy of two processes", []socket{to("127.0.0.1:6444", 1), listens(6444, 2), to("10.0.0.10:6443", 3), to("10.0.0.11:6443", 4), to("10.0.0.77:80", 5)},
			map[int][]uint64{7: {1}, 8: {2, 3}, 9: {2, 4}, 10: {5}}, []int{7},
			true, map[uint64]netip.AddrPort{3: at("10.0.0.10:6443"), 4: at("10.0.0.11:6443")}},
		{"a proxy that calls itself ends", []socket{to("127.0.0.1:6444", 1), listens(6444, 2)}, map[int][]uint64{7: {1, 2}}, []int{7}, true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, got := follow(c.sockets, c.owners, c.kubelets)
			if c.want == nil {
				c.want = map[uint64]netip.AddrPort{}
			}
			if diff := cmp.Diff(c.want, got, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); found != c.found || diff != "" {
				t.Errorf("follow = %t (want %t), (-want +got):\n%s", found, c.found, diff)
			}
		})
	}
}

// The kernel's own files are read: this process acts as a kubelet connected to a proxy on
// the node, which is the process itself.
func TestControlPlaneOfARealProcess(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			called, err := listener.Accept()
			if err != nil {
				return
			}
			go io.Copy(io.Discard, called)
		}
	}()
	connection, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	self := fmt.Sprintf("/proc/%d", os.Getpid())
	proc := t.TempDir()
	for _, pid := range []string{"1", "7"} {
		if err := os.MkdirAll(filepath.Join(proc, pid), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, entry := range []string{"ns", "net", "fd"} {
			if err := os.Symlink(filepath.Join(self, entry), filepath.Join(proc, pid, entry)); err != nil {
				t.Fatal(err)
			}
		}
	}
	tgt := &Target{Proc: proc}
	tgt.Injection.Target.NodeName = "node-1"
	if peers, err := tgt.ControlPlane(t.Context()); err != nil || len(peers) != 0 {
		t.Errorf("without a kubelet: %v, %v, want nothing", peers, err)
	}
	if err := os.WriteFile(filepath.Join(proc, "7", "comm"), []byte("kubelet\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	// Its only connection leads to a proxy on the node without a connection of its own.
	if peers, err := tgt.ControlPlane(t.Context()); err == nil || !strings.Contains(err.Error(), "kubelet of node node-1 has no connection") {
		t.Errorf("a kubelet without a connection: %v, %v, want an error", peers, err)
	}
	local := connection.LocalAddr().(*net.TCPAddr).AddrPort()
	held := func() bool {
		sockets, err := readSockets(self + "/net")
		if err != nil {
			t.Fatal(err)
		}
		mine := slices.IndexFunc(sockets, func(s socket) bool { return s.local == local })
		return mine >= 0 && slices.Contains(socketsOf(proc, 7), sockets[mine].inode)
	}
	found := false
	for range looks {
		found = found || held()
	}
	if !found {
		t.Errorf("the connection from %s is not among the sockets of the process", local)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := tgt.ControlPlane(stopped); err == nil {
		t.Error("ControlPlane went on after its context ended")
	}
}
