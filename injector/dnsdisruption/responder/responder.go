//go:build linux

// Package responder answers redirected DNS questions: falsely if a record matches, else
// with the answer of their true server. It promises to listen only on the loopback of the
// target's network namespace, and to answer only redirected questions.
package responder

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/dnsdisruption/answer"
	"github.com/squall-chaos/squall/injector/dnsdisruption/redirect"
)

const (
	// upstreamTimeout is how long the responder waits for an answer: longer than resolvers do,
	// which then ask again.
	upstreamTimeout = 10 * time.Second
	// idleTimeout is how long a connection may be idle.
	idleTimeout = 2 * time.Minute
	// atOnce bounds the UDP questions, and separately the TCP connections, handled at the same
	// time. Further ones are lost, as with a busy resolver.
	atOnce = 1024
	// drainTimeout is how long Drain waits for open questions.
	drainTimeout = time.Second
)

// errNoLoopback means that no socket can listen in the namespace.
var errNoLoopback = errors.New("its loopback link is not up")

// Responder listens in one network namespace.
type Responder struct {
	answers *answer.Answers
	port    uint16 // the redirected one
	origins *redirect.Origins
	netns   *os.File
	sockets redirect.Sockets

	// falsified counts the questions that a record answered or dropped, passed those passed
	// on.
	falsified, passed atomic.Uint64

	datagrams []*net.UDPConn
	listeners []*net.TCPListener
	questions chan struct{} // one element for each open UDP question
	mu        sync.Mutex
	streams   map[*net.TCPConn]bool // nil once no more are accepted
	// stopped is done when no goroutine waits for answers any more.
	stopped context.Context
	stop    context.CancelFunc
	working sync.WaitGroup
}

// Listen opens the sockets for the networks, udp and tcp, of both families as far as the
// namespace has them. Packets wait until Serve. The caller closes the namespace after
// Close.
func Listen(netns *os.File, networks []string, port uint16, answers *answer.Answers) (*Responder, error) {
	r := &Responder{
		answers: answers, port: port, netns: netns,
		questions: make(chan struct{}, atOnce), streams: map[*net.TCPConn]bool{},
	}
	r.stopped, r.stop = context.WithCancel(context.Background())
	var err error
	if r.origins, err = redirect.OpenOrigins(netns); err != nil {
		return nil, err
	}
	if err := redirect.Inside(netns, loopback); err != nil {
		return nil, errors.Join(fmt.Errorf("listen in the pod: %w", err), r.Close())
	}
	for _, network := range networks {
		for _, address := range []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()} {
			err := redirect.Inside(netns, func() error { return r.listen(network, address) })
			if unavailable(err) && address.Is6() {
				continue // without IPv6, no question uses it
			}
			if err != nil {
				return nil, errors.Join(fmt.Errorf("listen on %s of the pod: %w", address, err), r.Close())
			}
		}
	}
	return r, nil
}

// loopback returns an error if the loopback link is down.
func loopback() error {
	link, err := net.InterfaceByName("lo")
	if err == nil && link.Flags&net.FlagUp == 0 {
		err = errNoLoopback
	}
	return err
}

// Sockets returns the listening sockets.
func (r *Responder) Sockets() redirect.Sockets { return r.sockets }

// Serve starts to answer, and returns at once.
func (r *Responder) Serve() {
	for _, socket := range r.datagrams {
		r.working.Go(func() { r.serveDatagrams(socket) })
	}
	for _, listener := range r.listeners {
		r.working.Go(func() { r.serveStreams(listener) })
	}
}

// Answered counts the questions that a record answered or dropped, and those passed on
// unchanged.
func (r *Responder) Answered() (falsified, passed uint64) {
	return r.falsified.Load(), r.passed.Load()
}

// decide decides about a question, and counts it.
func (r *Responder) decide(query []byte, datagram bool) answer.Decision {
	decision := r.answers.To(query, datagram)
	if decision.Verdict == answer.Pass {
		r.passed.Add(1)
	} else {
		r.falsified.Add(1)
	}
	return decision
}

// Drain waits up to drainTimeout for open questions, and closes connections. Call it when
// nothing new is redirected any more.
func (r *Responder) Drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for len(r.questions) > 0 && ctx.Err() == nil {
		<-tick.C
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for stream := range r.streams {
		stream.Close()
	}
	r.streams = nil
}

// Close ends all goroutines and waits for them. It is safe to call twice.
func (r *Responder) Close() error {
	r.stop()
	var errs []error
	for _, socket := range r.datagrams {
		errs = append(errs, socket.Close())
	}
	for _, listener := range r.listeners {
		errs = append(errs, listener.Close())
	}
	r.datagrams, r.listeners = nil, nil
	r.mu.Lock()
	for stream := range r.streams {
		stream.Close()
	}
	r.streams = nil
	r.mu.Unlock()
	r.working.Wait()
	if r.origins != nil {
		r.origins.Close()
		r.origins = nil
	}
	return errors.Join(errs...)
}

func (r *Responder) listen(network string, address netip.Addr) error {
	config := net.ListenConfig{}
	config.SetMultipathTCP(false) // such a socket cannot be found again by its inode
	anyPort := netip.AddrPortFrom(address, 0).String()
	if network == "udp" {
		packets, err := config.ListenPacket(context.Background(), network, anyPort)
		if err != nil {
			return err
		}
		socket := packets.(*net.UDPConn)
		r.datagrams = append(r.datagrams, socket)
		described, err := redirect.SocketOf(network, plainAddress(socket.LocalAddr()), socket)
		r.sockets = append(r.sockets, described)
		return err
	}
	streams, err := config.Listen(context.Background(), network, anyPort)
	if err != nil {
		return err
	}
	listener := streams.(*net.TCPListener)
	r.listeners = append(r.listeners, listener)
	described, err := redirect.SocketOf(network, plainAddress(listener.Addr()), listener)
	r.sockets = append(r.sockets, described)
	return err
}

// meantFor returns the original destination of a packet that arrived at a socket. ok is
// false for a packet sent to the socket itself.
func (r *Responder) meantFor(network string, socket, from net.Addr) (to netip.AddrPort, ok bool) {
	at, came := plainAddress(socket), plainAddress(from)
	to, err := r.origins.Of(network, at, came)
	return to, err == nil && to.Port() == r.port && to != at
}

func plainAddress(address net.Addr) netip.AddrPort {
	var plain netip.AddrPort
	switch address := address.(type) {
	case *net.UDPAddr:
		plain = address.AddrPort()
	case *net.TCPAddr:
		plain = address.AddrPort()
	}
	return netip.AddrPortFrom(plain.Addr().Unmap(), plain.Port())
}

// unavailable is true for the error of a missing address or family.
func unavailable(err error) bool {
	return errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.EAFNOSUPPORT)
}
