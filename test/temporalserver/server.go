package temporalserver

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"go.temporal.io/sdk/client"
)

// Server is a real Temporal, a process of the test, with a store that outlives
// it: killed and started again it goes on.
type Server struct {
	// Address is host:port of the frontend, the same after every start.
	Address string

	t      testing.TB
	binary string
	store  string
	kill   func()
}

// New is a server that does not run yet, of this test alone. Without the program the
// test is skipped with the reason, or fails when SQUALL_REQUIRE=1. A test that neither
// kills the server nor minds what others left there uses Shared.
func New(t testing.TB) *Server {
	t.Helper()
	return &Server{Address: FreeAddress(t), t: t, binary: binaryFor(t), store: filepath.Join(t.TempDir(), "store.db")}
}

// binaryFor is Binary, for a test.
func binaryFor(t testing.TB) string {
	t.Helper()
	binary, err := Binary()
	if err != nil && os.Getenv("SQUALL_REQUIRE") == "1" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip(err)
	}
	return binary
}

// Start returns when the server answers and knows the search attributes. It
// runs until the test ends or Kill is called.
func (s *Server) Start() *Server {
	s.t.Helper()
	p, err := start(s.t.Context(), s.binary, s.Address, s.store)
	if err != nil {
		s.t.Fatal(err)
	}
	s.kill = p.kill
	s.t.Cleanup(func() {
		p.kill()
		p.logTo(s.t)
	})
	return s
}

// Kill is SIGKILL; killing it again does nothing.
func (s *Server) Kill() { s.kill() }

// Dial returns a client that connects when it is used.
func (s *Server) Dial(namespace string) client.Client {
	s.t.Helper()
	c, err := dial(s.t.Context(), s.Address, namespace)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// FreeAddress is outside the range the kernel takes local ports from: a server
// that is killed must find its port free when it comes back.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(10000))
		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
	t.Fatal("no free port between 20000 and 30000")
	return ""
}

// FreePort is that of a FreeAddress.
func FreePort(t testing.TB) int {
	t.Helper()
	address, err := netip.ParseAddrPort(FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	return int(address.Port())
}
