//go:build linux

package network

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/attach"
	"github.com/squall-chaos/squall/injector/classifier"
	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/losstest"
	"github.com/squall-chaos/squall/test/patience"
	"github.com/squall-chaos/squall/test/testcontainer"
	"github.com/squall-chaos/squall/test/testneeds"
)

const mebibyte = 1 << 20

// needQueues skips the test if the kernel cannot delay packets.
func needQueues(t *testing.T, params v1beta1.NetworkDisruption) {
	t.Helper()
	testneeds.BeRoot(t)
	if _, err := chooseQueues(demandOf(params)); err != nil {
		testneeds.Missing(t, testneeds.Queues, err)
	}
}

// stream is a TCP connection that carries data one way as fast as it can.
type stream struct {
	from, to string // network namespaces
	source   string // address of the sender, may be empty
	address  string // of the receiver
	port     int
}

// rate is the least and the most that a stream may have carried, in bytes per second. The
// receiver's kernel counts, so the time of reading does not matter. The two differ by how
// long the test waited for the processor while it read the count.
type rate struct{ least, most float64 }

// settling is how long queues fill at the beginning of a stream. The rate excludes it.
const settling = 800 * time.Millisecond

// rate sends for four seconds and returns the rate of the last 3.2.
func (s stream) rate(t *testing.T) rate {
	t.Helper()
	where := net.JoinHostPort(s.address, strconv.Itoa(s.port))
	var listener net.Listener
	var sender net.Conn
	dialer := net.Dialer{Timeout: 20 * time.Second}
	if s.source != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(s.source)}
	}
	must(t, target.Do(s.to, func() (err error) { listener, err = net.Listen("tcp", where); return err }))
	defer listener.Close()
	must(t, target.Do(s.from, func() (err error) { sender, err = dialer.Dial("tcp", where); return err }))
	defer sender.Close()
	receiver, err := listener.Accept()
	must(t, err)
	defer receiver.Close()
	go io.Copy(sender, zeros{})
	go io.Copy(io.Discard, receiver)
	time.Sleep(settling)
	began := countOf(t, receiver)
	time.Sleep(4*time.Second - settling)
	ended := countOf(t, receiver)
	carried := float64(ended.bytes - began.bytes)
	return rate{least: carried / ended.after.Sub(began.before).Seconds(), most: carried / ended.before.Sub(began.after).Seconds()}
}

// count is what a connection had received at some moment between two times.
type count struct {
	bytes         uint64
	before, after time.Time
}

func countOf(t *testing.T, conn net.Conn) (c count) {
	t.Helper()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	must(t, err)
	var info *unix.TCPInfo
	must(t, raw.Control(func(fd uintptr) {
		c.before = time.Now()
		info, err = unix.GetsockoptTCPInfo(int(fd), unix.SOL_TCP, unix.TCP_INFO)
		c.after = time.Now()
	}))
	must(t, err)
	c.bytes = info.Bytes_received
	return c
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func (w *world) outStream(address string, port int) stream {
	return stream{from: w.target, to: w.peer, address: address, port: port}
}

func (w *world) inStream(source, address string, port int) stream {
	return stream{from: w.peer, to: w.target, source: source, address: address, port: port}
}

// wantRate wants a stream to reach its limit and not to exceed it. On a busy machine a
// stream may not reach it, and is measured again.
func wantRate(t *testing.T, name string, s stream, asked int64) {
	t.Helper()
	patience.Measure(t, name, func() error {
		got := s.rate(t)
		t.Logf("%s: %.0f bytes per second, asked %d: %+.1f %%", name, got.least, asked, 100*(got.least/float64(asked)-1))
		if got.least > 1.02*float64(asked) {
			t.Fatalf("%s: %.0f bytes per second, want at most %d", name, got.least, asked)
		}
		// The test counts the payload: headers take up to 86 of 1514 bytes, and TCP is slower for
		// a while after each loss.
		if got.most < 0.75*float64(asked) {
			return fmt.Errorf("%.0f bytes per second, want %d less headers", got.most, asked)
		}
		return nil
	})
}

// wantUnlimited wants a stream to carry four times as much as a limit for other packets.
func wantUnlimited(t *testing.T, name string, s stream, limit int64) {
	t.Helper()
	patience.Measure(t, name, func() error {
		if got := s.rate(t); got.most < 4*float64(limit) {
			return fmt.Errorf("%.0f bytes per second while others are limited to %d", got.most, limit)
		}
		return nil
	})
}

func TestBandwidthLimitHoldsForWhatMatches(t *testing.T) {
	params := v1beta1.NetworkDisruption{BandwidthLimit: mebibyte, Hosts: []v1beta1.NetworkHost{
		{Host: hostIPv4, Port: 7000}, {Host: hostIPv6, Port: 7000}, {Port: 8000, Flow: "ingress"},
	}}
	needQueues(t, params)
	w := newWorld(t)
	before := state(t, w.target)
	i := w.inject(t, params)
	for name, s := range map[string]stream{
		"IPv4": w.outStream(hostIPv4, 7000), "IPv6": w.outStream(hostIPv6, 7000),
		"what comes in": w.inStream(hostIPv4, targetIPv4, 8000), "IPv6 that comes in": w.inStream(hostIPv6, targetIPv6, 8000),
	} {
		wantRate(t, name, s, mebibyte)
	}
	for name, traffic := range map[string]traffic{"IPv4": w.out(hostIPv4, 7000, 6000), "IPv6": w.out(hostIPv6, 7000, 6000), "what comes in": w.in(hostIPv4, 8000, 6000)} {
		t.Log(name, "as datagrams:")
		wantDatagramRate(t, traffic, mebibyte)
	}
	for name, s := range map[string]stream{
		"other port": w.outStream(hostIPv4, 7001), "other host": w.outStream(otherIPv4, 7000),
		"other port, incoming": w.inStream(hostIPv4, targetIPv4, 8001),
	} {
		wantUnlimited(t, name, s, mebibyte)
	}
	clean(t, i)
	if diff := cmp.Diff(before, state(t, w.target)); diff != "" {
		t.Errorf("the namespace is not as before (-before +after):\n%s", diff)
	}
}

func TestSecondQueueInANamespaceIsRefused(t *testing.T) {
	params := v1beta1.NetworkDisruption{BandwidthLimit: mebibyte}
	needQueues(t, params)
	w := newWorld(t)
	first := w.inject(t, params)
	before := state(t, w.target)
	w.injection.Disruption.UID += "second"
	second := w.injector(t, params)
	if err := second.Inject(context.Background()); err == nil || !strings.Contains(err.Error(), "another disruption") ||
		!strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("Inject() of a second = %v, want a refusal", err)
	}
	clean(t, second)
	if diff := cmp.Diff(before, state(t, w.target)); diff != "" {
		t.Errorf("after the refusal (-before +after):\n%s", diff)
	}
	clean(t, first)
	must(t, second.Inject(context.Background()))
	clean(t, second)
}

// listenUDP receives into a buffer for all datagrams of a test, however long the receiver
// waits for the processor. The kernel stamps each on arrival; see stamped.
func listenUDP(t *testing.T, traffic traffic) (conn *net.UDPConn) {
	t.Helper()
	where := net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(traffic.address), uint16(traffic.port)))
	must(t, target.Do(traffic.to, func() (err error) { conn, err = net.ListenUDP("udp", where); return err }))
	raw, err := conn.SyscallConn()
	must(t, err)
	must(t, raw.Control(func(fd uintptr) {
		err = errors.Join(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20),
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1))
	}))
	must(t, err)
	return conn
}

// stamped reads the next datagram and returns when the kernel received it, which does not
// depend on the test's own speed. A datagram into the target is stamped before it waits, so
// for an incoming one stamped returns the time of the read.
func stamped(conn *net.UDPConn, buffer []byte, incoming bool) (at time.Time, err error) {
	control := make([]byte, 64)
	_, controls, _, _, err := conn.ReadMsgUDP(buffer, control)
	if err != nil || incoming {
		return time.Now(), err
	}
	messages, err := unix.ParseSocketControlMessage(control[:controls])
	if err != nil {
		return at, err
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS {
			seconds, nanoseconds := binary.NativeEndian.Uint64(m.Data), binary.NativeEndian.Uint64(m.Data[8:])
			return time.Unix(int64(seconds), int64(nanoseconds)), nil
		}
	}
	return at, errors.New("the kernel did not stamp a datagram")
}

// latencies sends datagrams one after the other and returns how long each took, the
// shortest first.
func latencies(t *testing.T, traffic traffic) []time.Duration {
	t.Helper()
	conn := listenUDP(t, traffic)
	defer conn.Close()
	sender := dialUDP(t, traffic)
	defer sender.Close()
	start := time.Now()
	go func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for range traffic.count {
			<-tick.C
			_, _ = sender.Write(binary.BigEndian.AppendUint64(nil, uint64(time.Since(start))))
		}
	}()
	must(t, conn.SetReadDeadline(start.Add(20*time.Second)))
	var took []time.Duration
	buffer := make([]byte, 8)
	for len(took) < traffic.count {
		at, err := stamped(conn, buffer, traffic.incoming)
		if err != nil {
			t.Fatalf("%d of %d arrived: %v", len(took), traffic.count, err)
		}
		took = append(took, at.Sub(start)-time.Duration(binary.BigEndian.Uint64(buffer)))
	}
	slices.Sort(took)
	return took
}

// wantDelay wants half of the packets to take about as long as the parameters set, and
// jitter to spread the others evenly around that. A busy machine makes packets late, and is
// measured again; none may ever be early.
func wantDelay(t *testing.T, name string, traffic traffic, delay, jitter time.Duration) {
	t.Helper()
	slack := time.Duration(testneeds.Slack())
	patience.Measure(t, name, func() error {
		took := latencies(t, traffic)
		at := func(percent int) time.Duration { return took[(len(took)-1)*percent/100] }
		t.Logf("%s: first %s, p10 %s, p50 %s, p90 %s, last %s", name, took[0], at(10), at(50), at(90), took[len(took)-1])
		if took[0] < delay-jitter || at(50) < delay*95/100 {
			t.Fatalf("%s: a packet took %s and half of them %s, want at least %s and %s", name, took[0], at(50), delay-jitter, delay*95/100)
		}
		if p50 := at(50); p50 > delay*(100+5*slack)/100 {
			return fmt.Errorf("half of the packets took %s, want %s give or take %d %%", p50, delay, 5*slack)
		}
		// Evenly spread, a tenth of the packets is 0.8 jitters early or more, and
		// another one as late.
		if p10, p90 := at(10), at(90); p10 > delay-jitter*6/10/slack || p90 < delay+jitter*6/10 {
			return fmt.Errorf("p10 %s and p90 %s, want them 0.8 times %s away from %s", p10, p90, jitter, delay)
		}
		return nil
	})
}

func wantNoDelay(t *testing.T, name string, traffic traffic) {
	t.Helper()
	patience.Measure(t, name, func() error {
		if took := latencies(t, traffic); took[len(took)/2] > 20*time.Millisecond {
			return fmt.Errorf("half of the packets took %s or more, want no delay", took[len(took)/2])
		}
		return nil
	})
}

func TestDelayHoldsForWhatMatches(t *testing.T) {
	params := v1beta1.NetworkDisruption{Delay: 100, Hosts: []v1beta1.NetworkHost{
		{Host: hostIPv4, Port: 7000}, {Host: hostIPv6, Port: 7000}, {Host: hostIPv4, Port: 8000, Flow: "ingress"}, {Host: "127.0.0.1", Port: 7000},
	}}
	needQueues(t, params)
	w := newWorld(t)
	before := state(t, w.target)
	i := w.inject(t, params)
	t.Log(i.namespaces[0].queue)
	itself := traffic{from: w.target, to: w.target, address: "127.0.0.1", port: 7000, count: 500}
	for name, traffic := range map[string]traffic{
		"IPv4": w.out(hostIPv4, 7000, 500), "IPv6": w.out(hostIPv6, 7000, 500),
		"what comes in": w.in(hostIPv4, 8000, 500), "itself, by loopback": itself,
	} {
		wantDelay(t, name, traffic, 100*time.Millisecond, 10*time.Millisecond)
	}
	for name, traffic := range map[string]traffic{
		"other port": w.out(hostIPv4, 7001, 100), "other host": w.out(otherIPv4, 7000, 100), "other IPv6 port": w.out(hostIPv6, 7001, 100),
		"from another host": w.in(otherIPv4, 8000, 100), "to another port": w.in(hostIPv4, 8001, 100),
	} {
		wantNoDelay(t, name, traffic)
	}
	clean(t, i)
	wantNoDelay(t, "after cleaning", w.out(hostIPv4, 7000, 100))
	if diff := cmp.Diff(before, state(t, w.target)); diff != "" {
		t.Errorf("the namespace is not as before (-before +after):\n%s", diff)
	}
}

func TestDelayJitterIsAShareOfTheDelay(t *testing.T) {
	for _, test := range []struct {
		delay, percent int
		want           time.Duration
	}{{100, 50, 50 * time.Millisecond}, {200, 0, 20 * time.Millisecond}, {5, 10, time.Millisecond}, {100, 1, time.Millisecond}, {0, 50, 0}} {
		got := demandOf(v1beta1.NetworkDisruption{Delay: v1beta1.Milliseconds(test.delay), DelayJitter: v1beta1.PercentNumber(test.percent)}).Jitter
		if got != test.want {
			t.Errorf("delay %d ms, jitter %d %%: %s, want %s", test.delay, v1beta1.PercentNumber(test.percent), got, test.want)
		}
	}
	params := v1beta1.NetworkDisruption{Delay: 100, DelayJitter: 50}
	needQueues(t, params)
	w := newWorld(t)
	i := w.inject(t, params)
	wantDelay(t, "jitter of 50 %", w.out(hostIPv4, 7000, 1000), 100*time.Millisecond, 50*time.Millisecond)
	clean(t, i)
}

// Half of the packets are dropped once, not twice although they pass twice. The others
// wait, and no more than the limit pass.
func TestDelayDropAndBandwidthLimitTogether(t *testing.T) {
	params := v1beta1.NetworkDisruption{Drop: 40, Delay: 100, BandwidthLimit: slowRate, Hosts: []v1beta1.NetworkHost{
		{Host: hostIPv4, Port: 7000}, {Host: hostIPv4, Port: 8000, Flow: "ingress"},
	}}
	needQueues(t, params)
	everyMechanism(t, func(t *testing.T, w *world, try attach.Mechanism) {
		i := w.inject(t, params, try)
		for name, traffic := range map[string]traffic{"out": w.out(hostIPv4, 7000, 2000), "in": w.in(hostIPv4, 8000, 2000)} {
			arrived := arrivals(t, traffic)
			low, high := losstest.Bounds(traffic.count, 40)
			if got := traffic.count - len(arrived); got < low || got > high {
				t.Errorf("%s: %d of %d lost, want %d to %d", name, got, traffic.count, low, high)
			}
			if arrived[0] < 90*time.Millisecond {
				t.Errorf("%s: the first packet took %s, want 100 ms give or take 10", name, arrived[0])
			}
		}
		wantDatagramRate(t, w.out(hostIPv4, 7000, 2000), slowRate)
		clean(t, i)
	})
}

// slowRate is so low that a socket can exceed it even while its send buffer holds
// what is delayed.
const slowRate = 200 << 10

// wantDatagramRate sends faster than the limit lets pass.
func wantDatagramRate(t *testing.T, traffic traffic, asked float64) {
	t.Helper()
	traffic.payload = 1400
	headers := 14 + 20 + 8
	if strings.Contains(traffic.address, ":") {
		headers += 20
	}
	size := traffic.payload + headers
	// On a virtual machine the sender and the queue share a processor.
	slack := float64(testneeds.Slack())
	tries := 0
	patience.Measure(t, "datagrams", func() error {
		tries++
		arrived := arrivals(t, traffic)
		settled, last := len(arrived)/5, arrived[len(arrived)-1] // before, queues fill
		rate := float64((len(arrived)-settled)*size) / (last - arrived[settled]).Seconds()
		most := rate
		if traffic.incoming {
			// For these the test knows when it read them, which may be late but never early.
			most = float64(len(arrived)*size) / last.Seconds()
		}
		t.Logf("%d packets arrived at %.0f bytes per second, asked %.0f: %+.1f %%", len(arrived), rate, asked, 100*(rate/asked-1))
		if most > (1+0.05*slack)*asked {
			t.Fatalf("%d packets arrived at %.0f bytes per second, want at most %.0f", len(arrived), most, asked)
		}
		// If hardly any is lost, either the sender was too slow, on a busy machine, or all
		// datagrams wait. Then the test can only check that the limit is not exceeded.
		if used := len(arrived) <= traffic.count*9/10; !used {
			if tries < 5 && !traffic.incoming {
				return fmt.Errorf("%d of %d arrived: the limit was not used", len(arrived), traffic.count)
			}
			return nil
		}
		if rate < (1.08-0.13*slack)*asked {
			return fmt.Errorf("%d packets arrived at %.0f bytes per second, want %.0f", len(arrived), rate, asked)
		}
		return nil
	})
}

// arrivals sends datagrams, two per millisecond, and returns when each arrived, counted
// from the first one sent.
func arrivals(t *testing.T, traffic traffic) []time.Duration {
	t.Helper()
	conn := listenUDP(t, traffic)
	defer conn.Close()
	sender := dialUDP(t, traffic)
	defer sender.Close()
	start := time.Now()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for n := range traffic.count {
			time.Sleep(time.Until(start.Add(time.Duration(n) * time.Second / 2000)))
			_, _ = sender.Write(make([]byte, max(traffic.payload, 6)))
		}
	}()
	var arrived []time.Duration
	buffer := make([]byte, 2048)
	for {
		must(t, conn.SetReadDeadline(time.Now().Add(time.Second)))
		at, err := stamped(conn, buffer, traffic.incoming)
		if err == nil {
			arrived = append(arrived, at.Sub(start))
			continue
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		select {
		case <-sent:
			if len(arrived) == 0 {
				t.Fatal("no packet arrived")
			}
			return arrived
		default:
		}
	}
}

func TestQueuesOfSomeContainersAlone(t *testing.T) {
	params := v1beta1.NetworkDisruption{BandwidthLimit: slowRate, Hosts: []v1beta1.NetworkHost{{Host: hostIPv4}}}
	needQueues(t, params)
	w := newWorld(t)
	w.injection.Target.SomeContainers = true
	i := w.injector(t, params)
	if i.target.Containers[0].Cgroups.Unified == "" {
		testneeds.Missing(t, testneeds.UnifiedCgroups)
	}
	must(t, i.Inject(context.Background()))
	wantUnlimited(t, "a process of another container", w.outStream(hostIPv4, 7000), slowRate)
	clean(t, i)
}

func TestWhatQueuesCannotDoIsRefused(t *testing.T) {
	some := func(w *world) { w.injection.Target.SomeContainers = true }
	for name, test := range map[string]struct {
		change func(*world)
		params v1beta1.NetworkDisruption
		want   string
	}{
		"the state of connections": {func(*world) {}, v1beta1.NetworkDisruption{BandwidthLimit: mebibyte, Hosts: []v1beta1.NetworkHost{{ConnState: "new"}}}, "connState"},
		"what arrives for some containers": {some, v1beta1.NetworkDisruption{BandwidthLimit: mebibyte, Hosts: []v1beta1.NetworkHost{{Host: hostIPv4, Flow: "ingress"}}},
			"port"},
	} {
		t.Run(name, func(t *testing.T) {
			needQueues(t, test.params)
			w := newWorld(t)
			test.change(w)
			before := state(t, w.target)
			i := w.injector(t, test.params)
			if err := i.Inject(context.Background()); err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "nothing was changed") {
				t.Errorf("Inject() = %v, want it to say %q", err, test.want)
			}
			if diff := cmp.Diff(before, state(t, w.target)); diff != "" {
				t.Errorf("after the refusal (-before +after):\n%s", diff)
			}
		})
	}
}

// At node level, loopback and the safeguards are left alone.
func TestDelayOfANode(t *testing.T) {
	params := v1beta1.NetworkDisruption{Delay: 100, BandwidthLimit: slowRate}
	needQueues(t, params)
	w := newWorld(t)
	w.injection.Level, w.injection.Target.Containers = v1beta1.LevelNode, nil
	w.pretend(t, nil, nil)
	before := state(t, w.target)
	i := w.inject(t, params)
	wantDelay(t, "IPv4", w.out(hostIPv4, 7000, 500), 100*time.Millisecond, 10*time.Millisecond)
	wantDatagramRate(t, w.out(hostIPv6, 7000, 1000), slowRate)
	wantNoDelay(t, "loopback", traffic{from: w.target, to: w.target, address: "127.0.0.1", port: 7000, count: 100})
	clean(t, i)
	if diff := cmp.Diff(before, state(t, w.target)); diff != "" {
		t.Errorf("the namespace is not as before (-before +after):\n%s", diff)
	}
}

// Foreign qdiscs at the links stay, and continue to work.
func TestQueuesLeaveForeignQdiscsAlone(t *testing.T) {
	params := v1beta1.NetworkDisruption{BandwidthLimit: mebibyte, Hosts: []v1beta1.NetworkHost{{Host: hostIPv4, Port: 7000}}}
	needQueues(t, params)
	w := newWorld(t)
	theirs := "tc qdisc add dev " + linkName + " root handle 5: tbf rate 32mbit burst 64kb latency 50ms" +
		" && tc qdisc add dev " + linkName + " clsact && tc filter add dev " + linkName + " egress protocol ip pref 7 u32 match ip dst 10.9.0.99/32 flowid 1:1"
	must(t, target.Do(w.target, func() error { return exec.Command("sh", "-c", theirs).Run() }))
	before := state(t, w.target)
	i := w.inject(t, params)
	wantRate(t, "limited by us", w.outStream(hostIPv4, 7000), mebibyte)
	patience.Measure(t, "limited by them to 4 MB per second", func() error {
		if got := w.outStream(hostIPv4, 7001).rate(t); got.most < 3*mebibyte || got.least > 4.4*mebibyte {
			return fmt.Errorf("%.0f bytes per second", got.least)
		}
		return nil
	})
	clean(t, i)
	if diff := cmp.Diff(before, state(t, w.target)); diff != "" {
		t.Errorf("the namespace is not as before (-before +after):\n%s", diff)
	}
}

// A link of another type with such a name, and another disruption's device, are not ours to
// remove.
func TestCleanLeavesLinksOfOthers(t *testing.T) {
	w := newWorld(t)
	c := openForTest(t, w.target)
	i := w.injector(t, v1beta1.NetworkDisruption{BandwidthLimit: mebibyte})
	lookalike := attach.MarkOf(w.injection).Link(classifier.Egress)
	must(t, c.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: lookalike}, PeerName: "peer"}))
	must(t, c.LinkAdd(&netlink.Ifb{LinkAttrs: netlink.LinkAttrs{Name: "sq_other_out"}}))
	clean(t, i)
	for _, name := range []string{lookalike, "sq_other_out"} {
		if _, err := c.LinkByName(name); err != nil {
			t.Errorf("link %s: %v, want it left alone", name, err)
		}
	}
}

// When a name resolves to other addresses, other packets are delayed.
func TestQueuesFollowNames(t *testing.T) {
	params := v1beta1.NetworkDisruption{Delay: 100, BandwidthLimit: 100 * mebibyte, Hosts: []v1beta1.NetworkHost{{Host: "db.test"}}}
	needQueues(t, params)
	w := newWorld(t)
	w.pretend(t, map[string]string{"hosts": hostIPv4 + " db.test\n"}, nil)
	i := w.injector(t, params)
	i.refreshEvery = 50 * time.Millisecond
	must(t, i.Inject(context.Background()))
	wantDelay(t, "first address", w.out(hostIPv4, 7000, 300), 100*time.Millisecond, 10*time.Millisecond)
	hosts := filepath.Join(w.proc, strconv.Itoa(w.container.PID), "root/etc/hosts")
	must(t, os.WriteFile(hosts, []byte(otherIPv4+" db.test\n"), 0o644))
	testcontainer.Eventually(t, "the second address is delayed, and the first is not", func() error {
		first, second := latencies(t, w.out(hostIPv4, 7000, 5)), latencies(t, w.out(otherIPv4, 7000, 5))
		if first[0] > 50*time.Millisecond || second[0] < 50*time.Millisecond {
			return fmt.Errorf("first %s, second %s", first, second)
		}
		return nil
	})
	clean(t, i)
}
