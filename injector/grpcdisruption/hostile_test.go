//go:build linux

package grpcdisruption

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/squall-chaos/squall/api/text"
	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/grpcapp"
	"github.com/squall-chaos/squall/test/testcontainer"
)

// Types and flags of HTTP/2 frames.
const (
	dataFrame, headersFrame, settingsFrame, continuationFrame = 0, 1, 4, 9

	endStream, endHeaders = 1, 4
	frameSize             = 16 << 10
)

func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	return append(binary.BigEndian.AppendUint32(append(head, flags), stream), payload...)
}

// field is a header in HPACK: a literal that is not indexed, without Huffman codes.
func field(name, value string) []byte {
	return append(hpackString([]byte{0}, name), hpackString(nil, value)...)
}

func hpackString(to []byte, value string) []byte {
	length := uint64(len(value))
	if length < 127 {
		to = append(to, byte(length))
	} else {
		to = binary.AppendUvarint(append(to, 127), length-127) // the same groups of 7 bits
	}
	return append(to, value...)
}

func answerOf(fields ...[]byte) []byte {
	return append(append(field(":status", "200"), field("content-type", "application/grpc")...), bytes.Join(fields, nil)...)
}

// inFrames is a block of headers as a HEADERS frame and CONTINUATION frames.
func inFrames(block []byte) []byte {
	var frames []byte
	kind, flags := byte(headersFrame), byte(endStream)
	for len(block) > frameSize {
		frames = append(frames, frame(kind, flags, 1, block[:frameSize])...)
		kind, flags, block = continuationFrame, 0, block[frameSize:]
	}
	return append(frames, frame(kind, flags|endHeaders, 1, block)...)
}

// endless begins a block of headers and continues it until the client closes.
func endless(more []byte) func(io.Writer) {
	return func(to io.Writer) {
		_, err := to.Write(frame(headersFrame, endStream, 1, answerOf()))
		several := bytes.Repeat(frame(continuationFrame, 0, 1, more), 100)
		for err == nil {
			_, err = to.Write(several)
		}
	}
}

func once(answer []byte) func(io.Writer) {
	return func(to io.Writer) { _, _ = to.Write(answer) }
}

// hostile is a listener of a target that answers each call with bytes of its own.
type hostile struct {
	mu     sync.Mutex
	rights map[int]error // of the processes that called, by their number
	peak   int           // the largest memory of any of them, in KiB
}

// beHostile listens in the network namespace of a container.
func beHostile(t *testing.T, pid int, answer func(io.Writer)) *hostile {
	t.Helper()
	var socket net.Listener
	err := target.Do(fmt.Sprintf("/proc/%d/ns/net", pid), func() (err error) {
		socket, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", grpcapp.Port))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	h := &hostile{rights: map[int]error{}}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := socket.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { h.serve(conn, answer) })
		}
	})
	over := make(chan struct{})
	serving.Go(func() { h.watch(over) })
	t.Cleanup(func() { close(over); socket.Close(); serving.Wait() })
	return h
}

func (h *hostile) serve(conn net.Conn, answer func(io.Writer)) {
	defer conn.Close()
	if _, err := conn.Write(frame(settingsFrame, 0, 0, nil)); err != nil || awaitCall(conn) != nil {
		return
	}
	h.mu.Lock()
	for _, pid := range testcontainer.Children(Command) {
		h.rights[pid] = testcontainer.Powerless(pid)
	}
	h.mu.Unlock()
	answer(conn)
	_, _ = io.Copy(io.Discard, conn)
}

// awaitCall reads up to the headers of a call.
func awaitCall(conn io.Reader) error {
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	_, err := io.CopyN(io.Discard, conn, int64(len(preface)))
	for err == nil {
		head := make([]byte, 9)
		if _, err = io.ReadFull(conn, head); err == nil {
			_, err = io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(head)>>8))
		}
		if err == nil && head[3] == headersFrame {
			return nil
		}
	}
	return err
}

// watch notes the largest memory that a calling process has.
func (h *hostile) watch(over <-chan struct{}) {
	for {
		for _, pid := range testcontainer.Children(Command) {
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			_, rest, _ := strings.Cut(string(status), "VmHWM:")
			if fields := strings.Fields(rest); len(fields) > 0 {
				size, _ := strconv.Atoi(fields[0])
				h.mu.Lock()
				h.peak = max(h.peak, size)
				h.mu.Unlock()
			}
		}
		select {
		case <-over:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// indexed adds a header of 4,000 bytes to the table of HPACK and repeats its index: 16 KiB
// on the wire are 64 MiB of headers.
func indexed() []byte {
	added := append(hpackString([]byte{0x40}, "x-fill"), hpackString(nil, strings.Repeat("x", 4000))...)
	return append(added, bytes.Repeat([]byte{0x80 | 62}, frameSize)...)
}

// finding N21
func TestHostileListener(t *testing.T) {
	const peak = 256 << 10 // KiB
	fill := field("x-fill", strings.Repeat("x", frameSize-100))
	for _, test := range []struct {
		name   string
		answer func(io.Writer)
		want   string
	}{
		{"1 MiB of headers", once(inFrames(answerOf(field("x-fill", strings.Repeat("x", 1<<20)), field("grpc-status", "0")))), ""},
		{"compressed headers", once(inFrames(answerOf(indexed(), field("grpc-status", "0")))), ""},
		{"endless CONTINUATION", endless(fill), ""},
		{"endless empty CONTINUATION", endless(nil), ""},
		{"a message of 1 GiB", once(append(frame(headersFrame, endHeaders, 1, answerOf()),
			frame(dataFrame, 0, 1, []byte{0, 0x40, 0, 0, 0, 'x'})...)), "ResourceExhausted"},
		{"control characters", once(inFrames(answerOf(field("grpc-status", "13"), field("grpc-message", "a%1B]0;title%07%C2%9Bb%0Ac")))),
			"a\ufffd]0;title\ufffd\ufffdb c"},
		{"a long message", once(inFrames(answerOf(field("grpc-status", "12"), field("grpc-message", strings.Repeat("long", 5000))))), "longlong"},
		{"a code that gRPC does not define", once(inFrames(answerOf(field("grpc-status", "999"), field("grpc-message", "who knows")))), "who knows"},
		{"no HTTP/2", once([]byte("HTTP/1.1 200 \x1b]0;title\x07\r\n\r\n")), "does not speak gRPC"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := start(t, testcontainer.Sleeps...)
			h := beHostile(t, w.app.PID, test.answer)
			i := w.injector("d-1", fails("UNAVAILABLE"))
			ctx, cancel := context.WithTimeout(t.Context(), callTime/2)
			defer cancel()
			begin := time.Now()
			err := i.Inject(ctx)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "nothing was changed") || errors.Is(err, target.ErrGone) {
				t.Fatalf("Inject() = %v, want %q, and that nothing was changed", err, test.want)
			}
			if took := time.Since(begin); took > callTime {
				t.Errorf("the call took %s, want at most %s", took, callTime)
			}
			if message := err.Error(); len(message) > 1000 || text.Printable(message) != message {
				t.Errorf("Inject() = %d bytes %q, want a short text without control characters", len(message), message)
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.peak == 0 || h.peak > peak {
				t.Errorf("the process that calls has %d KiB, want some, and at most %d", h.peak, peak)
			}
			t.Logf("%s, %d KiB: %v", time.Since(begin).Round(time.Millisecond), h.peak, err)
		})
	}
}

// rule S22
func TestCallsAreMadeWithoutRights(t *testing.T) {
	w := start(t, testcontainer.Sleeps...)
	h := beHostile(t, w.app.PID, once(inFrames(answerOf(field("grpc-status", "6")))))
	if err := w.injector("d-1", fails("UNAVAILABLE")).Inject(t.Context()); !errors.Is(err, errTaken) {
		t.Errorf("Inject() = %v, want %v", err, errTaken)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.rights) != 1 {
		t.Errorf("%d processes called the application, want one child", len(h.rights))
	}
	for pid, err := range h.rights {
		if err != nil {
			t.Errorf("process %d, which calls the application: %v", pid, err)
		}
	}
}

// A process that an application controls writes its reply itself.
func TestRepliesAreInert(t *testing.T) {
	err := reply{Code: 13, Text: strings.Repeat("\x1b[2J", 1000)}.error()
	if message := err.Error(); len(message) > 2*maxText || text.Printable(message) != message {
		t.Errorf("error() = %d bytes %q, want a short text without control characters", len(message), message)
	}
	if err := (reply{Text: "fine"}).error(); err != nil {
		t.Errorf("error() = %v, want nil for OK", err)
	}
}
