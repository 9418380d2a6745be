//go:build linux

package grpcdisruption

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/squall-chaos/squall/injector/child"
	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/listener/protocol"
)

// errTaken means that the application is disrupted already.
var errTaken = errors.New("some of its endpoints are altered already: end what alters them first")

// absent means that no process accepts connections. It is target.ErrGone.
type absent struct{ error }

func (absent) Is(err error) bool { return err == target.ErrGone }

// ask returns nil if the listener would accept a disruption, and errTaken if it has one.
// The protocol has no such query. An empty disruption changes nothing, and the listener
// refuses it like any other while an endpoint is altered.
func (i *Injector) ask(ctx context.Context, netns target.Netns) error {
	return i.sendDisrupt(ctx, netns, protocol.Spec{})
}

func (i *Injector) sendDisrupt(ctx context.Context, netns target.Netns, spec protocol.Spec) error {
	return i.call(ctx, netns, request{Method: protocol.Disrupt, Spec: spec})
}

func (i *Injector) reset(ctx context.Context, netns target.Netns) error {
	return i.call(ctx, netns, request{Method: protocol.ResetDisruptions})
}

// call calls the listener in a network namespace, on a connection of its own. A
// process without rights makes the call.
func (i *Injector) call(ctx context.Context, netns target.Netns, asked request) error {
	until := time.Now().Add(callTime)
	conn, err := i.dial(ctx, netns, until)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithDeadline(ctx, until.Add(processTime)) // whatever the process does
	defer cancel()
	asked.Timeout = time.Until(until)
	reader := child.Reader{Command: Command, Netns: netns.Path, MaxAnswer: maxReply, Files: []*os.File{conn}}
	var answered reply
	if err = reader.Ask(ctx, asked, &answered); err == nil {
		err = answered.error()
	}
	if err != nil {
		return fmt.Errorf("the application on port %d of %s: %w", i.params.Port, i.pod(), explain(err))
	}
	return nil
}

func explain(err error) error {
	switch status.Code(err) {
	case codes.AlreadyExists:
		return errTaken
	case codes.Unimplemented:
		return fmt.Errorf("it has no service %s, with which an application can be disrupted (%s): %w", protocol.Service, page, err)
	case codes.Unavailable:
		return fmt.Errorf("it does not speak gRPC without TLS there: %w", err)
	}
	return err
}

// dial connects to the application from within its network namespace: at loopback or, if
// that has no listener, at the pod's addresses.
func (i *Injector) dial(ctx context.Context, netns target.Netns, until time.Time) (*os.File, error) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	var conn *os.File
	var refusals []error
	err := target.Do(netns.Path, func() error {
		for _, address := range i.addresses() {
			// An address needs no resolver, so the socket is made on this thread.
			made, err := dialFrom(ctx, target.ControlConnectionPort, address)
			if errors.Is(err, unix.EADDRINUSE) || errors.Is(err, unix.EADDRNOTAVAIL) {
				made, err = dialFrom(ctx, 0, address)
			}
			if err == nil {
				conn = made
				return nil
			}
			refusals = append(refusals, err)
		}
		return errors.Join(refusals...)
	})
	if conn != nil || err == nil {
		return conn, err
	}
	err = fmt.Errorf("no process accepts connections on port %d of %s: %w", i.params.Port, i.pod(), err)
	if ctx.Err() != nil || len(refusals) == 0 || slices.ContainsFunc(refusals, timedOut) {
		return nil, err
	}
	return nil, absent{err}
}

// dialFrom connects from a local port, 0 for any. The closed connection does not block the
// port for the next one.
func dialFrom(ctx context.Context, port int, address string) (*os.File, error) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{Port: port}}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close() // the file is another descriptor of the same connection
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil, fmt.Errorf("the connection to %s is not TCP", address)
	}
	_ = tcp.SetLinger(0) // or the port is busy for a minute
	return tcp.File()
}

// addresses returns the addresses at which a pod's own processes can be reached.
func (i *Injector) addresses() []string {
	addresses := []string{"127.0.0.1", "::1"}
	for _, text := range i.target.Injection.Target.PodIPs {
		if address, err := netip.ParseAddr(text); err == nil { // others are refused before
			addresses = append(addresses, address.String())
		}
	}
	for n, address := range addresses {
		addresses[n] = net.JoinHostPort(address, fmt.Sprint(i.params.Port))
	}
	return addresses
}

func timedOut(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout()
}
