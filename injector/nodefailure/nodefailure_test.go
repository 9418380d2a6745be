//go:build linux

package nodefailure

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/testneeds"
)

// TestMain runs the test binary as an injector on a node that is a container.
func TestMain(m *testing.M) {
	if len(os.Args) != 3 || os.Args[1] != "inject" {
		os.Exit(m.Run())
	}
	if err := New(v1beta1.NodeFailure{}, on(os.Args[2]), nil).Inject(context.Background()); err != nil {
		_, _ = os.Stdout.WriteString(err.Error())
	}
}

// on is a node whose kernel would read commands from a file.
func on(trigger string) *target.Target {
	return &target.Target{Injection: v1beta1.Injection{
		Disruption: v1beta1.DisruptionRef{UID: "d-1"}, Kind: v1beta1.KindNodeFailure, Level: v1beta1.LevelNode,
		Target: v1beta1.InjectionTarget{Name: "node-1", NodeName: "node-1", UID: "n-1"}, SysrqTrigger: trigger,
	}}
}

func file(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trigger")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestInjectOnlyLooks(t *testing.T) {
	trigger := file(t)
	injector := New(v1beta1.NodeFailure{}, on(trigger), nil)
	for range 2 {
		if err := injector.Inject(t.Context()); err != nil {
			t.Fatalf("Inject = %v", err)
		}
		if err := injector.Clean(t.Context()); err != nil {
			t.Errorf("Clean = %v", err)
		}
	}
	if text, err := os.ReadFile(trigger); err != nil || len(text) > 0 {
		t.Errorf("the kernel was told %q, %v, want nothing", text, err)
	}
}

func TestANodeThatIsAContainerIsRefused(t *testing.T) {
	testneeds.BeRoot(t)
	trigger := file(t)
	inside := exec.Command("/proc/self/exe", "inject", trigger)
	inside.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	output, err := inside.Output()
	if err != nil || !strings.Contains(string(output), "shares its kernel") || !strings.Contains(string(output), "end node node-1") {
		t.Errorf("Inject in a container = %q, %v, want it refused", output, err)
	}
}

func TestTriggerThatCannotBeWritten(t *testing.T) {
	subject := on(filepath.Join(t.TempDir(), "none"))
	notes, err := journal.Open(t.TempDir(), subject)
	if err != nil {
		t.Fatal(err)
	}
	defer notes.Close()
	err = New(v1beta1.NodeFailure{}, subject, notes).Trigger()
	if err == nil || !strings.Contains(err.Error(), "node-1") {
		t.Errorf("Trigger = %v, want an error that names the node", err)
	}
	if _, err := os.Stat(subject.Injection.SysrqTrigger); err == nil {
		t.Error("the file was made")
	}
}
