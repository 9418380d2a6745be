//go:build linux

package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/attach"
	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/patience"
	"github.com/squall-chaos/squall/test/testcontainer"
	"github.com/squall-chaos/squall/test/testneeds"
)

// Addresses of the test's network. The gateway, the hosts and the node's
// address are all at the far end of one cable.
const (
	targetIPv4, targetIPv6   = "10.9.0.2", "fd09::2"
	gatewayIPv4, gatewayIPv6 = "10.9.0.1", "fd09::1"
	nodeIPv4                 = "10.9.0.5"
	hostIPv4, hostIPv6       = "10.9.0.10", "fd09::10"
	otherIPv4, otherIPv6     = "10.9.0.11", "fd09::11"
	// linkName has none of the usual prefixes.
	linkName = "odd.name0"
)

// world is a container with a cable to another network namespace.
type world struct {
	container *testcontainer.Container
	target    string // path of the container's namespace
	peer      string
	injection v1beta1.Injection
	proc      string // a made-up directory of processes, if not empty
	journals  string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	testneeds.BeRoot(t)
	w := &world{container: testcontainer.Start(t, testcontainer.Sleeps...), journals: t.TempDir()}
	w.target = fmt.Sprintf("/proc/%d/ns/net", w.container.PID)
	stop := make(chan struct{})
	ready := make(chan error)
	go func() {
		ready <- target.InNewNetns(func(path string) error {
			w.peer = path
			ready <- nil
			<-stop
			return nil
		})
	}()
	if err := <-ready; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { close(stop); <-ready })
	w.wire(t)
	w.injection = v1beta1.Injection{
		Disruption: v1beta1.DisruptionRef{Namespace: "test", Name: t.Name(), UID: types.UID("d1" + w.container.ID[:6])},
		Kind:       v1beta1.KindNetwork,
		Level:      v1beta1.LevelPod,
		Target: v1beta1.InjectionTarget{
			Namespace: "test", Name: "pod", UID: "t1", NodeName: "node", NodeIPs: []string{nodeIPv4},
			Containers: []v1beta1.InjectionContainer{{Name: "main", ID: w.container.ID}},
		},
		Deadline: metav1.NewTime(time.Now().Add(time.Hour)),
	}
	return w
}

func (w *world) wire(t *testing.T) {
	t.Helper()
	peer := openForTest(t, w.peer)
	namespace, err := os.Open(w.target)
	if err != nil {
		t.Fatal(err)
	}
	defer namespace.Close()
	cable := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "far", TxQLen: 1000}, PeerName: linkName, PeerNamespace: netlink.NsFd(namespace.Fd())}
	must(t, peer.LinkAdd(cable))
	configure(t, peer, "far", gatewayIPv4+"/24", nodeIPv4+"/24", hostIPv4+"/24", otherIPv4+"/24", gatewayIPv6+"/64", hostIPv6+"/64", otherIPv6+"/64")
	configure(t, peer, "lo", "127.0.0.1/8")
	inside := openForTest(t, w.target)
	configure(t, inside, "lo", "127.0.0.1/8")
	configure(t, inside, linkName, targetIPv4+"/24", targetIPv6+"/64")
	link, err := inside.LinkByName(linkName)
	must(t, err)
	for _, gateway := range []string{gatewayIPv4, gatewayIPv6} {
		must(t, inside.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: net.ParseIP(gateway)}))
	}
}

func configure(t *testing.T, c attach.Conn, name string, addresses ...string) {
	t.Helper()
	link, err := c.LinkByName(name)
	must(t, err)
	must(t, c.LinkSetUp(link))
	for _, text := range addresses {
		address, err := netlink.ParseAddr(text)
		must(t, err)
		address.Flags = unix.IFA_F_NODAD
		if err := c.AddrAdd(link, address); err != nil && err != unix.EEXIST {
			t.Fatalf("add %s to %s: %v", text, name, err)
		}
	}
}

// injector makes an injector as the program would: it searches the target again.
func (w *world) injector(t *testing.T, params v1beta1.NetworkDisruption, mechanisms ...attach.Mechanism) *Injector {
	t.Helper()
	found, err := target.Load(context.Background(), w.injection, w.proc)
	must(t, err)
	j, err := journal.Open(w.journals, found)
	must(t, err)
	t.Cleanup(j.Close)
	i := New(params, found, j)
	if len(mechanisms) > 0 {
		i.mechanisms = mechanisms
	}
	t.Cleanup(func() { i.Clean(context.Background()) })
	return i
}

// inject injects, and cleans and compares at the end of the test.
func (w *world) inject(t *testing.T, params v1beta1.NetworkDisruption, mechanisms ...attach.Mechanism) *Injector {
	t.Helper()
	i := w.injector(t, params, mechanisms...)
	must(t, i.Inject(context.Background()))
	return i
}

// traffic is a number of datagrams with their path.
type traffic struct {
	from, to string // network namespaces
	source   string // address, may be empty
	address  string
	port     int
	count    int
	payload  int  // bytes, 6 if 0
	incoming bool // it enters the target
}

func (w *world) out(address string, port, count int) traffic {
	return traffic{from: w.target, to: w.peer, address: address, port: port, count: count}
}

func (w *world) in(source string, port, count int) traffic {
	return traffic{from: w.peer, to: w.target, source: source, address: targetIPv4, port: port, count: count, incoming: true}
}

// lost sends the datagrams and returns how many did not arrive.
func lost(t *testing.T, traffic traffic) int {
	t.Helper()
	r := receive(t, traffic, func([]byte) {})
	defer r.close()
	r.send(t, traffic, func(int) []byte { return make([]byte, cmp.Or(traffic.payload, 6)) })
	return traffic.count - r.total(t, traffic.count)
}

// send sends the datagrams, no faster than the receiver reads them.
func (r *receiver) send(t *testing.T, traffic traffic, payload func(n int) []byte) {
	t.Helper()
	conn := dialUDP(t, traffic)
	defer conn.Close()
	for n := range traffic.count {
		if _, err := conn.Write(payload(n)); err != nil {
			t.Fatalf("send: %v", err)
		}
		if n%32 == 31 {
			r.drained(t)
		}
	}
}

// quiet without a datagram means that no more arrive, even in a virtual machine that has no
// processor for a while.
const quiet = 400 * time.Millisecond

// receiver counts datagrams on arrival, and hands each on. Its buffer has room for all of a
// test: a kernel thread may deliver them at once, before any read.
type receiver struct {
	conn  *net.UDPConn
	count atomic.Int64
	ended chan struct{}
}

func receive(t *testing.T, traffic traffic, each func(payload []byte)) *receiver {
	t.Helper()
	r := &receiver{ended: make(chan struct{})}
	// A child that is being started holds the socket of the previous receiver until it
	// executes.
	testcontainer.Eventually(t, "the port is free", func() error {
		return target.Do(traffic.to, func() (err error) {
			r.conn, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(traffic.address), uint16(traffic.port))))
			return err
		})
	})
	raw, err := r.conn.SyscallConn()
	must(t, err)
	must(t, raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20) }))
	must(t, err)
	go func() {
		defer close(r.ended)
		buffer := make([]byte, 2048)
		for {
			n, err := r.conn.Read(buffer)
			if err != nil {
				return
			}
			each(buffer[:n])
			r.count.Add(1)
		}
	}()
	return r
}

func (r *receiver) close() {
	r.conn.Close()
	<-r.ended
}

// drained waits until the socket's buffer is empty.
func (r *receiver) drained(t *testing.T) {
	t.Helper()
	raw, err := r.conn.SyscallConn()
	must(t, err)
	testcontainer.Eventually(t, "receive buffer is empty", func() error {
		waiting := 0
		if err := raw.Control(func(fd uintptr) { waiting, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }); err != nil {
			return nil // closed
		}
		if waiting > 0 {
			return fmt.Errorf("%d bytes wait", waiting)
		}
		return nil
	})
}

// total is how many of the sent ones arrived: once all have, or it is quiet.
func (r *receiver) total(t *testing.T, sent int) int {
	t.Helper()
	last, since := int64(-1), time.Now()
	testcontainer.Eventually(t, "no more datagrams come", func() error {
		if now := r.count.Load(); now != last {
			last, since = now, time.Now()
		}
		r.drained(t)
		if last < int64(sent) && time.Since(since) < quiet {
			return fmt.Errorf("%d came just now", last)
		}
		return nil
	})
	return int(last)
}

func dialUDP(t *testing.T, traffic traffic) net.Conn {
	t.Helper()
	dialer := net.Dialer{}
	if traffic.source != "" {
		dialer.LocalAddr = &net.UDPAddr{IP: net.ParseIP(traffic.source)}
	}
	var conn net.Conn
	must(t, target.Do(traffic.from, func() (err error) {
		conn, err = dialer.Dial("udp", net.JoinHostPort(traffic.address, strconv.Itoa(traffic.port)))
		return err
	}))
	return conn
}

// connects is true if the target can open a TCP connection to the peer.
func (w *world) connects(t *testing.T, address string, port int) bool {
	t.Helper()
	return w.connect(t, address, port, 4) == nil // 15 s
}

// isCut is true if it cannot.
func (w *world) isCut(t *testing.T, address string, port int) bool {
	t.Helper()
	return w.connect(t, address, port, 1) != nil // 1 s
}

// errCut means that the kernel repeated its request for lack of an answer.
var errCut = errors.New("no answer")

// connect returns nil once there is a connection. It returns an error once the kernel has
// repeated its first packet so many times without an answer: after a second, and after
// twice as long each time. The test's own time does not matter, as the peer's kernel
// answers at once.
func (w *world) connect(t *testing.T, address string, port int, repeats uint8) (outcome error) {
	t.Helper()
	where := netip.AddrPortFrom(netip.MustParseAddr(address), uint16(port))
	var listener net.Listener
	must(t, target.Do(w.peer, func() (err error) {
		listener, err = net.Listen("tcp", where.String())
		return err
	}))
	defer listener.Close()
	family, to := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: port, Addr: where.Addr().As16()})
	if where.Addr().Is4() {
		family, to = unix.AF_INET, &unix.SockaddrInet4{Port: port, Addr: where.Addr().As4()}
	}
	var socket int
	must(t, target.Do(w.target, func() (err error) {
		if socket, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		outcome = unix.Connect(socket, to)
		return nil
	}))
	defer unix.Close(socket)
	if !errors.Is(outcome, unix.EINPROGRESS) {
		return outcome
	}
	patience.Within(t, time.Minute, "the kernel connects, or repeats what was not answered", func() bool {
		info, err := unix.GetsockoptTCPInfo(socket, unix.SOL_TCP, unix.TCP_INFO)
		must(t, err)
		refused, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_ERROR)
		must(t, err)
		switch {
		case refused != 0:
			outcome = unix.Errno(refused)
		case info.State == unix.BPF_TCP_ESTABLISHED:
			outcome = nil
		case info.Retransmits >= repeats:
			outcome = errCut
		default:
			return false
		}
		return true
	})
	return outcome
}

// state is everything the kernel shows about packet handling in a namespace.
func state(t *testing.T, netns string) string {
	t.Helper()
	c := openForTest(t, netns)
	links, err := c.Links()
	must(t, err)
	commands := [][]string{{"nft", "list", "ruleset"}, {"tc", "-d", "qdisc", "show"}}
	for _, link := range links {
		commands = append(commands,
			[]string{"tc", "-d", "filter", "show", "dev", link.Name},
			[]string{"tc", "-d", "filter", "show", "dev", link.Name, "egress"},
			[]string{"tc", "-d", "filter", "show", "dev", link.Name, "ingress"})
	}
	var text strings.Builder
	for _, command := range commands {
		must(t, target.Do(netns, func() error {
			output, err := exec.Command(command[0], command[1:]...).CombinedOutput()
			fmt.Fprintf(&text, "%s\n%s", strings.Join(command, " "), output)
			if command[0] == "nft" {
				return nil // a kernel without nftables fails before and after
			}
			return err
		}))
	}
	objects, err := attach.Audit(netns)
	must(t, err)
	fmt.Fprintf(&text, "ours: %v\n", objects)
	return text.String()
}

func openForTest(t *testing.T, netns string) attach.Conn {
	t.Helper()
	c, err := attach.Open(netns)
	must(t, err)
	t.Cleanup(c.Close)
	return c
}

// pretend makes a directory of processes with other files for the container and for process
// 1. At node level, process 1 is in the container's namespace.
func (w *world) pretend(t *testing.T, containerFiles, nodeFiles map[string]string) {
	t.Helper()
	w.proc = t.TempDir()
	source := fmt.Sprintf("/proc/%d", w.container.PID)
	inside := map[string]string{"stat": source + "/stat", "status": source + "/status", "cgroup": source + "/cgroup", "ns/net": w.target}
	outside := map[string]string{"stat": "/proc/1/stat", "status": "/proc/1/status", "ns/net": w.peer}
	if w.injection.Level == v1beta1.LevelNode {
		outside["ns/net"], outside["net"] = w.target, source+"/net"
	}
	make := func(pid string, entries, files map[string]string) {
		for entry, to := range entries {
			path := filepath.Join(w.proc, pid, entry)
			must(t, os.MkdirAll(filepath.Dir(path), 0o755))
			must(t, os.Symlink(to, path))
		}
		for file, text := range files {
			path := filepath.Join(w.proc, pid, "root/etc", file)
			must(t, os.MkdirAll(filepath.Dir(path), 0o755))
			must(t, os.WriteFile(path, []byte(text), 0o644))
		}
	}
	make(strconv.Itoa(w.container.PID), inside, containerFiles)
	make("1", outside, nodeFiles)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
