package world

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Program is a child process of the test. It may be started again after Kill, with
// the Env and Args of that time; the later of two settings of Env counts.
type Program struct {
	Name, Path string
	Args, Env  []string

	t       testing.TB
	command *exec.Cmd
	done    chan struct{}
	output  output
}

// Program is a program of the test that is not started yet.
func (w *World) Program(name, path string, args ...string) *Program {
	p := &Program{Name: name, Path: path, Args: args, t: w.TB}
	w.Cleanup(func() {
		p.Kill()
		if w.Failed() {
			w.Logf("the end of what %s said:\n%s", p.Name, last(p.Output(), 4000))
		}
	})
	return p
}

// Worker is a worker of this world; settings, such as "SQUALL_PARALLEL=8" or
// "KUBECONFIG=" + Kubeconfig(proxy), go before those it has anyway: it does not
// sweep every hour, which may be over while a test counts. It is not started yet.
func (w *World) Worker(settings ...string) *Program {
	w.Helper()
	return w.squall("worker", append([]string{"SQUALL_HEALTH_ADDRESS=127.0.0.1:0", "SQUALL_SWEEP_INTERVAL=0"}, settings...))
}

// Bridge is a bridge of this world, see Worker. It elects no leader unless set to.
func (w *World) Bridge(settings ...string) *Program {
	w.Helper()
	return w.squall("crdbridge", append([]string{"SQUALL_HEALTH_ADDRESS=0", "SQUALL_LEADER_ELECTION=false"}, settings...))
}

func (w *World) squall(name string, settings []string) *Program {
	w.Helper()
	if w.binaries == "" {
		w.binaries = w.Build("worker", "crdbridge")
	}
	p := w.Program(name, filepath.Join(w.binaries, name))
	p.Env = append([]string{
		"KUBECONFIG=" + w.Kubeconfig(""), "SQUALL_TEMPORAL_ADDRESS=" + w.Temporal.Address,
		"SQUALL_CHAOS_NAMESPACE=" + w.Chaos, "SQUALL_METRICS_ADDRESS=0",
	}, settings...)
	return p
}

// Start runs the program until the test ends or Kill is called.
func (p *Program) Start() *Program {
	p.t.Helper()
	p.command = exec.Command(p.Path, p.Args...)
	p.command.Env = append(os.Environ(), p.Env...)
	p.command.Stdout, p.command.Stderr = &p.output, &p.output
	if err := p.command.Start(); err != nil {
		p.t.Fatal(err)
	}
	command, done := p.command, make(chan struct{})
	p.done = done
	go func() {
		defer close(done)
		_ = command.Wait() // Stop checks how it ended; after Kill that means nothing
	}()
	return p
}

// Stop is Terminate, and waits until the program has ended well.
func (p *Program) Stop() {
	p.t.Helper()
	began := time.Now()
	if err := p.Terminate()(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Logf("%s ended %.1fs after SIGTERM", p.Name, time.Since(began).Seconds())
}

// Terminate is SIGTERM, what a rolling update sends: the program must end by
// itself, without an error and before a kubelet would kill it (30 s). ended waits
// for that.
func (p *Program) Terminate() (ended func() error) {
	command, done := p.command, p.done
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		return func() error { return fmt.Errorf("stop %s: %w", p.Name, err) }
	}
	return func() error {
		select {
		case <-done:
		case <-time.After(30 * time.Second):
			return fmt.Errorf("%s runs on 30 s after SIGTERM", p.Name)
		}
		if code := command.ProcessState.ExitCode(); code != 0 {
			return fmt.Errorf("%s ended with exit code %d after SIGTERM, want 0:\n%s", p.Name, code, last(p.Output(), 1000))
		}
		return nil
	}
}

// Kill is SIGKILL, and returns when the process is gone. Killing what does not
// run does nothing.
func (p *Program) Kill() {
	if p.command == nil {
		return
	}
	_ = p.command.Process.Kill()
	<-p.done
}

// Over is true once the process that was started last has ended.
func (p *Program) Over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// PID is that of the process that was started last.
func (p *Program) PID() int { return p.command.Process.Pid }

// Output is all that the program has written.
func (p *Program) Output() string { return p.output.String() }

// output is a buffer that can be read while a program writes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func last(s string, n int) string { return s[max(0, len(s)-n):] }

// Build compiles programs, by their directories, as they are shipped, into a directory of the
// checkout: the packages that need them link them once, one after the other.
func (w *World) Build(names ...string) (directory string) {
	w.Helper()
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	w.Must(err)
	directory = filepath.Join(strings.TrimSpace(string(root)), "bin", "test")
	w.Must(os.MkdirAll(directory, 0o755))
	lock, err := os.Create(filepath.Join(directory, ".lock"))
	w.Must(err)
	defer func() { _ = lock.Close() }()
	w.Must(syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	args := []string{"build", "-tags", "grpcnotrace", "-ldflags", "-s -w -X github.com/squall-chaos/squall/cli/version.Version=test", "-o", directory + "/"}
	for _, name := range names {
		args = append(args, "github.com/squall-chaos/squall/"+name)
	}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		w.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return directory
}

// APIAddress is the API server's own host:port.
func (w *World) APIAddress() string {
	return strings.TrimSuffix(strings.TrimPrefix(w.API.Host, "https://"), "/")
}

// Kubeconfig is a file that leads another process to the API server: through
// address (host:port) if it is not empty, with the server's own certificate, or
// through a proxy that needs none (http://host:port).
func (w *World) Kubeconfig(address string) (file string) {
	w.Helper()
	name, _, err := net.SplitHostPort(w.APIAddress())
	w.Must(err)
	if address == "" {
		address = w.APIAddress()
	}
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	file = filepath.Join(w.TempDir(), "kubeconfig")
	w.Must(clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"test": {
			Server: address, TLSServerName: name, CertificateAuthorityData: w.API.CAData,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"test": {ClientCertificateData: w.programs.CertData, ClientKeyData: w.programs.KeyData}},
		Contexts:       map[string]*clientcmdapi.Context{"test": {Cluster: "test", AuthInfo: "test"}},
		CurrentContext: "test",
	}, file))
	return file
}
