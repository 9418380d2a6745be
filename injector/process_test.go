//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/grpcapp"
	"github.com/squall-chaos/squall/test/testcontainer"
)

// withFakes makes this test binary run as the injector with the kinds of fake_test.go.
const withFakes = "INJECTOR_TEST_WITH_FAKES"

func TestMain(m *testing.M) {
	grpcapp.Run()
	if len(os.Args) == 2 && slices.ContainsFunc(readers(), func(reader child) bool { return reader.command == os.Args[1] }) {
		os.Exit(program{stdout: os.Stdout, stderr: os.Stderr}.run(context.Background(), os.Args[1:]))
	}
	if os.Getenv(withFakes) != "" {
		p := program{kinds: fakeKinds, stdout: os.Stdout, stderr: os.Stderr}
		os.Exit(p.run(context.Background(), os.Args[1:]))
	}
	code := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

var built struct {
	once sync.Once
	dir  string
	err  error
}

// realBinary builds the product once, or uses an existing build.
func realBinary(t *testing.T) string {
	t.Helper()
	if ready := os.Getenv("SQUALL_TEST_INJECTOR"); ready != "" {
		return ready // a virtual machine has no compiler
	}
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "injector"); built.err != nil {
			return
		}
		build := exec.Command("go", "build", "-o", built.dir, ".")
		build.Env = append(os.Environ(), "CGO_ENABLED=0") // as in the image
		if output, err := build.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("%w: %s", err, output)
		}
	})
	if built.err != nil {
		t.Fatalf("build the injector: %v", built.err)
	}
	return filepath.Join(built.dir, "injector")
}

// site is a node on which a test runs injectors.
type site struct {
	t      *testing.T
	binary string
	// real is true if the tests run the product.
	real bool
	dir  string
	env  []string
}

func newSite(t *testing.T, binary string, env ...string) *site {
	dir := t.TempDir()
	return &site{t: t, binary: binary, dir: dir, env: append([]string{
		"PATH=" + os.Getenv("PATH"),
		"SQUALL_JOURNAL_DIR=" + filepath.Join(dir, "journal"),
		"SQUALL_READY_FILE=" + filepath.Join(dir, "ready"),
		"SQUALL_REASON_FILE=" + filepath.Join(dir, "reason"),
		"SQUALL_TERMINATION_LOG=" + filepath.Join(dir, "termination"),
		"SQUALL_CLEAN_BACKOFF=2ms",
		"SQUALL_GUARD=false", // a guard would clean what the tests look at
	}, env...)}
}

// fakeSite runs the program with fake kinds, realSite the built product.
func fakeSite(t *testing.T, env ...string) *site {
	return newSite(t, "/proc/self/exe", append(env, withFakes+"=1")...)
}

func realSite(t *testing.T, env ...string) *site {
	s := newSite(t, realBinary(t), env...)
	s.real = true
	return s
}

// process is a running injector.
type process struct {
	*site
	injection v1beta1.Injection // zero for another command
	command   *exec.Cmd
	stdout    *buffer
	stderr    *buffer
	ended     chan struct{}
}

// start runs a subcommand; document may be empty.
func (s *site) start(document string, args ...string) *process {
	s.t.Helper()
	return s.startAs(exec.Command(s.binary, args...), document)
}

// startWithoutCgroups runs a subcommand as a chaos pod does whose kind needs no
// cgroups: those of the node are not mounted.
func (s *site) startWithoutCgroups(document string, args ...string) *process {
	s.t.Helper()
	hidden := []string{"--mount", "sh", "-c", `umount --lazy --recursive /sys/fs/cgroup && exec "$0" "$@"`, s.binary}
	return s.startAs(exec.Command("unshare", append(hidden, args...)...), document)
}

func (s *site) startAs(command *exec.Cmd, document string) *process {
	s.t.Helper()
	p := &process{site: s, command: command, stdout: &buffer{}, stderr: &buffer{}, ended: make(chan struct{})}
	p.command.Env = append(s.env, v1beta1.InjectionEnv+"="+document)
	p.command.Stdout, p.command.Stderr = p.stdout, p.stderr
	if err := p.command.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		p.command.Wait()
		close(p.ended)
	}()
	s.t.Cleanup(func() {
		p.command.Process.Kill()
		<-p.ended
		if s.t.Failed() {
			s.t.Logf("%v said:\n%s%s", command.Args, p.stdout, p.stderr)
		}
	})
	return p
}

// inject starts the injector of an injection.
func (s *site) inject(injection v1beta1.Injection) *process {
	s.t.Helper()
	document, err := json.Marshal(injection)
	if err != nil {
		s.t.Fatal(err)
	}
	start := s.start
	if s.real && !injection.Kind.Needs().Cgroups {
		start = s.startWithoutCgroups
	}
	p := start(string(document), string(injection.Kind))
	p.injection = injection
	return p
}

// run runs a subcommand to its end.
func (s *site) run(args ...string) (code int, stdout string) {
	s.t.Helper()
	p := s.start("", args...)
	return p.exit(), p.stdout.String()
}

// audit returns the output of the subcommand audit.
func (s *site) audit(args ...string) v1beta1.Audit {
	s.t.Helper()
	code, output := s.run(append([]string{"audit"}, args...)...)
	var audit v1beta1.Audit
	if err := decodeStrictly([]byte(output), &audit); err != nil {
		s.t.Fatalf("audit = %d, %q: %v", code, output, err)
	}
	if want := len(audit.Marks) > 0; want != (code == exitMarksFound) {
		s.t.Errorf("audit = %d with %d marks, want %d if and only if there are any", code, len(audit.Marks), exitMarksFound)
	}
	return audit
}

// exit waits for the end and returns the exit code, -1 after a signal.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(time.Minute):
		p.t.Fatal("the injector has not ended in a minute")
	}
	return p.command.ProcessState.ExitCode()
}

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

func (p *process) signal(signal syscall.Signal) {
	p.t.Helper()
	if err := p.command.Process.Signal(signal); err != nil {
		p.t.Fatal(err)
	}
}

// awaitLine waits for the log line with this message and returns it.
func (p *process) awaitLine(message string) map[string]any {
	p.t.Helper()
	var found map[string]any
	testcontainer.Eventually(p.t, "log line "+message, func() error {
		for _, line := range p.lines() {
			if line["msg"] == message {
				found = line
				return nil
			}
		}
		if !p.running() {
			p.t.Fatalf("the injector ended without the log line %q", message)
		}
		return errors.New("not there")
	})
	return found
}

// lines are the log lines; each must be a JSON object.
func (p *process) lines() []map[string]any {
	p.t.Helper()
	var lines []map[string]any
	for text := range strings.Lines(p.stdout.String()) {
		if !strings.HasSuffix(text, "\n") {
			break // it is just being written
		}
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			p.t.Fatalf("log line %q: %v", text, err)
		}
		lines = append(lines, line)
	}
	return lines
}

// messages returns the messages of the log lines in order, without those of measurements.
func (p *process) messages() []string {
	var messages []string
	for _, line := range p.lines() {
		switch message := line["msg"].(string); message {
		case v1beta1.MessageEffect, v1beta1.MessageFigures, messageUnmeasured:
		default:
			messages = append(messages, message)
		}
	}
	return messages
}

func (p *process) awaitReady() {
	p.t.Helper()
	testcontainer.Eventually(p.t, "ready file", func() error {
		if !p.running() {
			p.t.Fatal("the injector ended before it was ready")
		}
		_, err := os.Stat(p.file("ready"))
		return err
	})
}

// outcome reads the termination message.
func (p *process) outcome() v1beta1.InjectionReport {
	p.t.Helper()
	data, err := os.ReadFile(p.file("termination"))
	if err != nil {
		p.t.Fatal(err)
	}
	var outcome v1beta1.InjectionReport
	if err := decodeStrictly(data, &outcome); err != nil {
		p.t.Fatalf("termination message %q: %v", data, err)
	}
	return outcome
}

// ending returns the outcome without the measurement.
func (p *process) ending() v1beta1.InjectionReport {
	p.t.Helper()
	outcome := p.outcome()
	outcome.Effect = nil
	return outcome
}

func (s *site) file(name string) string { return filepath.Join(s.dir, name) }

func (s *site) exists(name string) bool {
	_, err := os.Stat(s.file(name))
	return !errors.Is(err, fs.ErrNotExist)
}

// journals are the names of the files in the journal directory.
func (s *site) journals() []string {
	entries, _ := os.ReadDir(s.file("journal"))
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// injectionOn is an injection that lasts longer than any test.
func injectionOn(kind v1beta1.Kind, params string, containers ...*testcontainer.Container) v1beta1.Injection {
	injection := v1beta1.Injection{
		Disruption: v1beta1.DisruptionRef{Namespace: "shop", Name: "slow", UID: "d-1"},
		Kind:       kind, Params: json.RawMessage(params), Level: v1beta1.LevelNode,
		Target:   v1beta1.InjectionTarget{Name: "db-0", UID: types.UID("t-1"), NodeName: "node-1"},
		Deadline: metav1.NewTime(time.Now().Add(time.Hour)),
	}
	for _, c := range containers {
		injection.Level, injection.Target.Namespace = v1beta1.LevelPod, "shop"
		injection.Target.Containers = append(injection.Target.Containers, v1beta1.InjectionContainer{Name: "app", ID: c.ID})
	}
	return injection
}

// untilInTime tries with a time in the future, a whole second, further away each time,
// until this machine is ready before it.
func untilInTime(t *testing.T, try func(coming time.Time) (inTime bool)) {
	t.Helper()
	for lead := 3 * time.Second; !try(time.Now().Add(lead).Truncate(time.Second)); lead *= 4 {
		if lead > 2*time.Minute {
			t.Fatalf("not ready in %s", lead)
		}
	}
}

// buffer may be written and read at the same time.
type buffer struct {
	mutex sync.Mutex
	data  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.data.Write(p)
}

func (b *buffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.data.String()
}
