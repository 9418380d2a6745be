package temporalserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"

	"github.com/squall-chaos/squall/workflows/connect"
	"github.com/squall-chaos/squall/workflows/contract"
)

// errPortTaken: another program has a port that was free when the server looked.
var errPortTaken = errors.New("a port is taken")

// process is a server that runs.
type process struct {
	command *exec.Cmd
	ended   chan struct{}
	out     output
}

// start runs a server until it answers. The server takes ports that were free when it
// looked, so start repeats when another program took one of them meanwhile.
func start(ctx context.Context, binary, address, store string) (*process, error) {
	var last error
	for range 5 {
		p, err := run(ctx, binary, address, store)
		if err == nil || !errors.Is(err, errPortTaken) {
			return p, err
		}
		last = err
	}
	return nil, last
}

func run(ctx context.Context, binary, address, store string) (*process, error) {
	p := &process{ended: make(chan struct{})}
	p.command = exec.Command(binary, "-address", address, "-ui-address", "", "-db", store, "-retention", "840h")
	p.command.Stdout, p.command.Stderr = &p.out, &p.out
	p.command.SysProcAttr = diesWithParent()
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	go func() { defer close(p.ended); _ = p.command.Wait() }()
	temporal, err := dial(ctx, address, client.DefaultNamespace)
	if err != nil {
		p.kill()
		return nil, err
	}
	defer temporal.Close()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline) && ctx.Err() == nil; <-time.After(20 * time.Millisecond) {
		select {
		case <-p.ended:
			err := fmt.Errorf("the Temporal server ended:\n%s", p.out.tail())
			if bytes.Contains(p.out.tail(), []byte("address already in use")) {
				err = fmt.Errorf("%w: %w", errPortTaken, err)
			}
			return nil, err
		default:
		}
		if answers(ctx, temporal) {
			return p, nil
		}
	}
	p.kill()
	return nil, fmt.Errorf("the Temporal server did not answer within a minute:\n%s", p.out.tail())
}

func (p *process) kill() {
	_ = p.command.Process.Kill()
	<-p.ended
}

// logTo shows the server's last lines to a test that failed.
func (p *process) logTo(t testing.TB) {
	t.Helper()
	if t.Failed() {
		t.Logf("the end of what Temporal said:\n%s", p.out.tail())
	}
}

func dial(ctx context.Context, address, namespace string) (client.Client, error) {
	return connect.Dial(ctx, connect.Settings{Address: address, Namespace: namespace, Lazy: true}, zap.NewNop(), nil)
}

// answers reports whether the server knows Squall's search attributes.
func answers(ctx context.Context, temporal client.Client) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := temporal.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Query: contract.AttributeStuck + " = true"})
	return err == nil
}

// output is what a process has written so far. It may be read while the process runs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(text)
}

// tail is a copy of the last 4000 bytes.
func (o *output) tail() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.text.Bytes()[max(0, o.text.Len()-4000):])
}
