//go:build linux

// Package responder answers the DNS questions that are redirected to it, falsely
// where a record says so, and else by asking whom the question was meant for. It
// promises to listen on the loopback of the target's network namespace alone, and
// to answer nothing that was not redirected to it.
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
	// upstreamTimeout is how long a question may stay without an answer: longer
	// than resolvers wait, which ask again.
	upstreamTimeout = 10 * time.Second
	// idleTimeout is how long a connection may rest.
	idleTimeout = 2 * time.Minute
	// atOnce questions by UDP, and as many connections by TCP, are dealt with at
	// the same time. What comes beyond them is lost, as with a busy resolver.
	atOnce = 1024
	// drainTimeout is how long questions under way are waited for in the end.
	drainTimeout = time.Second
)

// errNoLoopback says that nothing can listen in the namespace.
var errNoLoopback = errors.New("its loopback link is not up")

// Responder listens in one network namespace.
type Responder struct {
	answers *answer.Answers
	port    uint16 // which is redirected
	origins *redirect.Origins
	netns   *os.File
	sockets redirect.Sockets

	// falsified and passed count the questions that were answered, or left without
	// an answer, as a record says, and those that were passed on.
	falsified, passed atomic.Uint64

	datagrams []*net.UDPConn
	listeners []*net.TCPListener
	questions chan struct{} // one element for each by UDP that is under way
	mu        sync.Mutex
	streams   map[*net.TCPConn]bool // nil once no more are taken
	// stopped is done when nobody waits for answers any more.
	stopped context.Context
	stop    context.CancelFunc
	working sync.WaitGroup
}

// Listen opens the sockets for the networks, udp and tcp, of both families as far
// as the namespace has them. Until Serve, what comes waits. The namespace is the
// caller's to close, after Close.
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
				continue // then nothing sends to a resolver by IPv6 either
			}
			if err != nil {
				return nil, errors.Join(fmt.Errorf("listen on %s of the pod: %w", address, err), r.Close())
			}
		}
	}
	return r, nil
}

// loopback looks whether packets can go over it at all.
func loopback() error {
	link, err := net.InterfaceByName("lo")
	if err == nil && link.Flags&net.FlagUp == 0 {
		err = errNoLoopback
	}
	return err
}

// Sockets are those that listen.
func (r *Responder) Sockets() redirect.Sockets { return r.sockets }

// Serve begins to answer, and returns at once.
func (r *Responder) Serve() {
	for _, socket := range r.datagrams {
		r.working.Go(func() { r.serveDatagrams(socket) })
	}
	for _, listener := range r.listeners {
		r.working.Go(func() { r.serveStreams(listener) })
	}
}

// Answered counts the questions that were answered, or not, as a record says, and
// those that were passed on as they were.
func (r *Responder) Answered() (falsified, passed uint64) {
	return r.falsified.Load(), r.passed.Load()
}

// decide is what becomes of a question, and counts it.
func (r *Responder) decide(query []byte, datagram bool) answer.Decision {
	decision := r.answers.To(query, datagram)
	if decision.Verdict == answer.Pass {
		r.passed.Add(1)
	} else {
		r.falsified.Add(1)
	}
	return decision
}

// Drain waits for questions under way, not for long, and closes connections. It
// is called when nothing new is redirected any more.
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

// Close ends everything and waits for it. It is safe to call twice.
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

// meantFor is whom a packet was meant for that came to a socket. Ok is false for
// one that was sent to the socket itself.
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

// unavailable tells whether there is no such address, or no such family.
func unavailable(err error) bool {
	return errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.EAFNOSUPPORT)
}
