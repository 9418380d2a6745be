package bench

import (
	"io"
	"net"
	"sync"

	"github.com/squall-chaos/squall/test/temporalserver"
	"github.com/squall-chaos/squall/test/world"
)

// relay is a port that leads to the API server. Programs that use it lose the API server
// when it is cut: their connections break, and new ones are refused.
type relay struct {
	*world.World
	address string

	mu       sync.Mutex
	listener net.Listener
	open     map[net.Conn]bool
}

func newRelay(w *world.World) *relay {
	w.Helper()
	r := &relay{World: w, address: temporalserver.FreeAddress(w), open: map[net.Conn]bool{}}
	r.reopen()
	w.Cleanup(r.cut)
	return r
}

// reopen lets programs connect.
func (r *relay) reopen() {
	r.Helper()
	listener, err := net.Listen("tcp", r.address)
	r.Must(err)
	r.mu.Lock()
	r.listener = listener
	r.mu.Unlock()
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return // it is cut
			}
			go r.lead(from)
		}
	}()
}

func (r *relay) lead(from net.Conn) {
	to, err := net.Dial("tcp", r.APIAddress())
	if err != nil {
		_ = from.Close()
		return
	}
	r.mu.Lock()
	if r.listener == nil {
		_, _ = from.Close(), to.Close()
	}
	r.open[from], r.open[to] = true, true
	r.mu.Unlock()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			_, _ = way[0].Close(), way[1].Close()
		})
	}
	both.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, from)
	delete(r.open, to)
}

// cut ends all connections. Cutting again does nothing.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.listener == nil {
		return
	}
	_ = r.listener.Close()
	r.listener = nil
	for one := range r.open {
		_ = one.Close()
	}
}
