//go:build linux

package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/attach"
	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/testcontainer"
)

// talk is a TCP connection from the target to an echo at the peer.
func (w *world) talk(t *testing.T, address string) net.Conn {
	t.Helper()
	var listener net.Listener
	must(t, target.Do(w.peer, func() (err error) {
		listener, err = net.Listen("tcp", address)
		return err
	}))
	defer listener.Close() // the one connection stays
	accepted := make(chan struct{})
	defer func() { <-accepted }()
	go func() {
		conn, err := listener.Accept()
		close(accepted)
		if err != nil {
			return
		}
		defer conn.Close()
		buffer := make([]byte, 16)
		for {
			n, err := conn.Read(buffer)
			if err != nil {
				return
			}
			conn.Write(buffer[:n])
		}
	}()
	var conn net.Conn
	must(t, target.Do(w.target, func() (err error) {
		conn, err = net.DialTimeout("tcp", address, 20*time.Second)
		return err
	}))
	t.Cleanup(func() { conn.Close() })
	return conn
}

// echoes is true if the echo arrives before the limit.
func echoes(t *testing.T, conn net.Conn, limit time.Duration) bool {
	t.Helper()
	must(t, conn.SetDeadline(time.Now().Add(limit)))
	_, err := conn.Write([]byte("x"))
	must(t, err)
	_, err = conn.Read(make([]byte, 1))
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	return err == nil
}

func TestOnlyNewConnectionsAreDropped(t *testing.T) {
	everyMechanism(t, func(t *testing.T, w *world, try attach.Mechanism) {
		old := w.talk(t, hostIPv4+":442")
		i := w.inject(t, v1beta1.NetworkDisruption{Drop: 100, Hosts: []v1beta1.NetworkHost{{Host: hostIPv4, Protocol: "tcp", ConnState: "new"}}}, try)
		if !w.isCut(t, hostIPv4, 443) {
			t.Error("a new connection came to be")
		}
		if !echoes(t, old, 20*time.Second) {
			t.Error("an established connection is disturbed")
		}
		clean(t, i)
	})
}

func TestOnlyEstablishedConnectionsAreDropped(t *testing.T) {
	everyMechanism(t, func(t *testing.T, w *world, try attach.Mechanism) {
		old := w.talk(t, hostIPv4+":442")
		i := w.inject(t, v1beta1.NetworkDisruption{Drop: 100,
			Hosts:        []v1beta1.NetworkHost{{Host: hostIPv4, ConnState: "est"}},
			AllowedHosts: []v1beta1.NetworkHost{{Host: hostIPv4, Port: 5000, ConnState: "est"}},
		}, try)
		if !w.connects(t, hostIPv4, 443) {
			t.Error("not even the first packet of a connection passes")
		}
		if echoes(t, old, 300*time.Millisecond) {
			t.Error("what an established connection sends arrives")
		}
		for port, wantAfter := range map[int]bool{7000: false, 5000: true} {
			ask := w.questions(t, port)
			for range 2 {
				if !ask(false) {
					t.Errorf("port %d: a datagram nobody has answered is lost", port)
				}
			}
			if !ask(true) {
				t.Errorf("port %d: the datagram that is answered is lost", port)
			}
			if ask(false) != wantAfter {
				t.Errorf("port %d: after an answer, arrived = %v, want %v", port, !wantAfter, wantAfter)
			}
		}
		clean(t, i)
	})
}

// questions makes a flow of UDP. Its function sends one datagram to the host, returns
// whether it arrived, and has the host answer if wanted.
func (w *world) questions(t *testing.T, port int) func(answer bool) bool {
	t.Helper()
	var server *net.UDPConn
	must(t, target.Do(w.peer, func() (err error) {
		server, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(fmt.Sprintf("%s:%d", hostIPv4, port))))
		return err
	}))
	t.Cleanup(func() { server.Close() })
	client := dialUDP(t, w.out(hostIPv4, port, 1))
	t.Cleanup(func() { client.Close() })
	return func(answer bool) bool {
		_, err := client.Write([]byte("ask"))
		must(t, err)
		must(t, server.SetReadDeadline(time.Now().Add(300*time.Millisecond)))
		_, from, err := server.ReadFromUDPAddrPort(make([]byte, 8))
		if err == nil && answer {
			_, err := server.WriteToUDPAddrPort([]byte("answer"), from)
			must(t, err)
			must(t, client.SetReadDeadline(time.Now().Add(20*time.Second)))
			_, err = client.Read(make([]byte, 8))
			must(t, err)
		}
		return err == nil
	}
}

func TestFlowsAreKeptWhenRulesChange(t *testing.T) {
	everyMechanism(t, func(t *testing.T, w *world, try attach.Mechanism) {
		w.pretend(t, map[string]string{"resolv.conf": "nameserver " + gatewayIPv4 + "\n"}, nil)
		server := serveNames(t, w.peer, gatewayIPv4, map[string][]string{"db.example.com": {hostIPv4}})
		i := w.injector(t, v1beta1.NetworkDisruption{Drop: 100, Hosts: []v1beta1.NetworkHost{{Host: "db.example.com", ConnState: "new"}}}, try)
		i.refreshEvery = 20 * time.Millisecond
		server.set("db.example.com", otherIPv4)
		must(t, i.Inject(t.Context()))
		ask := w.questions(t, 7000)
		if !ask(true) {
			t.Fatal("a datagram to a host that is not named is lost")
		}
		server.set("db.example.com", hostIPv4)
		testcontainer.Eventually(t, "new flows to the new address are dropped", func() error {
			if got := lost(t, w.out(hostIPv4, 7001, 20)); got != 20 {
				return fmt.Errorf("%d of 20 lost", got)
			}
			return nil
		})
		if !ask(false) {
			t.Error("a flow that was answered before the rules changed is new again")
		}
		clean(t, i)
	})
}
