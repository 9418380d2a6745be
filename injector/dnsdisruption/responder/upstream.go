//go:build linux

package responder

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/dnsdisruption/redirect"
)

// maxDatagram is the largest answer accepted, in bytes; resolvers offer less.
const maxDatagram = 16 << 10

// exchange asks one question, over a connection of its own.
func (r *Responder) exchange(network string, to netip.AddrPort, query []byte) ([]byte, error) {
	conn, err := r.dial(network, to)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(r.stopped, func() { conn.Close() })()
	conn.SetDeadline(time.Now().Add(upstreamTimeout))
	if network == "tcp" {
		if err := writeMessage(conn, query); err != nil {
			return nil, err
		}
		return readMessage(conn)
	}
	if _, err := conn.Write(query); err != nil {
		return nil, err
	}
	buffer := make([]byte, maxDatagram)
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return nil, err
		}
		if sameID(buffer[:n], query) {
			return buffer[:n], nil
		}
	}
}

// dial opens a socket in the target's namespace that the redirect leaves alone.
func (r *Responder) dial(network string, to netip.AddrPort) (conn net.Conn, err error) {
	dialer := net.Dialer{Timeout: upstreamTimeout, Control: mark}
	err = redirect.Inside(r.netns, func() (err error) {
		conn, err = dialer.DialContext(r.stopped, network, to.String())
		return err
	})
	return conn, err
}

func mark(_, _ string, raw syscall.RawConn) error {
	var markErr error
	err := raw.Control(func(fd uintptr) {
		markErr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, redirect.Mark)
	})
	if err == nil && markErr != nil {
		err = fmt.Errorf("mark a socket: %w", markErr)
	}
	return err
}

// sameID is true for an answer to this question.
func sameID(reply, query []byte) bool {
	const length = 2
	return len(query) < length || len(reply) >= length && string(reply[:length]) == string(query[:length])
}
