package temporalserver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

// shared is the one server of a test binary. Tests cannot hand a value to each
// other except through their package.
var shared struct {
	sync.Mutex
	running bool // Tests.Run is waiting to stop the server
	process *process
	address string
	store   string // directory
	err     error
	users   int
}

// Tests are the tests of a package that share a server:
//
//	func TestMain(m *testing.M) { os.Exit(temporalserver.Tests{M: m}.Run()) }
//
// apiserver.Run takes them too.
type Tests struct{ M *testing.M }

// Run runs the tests, then stops the server they shared, if any. It returns the exit
// code.
func (m Tests) Run() int {
	shared.Lock()
	shared.running = true
	shared.Unlock()
	code := m.M.Run()
	if shared.process != nil {
		shared.process.kill()
	}
	if err := os.RemoveAll(shared.store); err != nil {
		fmt.Fprintln(os.Stderr, "remove the store of Temporal:", err)
		return max(code, 1)
	}
	return code
}

// Shared is the server of the package's tests. The first call starts it, which
// takes half a second and a processor second, so a package whose tests are
// filtered out pays nothing.
//
// The tests share the namespace "default" and its task queues. A test gives its
// workflows and schedules IDs of their own. When the last test that uses the
// server ends, its open workflows are terminated, so that no worker of the next
// test gets their tasks. Ended workflows stay, and so do schedules. Temporal also
// remembers for minutes which clients polled. A test that minds these, kills the
// server, or has a worker while others run beside it starts its own: see New.
func Shared(t testing.TB) *Server {
	t.Helper()
	binary := binaryFor(t)
	shared.Lock()
	defer shared.Unlock()
	if !shared.running {
		t.Fatal("nobody would stop Temporal: add func TestMain(m *testing.M) { os.Exit(temporalserver.Tests{M: m}.Run()) }")
	}
	if shared.process == nil && shared.err == nil {
		shared.address = FreeAddress(t)
		shared.process, shared.err = startShared(binary)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	shared.users++
	s := &Server{Address: shared.address, t: t, kill: func() { t.Fatal("other tests use this Temporal: kill one of your own, see temporalserver.New") }}
	t.Cleanup(s.leave)
	return s
}

func startShared(binary string) (p *process, err error) {
	if shared.store, err = os.MkdirTemp("", "temporal-"); err != nil {
		return nil, err
	}
	return start(context.Background(), binary, shared.address, filepath.Join(shared.store, "store.db"))
}

// leave terminates open workflows when no test uses the server any more.
func (s *Server) leave() {
	shared.Lock()
	defer shared.Unlock()
	shared.process.logTo(s.t)
	if shared.users--; shared.users > 0 {
		return
	}
	// The context of the test has ended.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := terminateAll(ctx, shared.address); err != nil {
		s.t.Errorf("terminate the workflows that the test left in Temporal: %v", err)
	}
}

func terminateAll(ctx context.Context, address string) error {
	temporal, err := dial(ctx, address, client.DefaultNamespace)
	if err != nil {
		return err
	}
	defer temporal.Close()
	var page []byte
	for {
		found, err := temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: `ExecutionStatus = "Running"`, NextPageToken: page})
		if err != nil {
			return err
		}
		for _, one := range found.GetExecutions() {
			// An error is right for a workflow that has ended meanwhile.
			_ = temporal.TerminateWorkflow(ctx, one.GetExecution().GetWorkflowId(), one.GetExecution().GetRunId(), "its test has ended")
		}
		if page = found.GetNextPageToken(); len(page) == 0 {
			return nil
		}
	}
}
