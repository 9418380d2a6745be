//go:build linux

package responder

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-chaos/squall/injector/dnsdisruption/answer"
)

// serveStreams accepts connections until the listener is closed.
func (r *Responder) serveStreams(listener *net.TCPListener) {
	for {
		client, err := listener.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// The connection ended before it was accepted, or no file descriptor is free.
			<-time.After(10 * time.Millisecond)
			continue
		}
		if !r.enter(client) {
			client.Close()
			continue
		}
		r.working.Go(func() {
			defer r.leave(client)
			if to, ok := r.meantFor("tcp", client.LocalAddr(), client.RemoteAddr()); ok {
				stream := stream{Responder: r, client: client, to: to}
				stream.serve()
			}
		})
	}
}

func (r *Responder) enter(client *net.TCPConn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.streams == nil || len(r.streams) >= atOnce {
		return false
	}
	r.streams[client] = true
	return true
}

func (r *Responder) leave(client *net.TCPConn) {
	client.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.streams, client)
}

// stream is one connection of an asker, with the connection to its true server once a
// question is passed on.
type stream struct {
	*Responder
	client *net.TCPConn
	to     netip.AddrPort

	upstream *net.TCPConn
	finished atomic.Bool // the asker has sent its last question
	writing  sync.Mutex  // guards answers to the asker, from several goroutines
	asking   sync.WaitGroup
}

// serve answers one question after the other. Questions to pass on share one connection, as
// the asker sent them over one.
func (s *stream) serve() {
	defer func() {
		if s.upstream != nil {
			s.upstream.Close()
		}
		s.asking.Wait()
	}()
	for {
		s.client.SetReadDeadline(time.Now().Add(idleTimeout))
		query, err := readMessage(s.client)
		if errors.Is(err, io.EOF) {
			s.finish() // the asker may still wait for answers
			return
		}
		if err != nil || s.deal(query) != nil {
			return
		}
	}
}

func (s *stream) deal(query []byte) error {
	decision := s.decide(query, false)
	switch decision.Verdict {
	case answer.Reply:
		return s.reply(decision.Message)
	case answer.Follow:
		s.asking.Go(func() {
			truth, err := s.exchange("tcp", s.to, decision.Message)
			if err == nil {
				err = s.reply(decision.Finish(truth))
			}
			if err != nil {
				s.client.Close()
			}
		})
	case answer.Pass:
		return s.pass(query)
	}
	return nil
}

func (s *stream) reply(message []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return writeMessage(s.client, message)
}

// pass passes a question on, over the connection for all of them.
func (s *stream) pass(query []byte) error {
	if s.upstream == nil {
		conn, err := s.dial("tcp", s.to)
		if err != nil {
			return err
		}
		s.upstream = conn.(*net.TCPConn)
		s.asking.Go(s.copyAnswers)
	}
	return writeMessage(s.upstream, query)
}

// copyAnswers hands the answers on, until the server closes.
func (s *stream) copyAnswers() {
	defer func() {
		if !s.finished.Load() { // else more answers may follow
			s.client.Close() // so the asker sees that its server is gone
		}
	}()
	for {
		message, err := readMessage(s.upstream)
		if err != nil || s.reply(message) != nil {
			return
		}
	}
}

// finish waits for the answers still to come.
func (s *stream) finish() {
	s.finished.Store(true)
	if s.upstream != nil {
		s.upstream.SetReadDeadline(time.Now().Add(upstreamTimeout))
		s.upstream.CloseWrite()
	}
	s.asking.Wait()
}

// readMessage reads a message with its length before it (RFC 1035, 4.2.2).
func readMessage(from io.Reader) ([]byte, error) {
	var length [2]byte
	if _, err := io.ReadFull(from, length[:]); err != nil {
		return nil, err
	}
	message := make([]byte, binary.BigEndian.Uint16(length[:]))
	_, err := io.ReadFull(from, message)
	return message, err
}

func writeMessage(to io.Writer, message []byte) error {
	framed := binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(message)), uint16(len(message)))
	_, err := to.Write(append(framed, message...))
	return err
}
