//go:build linux

package network

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/attach"
	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/testcontainer"
)

func TestLinksThatComeLaterAreDisturbed(t *testing.T) {
	everyMechanism(t, func(t *testing.T, w *world, try attach.Mechanism) {
		i := w.inject(t, v1beta1.NetworkDisruption{Drop: 100, Hosts: []v1beta1.NetworkHost{
			{Host: "10.8.0.1"}, {Host: "10.8.0.1", Port: 8000, Flow: "ingress"}, {Host: hostIPv4},
		}}, try)
		out := traffic{from: w.target, to: w.peer, address: "10.8.0.1", port: 7000, count: 20}
		in := traffic{from: w.peer, to: w.target, address: "10.8.0.2", port: 8000, count: 20}
		for range 2 { // a link that appears, disappears, and appears again
			w.addCable(t, "later0", "10.8.0.2/24", "10.8.0.1/24")
			for name, tr := range map[string]traffic{"goes out": out, "comes in": in} {
				testcontainer.Eventually(t, "what "+name+" by the new link is dropped", func() error {
					if got := lost(t, tr); got != tr.count {
						return fmt.Errorf("%d of %d lost", got, tr.count)
					}
					return nil
				})
			}
			w.removeCable(t, "later0")
		}
		if got := lost(t, w.out(hostIPv4, 7000, 100)); got != 100 {
			t.Errorf("by the old link: %d of 100 lost, want all as before", got)
		}
		w.addCable(t, "later0", "10.8.0.2/24", "10.8.0.1/24")
		testcontainer.Eventually(t, "the new link is disturbed", func() error {
			if got := lost(t, out); got != out.count {
				return fmt.Errorf("%d of %d lost", got, out.count)
			}
			return nil
		})
		clean(t, i)
		if got := lost(t, out); got != 0 {
			t.Errorf("after cleaning, by the new link: %d of %d lost, want 0", got, out.count)
		}
		w.removeCable(t, "later0")
	})
}

// addCable joins the target and the peer by another cable.
func (w *world) addCable(t *testing.T, name, targetAddress, peerAddress string) {
	t.Helper()
	namespace, err := os.Open(w.target)
	must(t, err)
	defer namespace.Close()
	peer := openForTest(t, w.peer)
	must(t, peer.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "far-" + name}, PeerName: name, PeerNamespace: netlink.NsFd(namespace.Fd())}))
	configure(t, peer, "far-"+name, peerAddress)
	inside := openForTest(t, w.target)
	configure(t, inside, name, targetAddress)
	testcontainer.Eventually(t, "the cable carries", func() error {
		for _, end := range []struct {
			attach.Conn
			name string
		}{{peer, "far-" + name}, {inside, name}} {
			link, err := end.LinkByName(end.name)
			if err != nil || link.Attrs().OperState != netlink.OperUp {
				return fmt.Errorf("%s is not up: %v", end.name, err)
			}
		}
		return nil
	})
	// A neighbour whose address cannot be resolved loses packets like a disruption.
	know(t, peer, "far-"+name, inside, name, targetAddress)
	know(t, inside, name, peer, "far-"+name, peerAddress)
}

// know gives one end of a cable the hardware address of the other.
func know(t *testing.T, c attach.Conn, name string, other attach.Conn, otherName, otherAddress string) {
	t.Helper()
	link, err := c.LinkByName(name)
	must(t, err)
	far, err := other.LinkByName(otherName)
	must(t, err)
	address, err := netlink.ParseIPNet(otherAddress)
	must(t, err)
	must(t, c.NeighSet(&netlink.Neigh{
		LinkIndex: link.Attrs().Index, IP: address.IP, HardwareAddr: far.Attrs().HardwareAddr, State: netlink.NUD_PERMANENT,
	}))
}

func (w *world) removeCable(t *testing.T, name string) {
	t.Helper()
	peer := openForTest(t, w.peer)
	link, err := peer.LinkByName("far-" + name)
	must(t, err)
	must(t, peer.LinkDel(link))
}

// Packets without ports are disrupted in either direction, too.
func TestPingsAreDropped(t *testing.T) {
	everyMechanism(t, func(t *testing.T, w *world, try attach.Mechanism) {
		for _, flow := range []string{"egress", "ingress"} {
			i := w.inject(t, v1beta1.NetworkDisruption{Drop: 100, Hosts: []v1beta1.NetworkHost{
				{Host: hostIPv4, Flow: flow}, {Host: hostIPv6, Flow: flow},
			}}, try)
			for address, want := range map[string]int{hostIPv4: 0, hostIPv6: 0, otherIPv4: 10, otherIPv6: 10} {
				if got := answered(t, w.target, address, 10, want); got != want {
					t.Errorf("%s: %d of 10 pings to %s answered, want %d", flow, got, address, want)
				}
			}
			clean(t, i)
			i.journal.Close()
			if got := answered(t, w.target, hostIPv4, 10, 10); got != 10 {
				t.Errorf("%s: %d of 10 pings answered after cleaning, want all", flow, got)
			}
		}
	})
}

// answered pings an address and returns how many answers arrive. It waits long for as many
// as are wanted, and a moment for more.
func answered(t *testing.T, netns, address string, count, wanted int) int {
	t.Helper()
	network, request, reply, header := "ip4:icmp", byte(8), byte(0), 20
	if net.ParseIP(address).To4() == nil {
		network, request, reply, header = "ip6:ipv6-icmp", 128, 129, 0
	}
	var conn net.Conn
	must(t, target.Do(netns, func() (err error) {
		conn, err = net.Dial(network, address)
		return err
	}))
	defer conn.Close()
	for n := range count {
		echo := []byte{request, 0, 0, 0, 0x51, 0x55, 0, byte(n)}
		if request == 8 {
			binary.BigEndian.PutUint16(echo[2:], ^(uint16(request)<<8 + 0x5155 + uint16(n)))
		}
		// The kernel reports drops on the way out to a raw socket of IPv6.
		if _, err := conn.Write(echo); err != nil && !errors.Is(err, unix.ENOBUFS) {
			t.Fatal(err)
		}
	}
	got := 0
	buffer := make([]byte, 2048)
	for {
		patience := 300 * time.Millisecond
		if got < wanted {
			patience = 20 * time.Second
		}
		must(t, conn.SetReadDeadline(time.Now().Add(patience)))
		size, err := conn.Read(buffer)
		if err != nil {
			return got // no more arrive
		}
		at := 0
		if size >= header+8 {
			at = header
		}
		if buffer[at] == reply && buffer[at+4] == 0x51 {
			got++
		}
	}
}

// Without the target there is no subscription to end, and Clean still waits for
// followLinks.
func TestFollowingLinksEndsAlsoWithoutASubscription(t *testing.T) {
	i := &Injector{retryEvery: time.Hour}
	n := namespace{Point: attach.Point{Netns: filepath.Join(t.TempDir(), "gone")}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		i.followLinks(ctx, &n)
	}()
	cancel()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("it has not ended in 20 s")
	}
}
