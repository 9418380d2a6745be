//go:build linux

package containerfailure

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/testcontainer"
)

func loadTarget(t *testing.T, containers ...*testcontainer.Container) *target.Target {
	t.Helper()
	injection := v1beta1.Injection{Level: v1beta1.LevelPod}
	for _, c := range containers {
		injection.Target.Containers = append(injection.Target.Containers, v1beta1.InjectionContainer{Name: "app", ID: c.ID})
	}
	loaded, err := target.Load(t.Context(), injection, "")
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

func newInjector(forced bool, of *target.Target) *Injector {
	i := New(v1beta1.ContainerFailure{Forced: forced}, of, nil)
	i.unhandledGrace, i.handledGrace = 300*time.Millisecond, 300*time.Millisecond
	return i
}

func TestForcedEndsEveryContainer(t *testing.T) {
	first := testcontainer.Start(t, testcontainer.Sleeps...)
	second := testcontainer.Start(t, testcontainer.Sleeps...)
	spared := testcontainer.Start(t, testcontainer.Sleeps...)

	i := newInjector(true, loadTarget(t, first, second))
	i.unhandledGrace, i.handledGrace = time.Minute, time.Minute // both end sooner
	if err := i.Inject(t.Context()); err != nil {
		t.Fatalf("Inject() = %v", err)
	}
	for _, c := range []*testcontainer.Container{first, second} {
		if status := c.AwaitEnd(t); !status.Signaled() || status.Signal() != syscall.SIGKILL {
			t.Errorf("container ended with %v, want SIGKILL", status)
		}
	}
	if !spared.Running() {
		t.Error("a container that is not of the target was ended")
	}
	for range 2 {
		if err := i.Clean(t.Context()); err != nil {
			t.Errorf("Clean() = %v", err)
		}
	}
}

func TestGracefulEndsAContainerThatHandlesIt(t *testing.T) {
	made := testcontainer.Start(t, testcontainer.ExitsOnTerm...)
	made.AwaitTermHandler(t)
	i := newInjector(false, loadTarget(t, made))
	i.handledGrace = 20 * time.Second
	if err := i.Inject(t.Context()); err != nil {
		t.Fatalf("Inject() = %v", err)
	}
	if status := made.AwaitEnd(t); status.ExitStatus() != 3 {
		t.Errorf("container ended with %v, want its handler's exit code 3", status)
	}
}

func TestGracefulDoesNotClaimWhatHadNoEffect(t *testing.T) {
	tests := []struct {
		name    string
		command []string
		want    []string
	}{
		{"no handler", testcontainer.Sleeps, []string{"ignored SIGTERM", "only signals that it handles"}},
		{"set to be ignored", []string{"sh", "-c", `trap "" TERM; exec sleep 1000`}, []string{"ignored SIGTERM", "set it to be ignored"}},
		{"handled, and still running", []string{"sh", "-c", `trap "true" TERM; while :; do sleep 1 & wait; done`}, []string{"handles SIGTERM", "not ended"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			made := testcontainer.Start(t, test.command...)
			if test.name == "handled, and still running" {
				made.AwaitTermHandler(t)
			}
			if strings.Contains(test.want[1], "ignored") {
				made.AwaitTermIgnored(t)
			}
			err := newInjector(false, loadTarget(t, made)).Inject(t.Context())
			if err == nil {
				t.Fatal("Inject() = nil, though the container lives")
			}
			for _, want := range append(test.want, "container app") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Inject() = %q, want it to say %q", err, want)
				}
			}
			if !made.Running() {
				t.Error("the container ended")
			}
		})
	}
}

func TestGoneContainerIsAnErrorAndNoProcessIsSignalled(t *testing.T) {
	lives := testcontainer.Start(t, testcontainer.Sleeps...)
	ended := testcontainer.Start(t, testcontainer.Sleeps...)
	i := newInjector(true, loadTarget(t, lives, ended))
	ended.Stop(t)
	if err := i.Inject(t.Context()); !errors.Is(err, target.ErrGone) {
		t.Errorf("Inject() = %v, want ErrGone", err)
	}
	if !lives.Running() {
		t.Error("the other container was ended")
	}
}

// The number of an ended process may come to mean another one.
func TestProcessNumberUsedAgainIsNotSignalled(t *testing.T) {
	made := testcontainer.Start(t, testcontainer.Sleeps...)
	loaded := loadTarget(t, made)
	loaded.Containers[0].StartTime--
	if err := newInjector(true, loaded).Inject(t.Context()); !errors.Is(err, target.ErrGone) {
		t.Errorf("Inject() = %v, want ErrGone", err)
	}
	if !made.Running() {
		t.Error("a process that only has the target's number was ended")
	}
}

// A runtime creates the first process of a container, and lets the application take its
// place later. Killed before, it is an error of the runtime, and nothing ran that could fail.
func TestAContainerThatIsBeingStartedIsWaitedFor(t *testing.T) {
	made := testcontainer.Start(t, testcontainer.Sleeps...)
	loaded := loadTarget(t, made)
	proc := createdProc(t, made.PID)
	seen, err := target.Load(t.Context(), v1beta1.Injection{Level: v1beta1.LevelPod, Target: v1beta1.InjectionTarget{
		Containers: []v1beta1.InjectionContainer{{Name: "app", ID: made.ID}}}}, proc)
	if err != nil {
		t.Fatal(err)
	}
	err = newInjector(true, seen).Inject(t.Context())
	if err == nil || !strings.Contains(err.Error(), "container app was created, and does not run after 300ms") || !made.Running() {
		t.Fatalf("Inject() = %v, it runs: %t; want it waited for and spared", err, made.Running())
	}
	if err := newInjector(true, loaded).Inject(t.Context()); err != nil {
		t.Errorf("Inject() of one that was started = %v", err)
	}
	made.AwaitEnd(t)
}

// createdProc is a directory of processes in which one has executed nothing.
func createdProc(t *testing.T, pid int) string {
	t.Helper()
	number := strconv.Itoa(pid)
	real, proc := filepath.Join("/proc", number), t.TempDir()
	entries, err := os.ReadDir(real)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(proc, number), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if err := os.Symlink(filepath.Join(real, entry.Name()), filepath.Join(proc, number, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	stat, err := os.ReadFile(filepath.Join(real, "stat"))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat))
	fields[8] = "4194624" // flags, as they were seen of a container that runc had created
	made := filepath.Join(proc, number, "stat")
	if err := errors.Join(os.Remove(made), os.WriteFile(made, []byte(strings.Join(fields, " ")), 0o644)); err != nil {
		t.Fatal(err)
	}
	return proc
}

func TestSignalDuringTheGraceEndsTheWait(t *testing.T) {
	made := testcontainer.Start(t, testcontainer.Sleeps...)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	i := newInjector(false, loadTarget(t, made))
	i.unhandledGrace = time.Hour
	if err := i.Inject(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Inject() = %v, want the end of the context", err)
	}
}

func TestNodeLevelIsRefused(t *testing.T) {
	if err := newInjector(true, &target.Target{}).Inject(t.Context()); err == nil || !strings.Contains(err.Error(), "level pod") {
		t.Errorf("Inject() without containers = %v, want an error that says why", err)
	}
}

func TestEffectOf(t *testing.T) {
	const term = 1 << (syscall.SIGTERM - 1)
	tests := []struct {
		name   string
		masks  masks
		forced bool
		want   effect
	}{
		{"handled", masks{caught: term}, false, slow},
		{"handled but blocked", masks{caught: term, blocked: term}, false, blocks},
		{"ignored on purpose", masks{ignored: term}, false, ignores},
		{"neither: the kernel spares a first process", masks{}, false, unheard},
		{"another signal is handled", masks{caught: term << 1}, false, unheard},
		{"SIGKILL cannot be handled", masks{caught: term}, true, stuck},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := effectOf(test.masks, test.forced); got != test.want {
				t.Errorf("effectOf(%+v, %t) = %q, want %q", test.masks, test.forced, got, test.want)
			}
		})
	}
}
