package temporalserver

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"

	"github.com/squall-chaos/squall/workflows/connect"
	"github.com/squall-chaos/squall/workflows/contract"
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

// New is a server that does not run yet. Without the program the test is
// skipped with the reason, or fails when SQUALL_REQUIRE=1.
func New(t testing.TB) *Server {
	t.Helper()
	binary, err := Binary()
	if err != nil && os.Getenv("SQUALL_REQUIRE") == "1" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip(err)
	}
	return &Server{Address: FreeAddress(t), t: t, binary: binary, store: filepath.Join(t.TempDir(), "store.db")}
}

// Start returns when the server answers and knows the search attributes. It
// runs until the test ends or Kill is called. Its parts take ports that were free
// when it looked; it is started again if somebody took one of them meanwhile.
func (s *Server) Start() *Server {
	s.t.Helper()
	var out *bytes.Buffer
	for range 5 {
		if out = s.run(); out == nil {
			return s
		}
		if !bytes.Contains(out.Bytes(), []byte("address already in use")) {
			break
		}
	}
	s.t.Fatalf("Temporal ended:\n%s", out.String())
	return nil
}

// run starts the server once. It returns what a server said that ended by itself,
// and nil once one answers.
func (s *Server) run() *bytes.Buffer {
	s.t.Helper()
	var out bytes.Buffer
	command := exec.Command(s.binary, "-address", s.Address, "-ui-address", "", "-db", s.store, "-retention", "840h")
	command.Stdout, command.Stderr = &out, &out
	command.SysProcAttr = diesWithParent()
	if err := command.Start(); err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = command.Wait() }()
	s.kill = func() { _ = command.Process.Kill(); <-ended }
	kill := s.kill
	s.t.Cleanup(func() {
		kill()
		if s.t.Failed() {
			s.t.Logf("the end of what Temporal said:\n%s", out.Bytes()[max(0, out.Len()-4000):])
		}
	})
	temporal := s.Dial(client.DefaultNamespace)
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		select {
		case <-ended:
			return &out
		default:
		}
		if s.answers(temporal) {
			return nil
		}
	}
	s.t.Fatal("Temporal did not answer within a minute")
	return nil
}

func (s *Server) answers(temporal client.Client) bool {
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
	defer cancel()
	_, err := temporal.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Query: contract.AttributeStuck + " = true"})
	return err == nil
}

// Kill is SIGKILL; killing it again does nothing.
func (s *Server) Kill() { s.kill() }

// Dial returns a client that connects when it is used.
func (s *Server) Dial(namespace string) client.Client {
	s.t.Helper()
	c, err := connect.Dial(s.t.Context(), connect.Settings{Address: s.Address, Namespace: namespace, Lazy: true}, zap.NewNop(), nil)
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
