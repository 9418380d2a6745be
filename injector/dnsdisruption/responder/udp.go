//go:build linux

package responder

import (
	"errors"
	"net"
	"slices"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/dnsdisruption/answer"
)

// serveDatagrams answers questions to a socket until it is closed.
func (r *Responder) serveDatagrams(socket *net.UDPConn) {
	buffer := make([]byte, dns.MaxMsgSize)
	for {
		n, from, err := socket.ReadFromUDP(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // the error of an answer that did not arrive
		}
		query := slices.Clone(buffer[:n])
		select {
		case r.questions <- struct{}{}:
		default:
			continue
		}
		r.working.Go(func() {
			defer func() { <-r.questions }()
			if reply := r.answerDatagram(socket, from, query); reply != nil {
				socket.WriteToUDP(reply, from) // or the asker is gone
			}
		})
	}
}

// answerDatagram returns nil if the question gets no answer.
func (r *Responder) answerDatagram(socket *net.UDPConn, from net.Addr, query []byte) []byte {
	to, ok := r.meantFor("udp", socket.LocalAddr(), from)
	if !ok {
		return nil
	}
	decision := r.decide(query, true)
	question := query
	switch decision.Verdict {
	case answer.Drop:
		return nil
	case answer.Reply:
		return decision.Message
	case answer.Follow:
		question = decision.Message
	}
	reply, err := r.exchange("udp", to, question)
	switch {
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH):
		// Without the redirect the asker would get an error at once.
		return answer.Failure(query)
	case err != nil:
		return nil
	case decision.Verdict == answer.Follow:
		return decision.Finish(reply)
	}
	return reply
}
