//go:build linux

package network

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/bits"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/attach"
	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/losstest"
)

// numbered is the payload of the datagram n. It holds the number three times, so
// that one flipped bit does not hide it.
func numbered(n uint32, size int) []byte {
	payload := bytes.Repeat([]byte{0x5a}, size)
	for at := range 3 {
		binary.BigEndian.PutUint32(payload[4*at:], n)
	}
	return payload
}

func numberOf(payload []byte) uint32 {
	a, b, c := binary.BigEndian.Uint32(payload), binary.BigEndian.Uint32(payload[4:]), binary.BigEndian.Uint32(payload[8:])
	return a&b | a&c | b&c
}

func flippedBits(payload, want []byte) int {
	count := 0
	for i := range payload {
		count += bits.OnesCount8(payload[i] ^ want[i])
	}
	return count
}

// sight is what a packet socket saw of one datagram.
type sight struct{ copies, damaged int }

// watch collects the datagrams to a port that a packet socket sees arriving in the
// namespace at netns. The sights may be read after stop, which returns when no more arrive.
type watch struct {
	fd       int
	mutex    sync.Mutex
	sights   map[uint32]sight
	last     time.Time
	stopping bool
	ended    chan struct{}
}

func watchPort(t *testing.T, netns string, port, size int) *watch {
	t.Helper()
	w := &watch{sights: map[uint32]sight{}, last: time.Now(), ended: make(chan struct{})}
	must(t, target.Do(netns, func() (err error) {
		w.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(htons(unix.ETH_P_ALL)))
		return err
	}))
	must(t, unix.SetsockoptInt(w.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20))
	must(t, unix.SetsockoptTimeval(w.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 20000}))
	go func() {
		defer close(w.ended)
		defer unix.Close(w.fd)
		buffer := make([]byte, 65536)
		for {
			n, from, err := unix.Recvfrom(w.fd, buffer, 0)
			w.mutex.Lock()
			if err != nil && time.Since(w.last) > quiet && w.stopping {
				w.mutex.Unlock()
				return
			}
			if link, ok := from.(*unix.SockaddrLinklayer); err == nil && ok && link.Pkttype != unix.PACKET_OUTGOING {
				w.see(buffer[:n], port, size)
			}
			w.mutex.Unlock()
		}
	}()
	return w
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

func (w *watch) see(frame []byte, port, size int) {
	if len(frame) < 14+20 {
		return
	}
	l4 := 14 + 40
	if frame[12] == 8 {
		l4 = 14 + 20
	}
	if len(frame) < l4+8+size || int(binary.BigEndian.Uint16(frame[l4+2:])) != port {
		return
	}
	payload := frame[l4+8 : l4+8+size]
	n := numberOf(payload)
	s := w.sights[n]
	s.copies++
	if flipped := flippedBits(payload, numbered(n, size)); flipped == 1 {
		s.damaged++
	}
	w.sights[n] = s
	w.last = time.Now()
}

func (w *watch) stop() map[uint32]sight {
	w.mutex.Lock()
	w.stopping, w.last = true, time.Now()
	w.mutex.Unlock()
	<-w.ended
	return w.sights
}

// sendNumbered sends datagrams 0 to count. It returns those that the receiver's socket got
// unchanged, and how many it got changed.
func sendNumbered(t *testing.T, tr traffic) (good map[uint32]int, bad int) {
	t.Helper()
	good = map[uint32]int{}
	r := receive(t, tr, func(payload []byte) {
		number := numberOf(payload)
		if bytes.Equal(payload, numbered(number, tr.payload)) {
			good[number]++
		} else {
			bad++
		}
	})
	r.send(t, tr, func(n int) []byte { return numbered(uint32(n), tr.payload) })
	r.total(t, math.MaxInt) // some arrive twice, so the total is unknown
	r.close()
	return good, bad
}

func inBounds(t *testing.T, what string, got, of, percent int) {
	t.Helper()
	low, high := losstest.Bounds(of, percent)
	t.Logf("%s: %d of %d, %.1f %%, asked for %d %%", what, got, of, 100*float64(got)/float64(of), percent)
	if got < low || got > high {
		t.Errorf("%s: %d of %d, want %d to %d", what, got, of, low, high)
	}
}

// luckyChecksums is how many of a few thousand wrong checksums may match by chance. One in
// 65,536 does, so one measurement in a million exceeds this bound.
const luckyChecksums = 2

// A packet socket at the far end of the cable, which sees what the target sent, measures
// the shares. The receiver's socket must not get a damaged datagram.
func TestSharesOfWhatGoesOut(t *testing.T) {
	const count = 3000
	everyMechanism(t, func(t *testing.T, w *world, try attach.Mechanism) {
		for name, test := range map[string]struct {
			params  v1beta1.NetworkDisruption
			address string
			size    int
		}{
			"drop":                      {v1beta1.NetworkDisruption{Drop: 30}, hostIPv4, 40},
			"duplicate":                 {v1beta1.NetworkDisruption{Duplicate: 50}, hostIPv4, 40},
			"corrupt":                   {v1beta1.NetworkDisruption{Corrupt: 50}, hostIPv4, 40},
			"corrupt, large":            {v1beta1.NetworkDisruption{Corrupt: 50}, hostIPv4, 1400},
			"corrupt all, IPv6":         {v1beta1.NetworkDisruption{Corrupt: 100}, hostIPv6, 40},
			"duplicate all, IPv6":       {v1beta1.NetworkDisruption{Duplicate: 100}, hostIPv6, 40},
			"all three":                 {v1beta1.NetworkDisruption{Drop: 30, Duplicate: 50, Corrupt: 50}, hostIPv4, 40},
			"all three, IPv6 and large": {v1beta1.NetworkDisruption{Drop: 30, Duplicate: 50, Corrupt: 50}, hostIPv6, 1200},
		} {
			test.params.Hosts = []v1beta1.NetworkHost{{Host: hostIPv4, Port: 7000}, {Host: hostIPv6, Port: 7000}}
			i := w.inject(t, test.params, try)
			seen := watchPort(t, w.peer, 7000, test.size)
			out := w.out(test.address, 7000, count)
			out.payload = test.size
			good, bad := sendNumbered(t, out)
			sights := seen.stop()
			twice, damaged := 0, 0
			for n, s := range sights {
				if s.damaged != 0 && s.damaged != s.copies || s.copies > 2 {
					t.Errorf("%s: datagram %d arrived %d times, %d damaged, want at most 2, alike", name, n, s.copies, s.damaged)
				}
				if s.copies == 2 {
					twice++
				}
				if s.damaged > 0 {
					damaged++
				}
				if want := s.copies - s.damaged; good[n] != want {
					t.Errorf("%s: the receiver got datagram %d %d times, want %d", name, n, good[n], want)
				}
			}
			inBounds(t, name+": lost", count-len(sights), count, int(test.params.Drop))
			inBounds(t, name+": twice", twice, len(sights), int(test.params.Duplicate))
			inBounds(t, name+": damaged", damaged, len(sights), int(test.params.Corrupt))
			if bad > luckyChecksums {
				t.Errorf("%s: %d damaged datagrams reached the receiver, want none: their checksums are wrong", name, bad)
			}
			clean(t, i)
			i.journal.Close()
		}
	})
}

// Two programs that copied each other's copies would never end.
func TestTwoThatDuplicateMakeFour(t *testing.T) {
	everyMechanism(t, func(t *testing.T, w *world, try attach.Mechanism) {
		params := v1beta1.NetworkDisruption{Duplicate: 100, Hosts: []v1beta1.NetworkHost{{Host: hostIPv4, Port: 7000}}}
		first := w.inject(t, params, try)
		w.injection.Disruption.UID += "2"
		second := w.inject(t, params, try)
		seen := watchPort(t, w.peer, 7000, 40)
		out := w.out(hostIPv4, 7000, 100)
		out.payload = 40
		sendNumbered(t, out)
		for n, s := range seen.stop() {
			if s.copies != 4 {
				t.Errorf("datagram %d arrived %d times, want it doubled by each of two", n, s.copies)
			}
		}
		clean(t, second)
		clean(t, first)
	})
}

// Arriving packets are disrupted before the target's own sockets, whatever their sender.
func TestSharesOfWhatComesIn(t *testing.T) {
	const count = 3000
	everyMechanism(t, func(t *testing.T, w *world, try attach.Mechanism) {
		for name, params := range map[string]v1beta1.NetworkDisruption{
			"drop":      {Drop: 30},
			"duplicate": {Duplicate: 50},
			"corrupt":   {Corrupt: 50},
			"all three": {Drop: 30, Duplicate: 50, Corrupt: 50},
		} {
			params.Hosts = []v1beta1.NetworkHost{{Host: hostIPv4, Port: 8000, Flow: "ingress"}}
			i := w.inject(t, params, try)
			in := w.in(hostIPv4, 8000, count)
			in.payload = 40
			before := wrongChecksums(t, w.target)
			good, bad := sendNumbered(t, in)
			wrong := wrongChecksums(t, w.target) - before
			twice := 0
			for _, copies := range good {
				if copies == 2 {
					twice++
				}
			}
			arrived := (100 - params.Drop) * (100 - params.Corrupt) / 100
			inBounds(t, name+": whole", len(good), count, int(arrived))
			inBounds(t, name+": twice", twice, len(good), int(params.Duplicate))
			// A damaged copy counts as well.
			if params.Duplicate == 0 {
				inBounds(t, name+": wrong checksums", wrong, count, int(params.Corrupt))
			}
			if bad > luckyChecksums {
				t.Errorf("%s: %d damaged datagrams reached the receiver, want none", name, bad)
			}
			if replies := lost(t, w.out(hostIPv4, 8000, 200)); replies != 0 {
				t.Errorf("%s: %d of 200 that go out lost, want 0", name, replies)
			}
			clean(t, i)
			i.journal.Close()
		}
	})
}

// wrongChecksums is how many datagrams a namespace has dropped for a wrong checksum.
func wrongChecksums(t *testing.T, netns string) int {
	t.Helper()
	pid := strings.Split(netns, "/")[2]
	data, err := os.ReadFile(filepath.Join("/proc", pid, "net/snmp"))
	must(t, err)
	var names []string
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if fields[0] != "Udp:" {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		for at, name := range names {
			if name == "InCsumErrors" {
				count, err := strconv.Atoi(fields[at])
				must(t, err)
				return count
			}
		}
	}
	t.Fatal("no count of wrong checksums")
	return 0
}

// The kernel hands many segments of a stream to the link as one packet, before it computes
// the checksum. The damaged part must not reach the receiver.
func TestStreamArrivesWholeThoughPacketsAreCorrupted(t *testing.T) {
	everyMechanism(t, func(t *testing.T, w *world, try attach.Mechanism) {
		i := w.inject(t, v1beta1.NetworkDisruption{Corrupt: 10, Duplicate: 10, Hosts: []v1beta1.NetworkHost{{Host: hostIPv4}, {Host: hostIPv4, Port: 0, Flow: "ingress"}}}, try)
		sent := make([]byte, 300<<10)
		for at := range sent {
			sent[at] = byte(at * 7 >> 3)
		}
		var listener net.Listener
		must(t, target.Do(w.peer, func() (err error) {
			listener, err = net.Listen("tcp", hostIPv4+":7001")
			return err
		}))
		defer listener.Close()
		result := make(chan error, 1)
		go func() {
			conn, err := listener.Accept()
			if err != nil {
				result <- err
				return
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(time.Minute))
			got, err := io.ReadAll(conn)
			if err == nil && !bytes.Equal(got, sent) {
				err = fmt.Errorf("%d bytes arrived, %d were sent, and they differ", len(got), len(sent))
			}
			result <- err
		}()
		must(t, target.Do(w.target, func() error {
			conn, err := net.DialTimeout("tcp", hostIPv4+":7001", 20*time.Second)
			if err != nil {
				return err
			}
			defer conn.Close()
			_, err = conn.Write(sent)
			return err
		}))
		if err := <-result; err != nil {
			t.Error(err)
		}
		clean(t, i)
	})
}
