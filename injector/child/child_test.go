//go:build linux

package child

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/testcontainer"
	"github.com/squall-chaos/squall/test/testneeds"
)

// lingerers are children that do nothing but live as long as they may.
var lingerers = Family{Kind: "linger", Command: "linger", Prefix: "squall-child-test=", Noun: "lingerer"}

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == readCommand {
		if err := readAs(); err != nil {
			log.Fatal(err)
		}
		return
	}
	if len(os.Args) < 2 || os.Args[1] != lingerers.Command {
		os.Exit(m.Run())
	}
	if !AwaitRelease() {
		return
	}
	fmt.Println("lingering")
	for !Ended(time.Minute) {
	}
}

func of(disruption, uid string) *Children { return lingerers.Of(targetOf(disruption, uid)) }

func targetOf(disruption, uid string) *target.Target {
	return &target.Target{Injection: v1beta1.Injection{
		Disruption: v1beta1.DisruptionRef{UID: types.UID(disruption)}, Target: v1beta1.InjectionTarget{UID: types.UID(uid)},
	}}
}

// start starts and releases a child that watches a process.
func start(t *testing.T, children *Children, watched int) *Child {
	t.Helper()
	made := startHeld(t, children, watched)
	if err := made.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	return made
}

// startHeld starts a child without releasing it.
func startHeld(t *testing.T, children *Children, watched int) *Child {
	t.Helper()
	fd, err := unix.PidfdOpen(watched, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "pidfd")
	defer file.Close()
	made, err := children.Start("", file, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = children.End(context.Background()) })
	return made
}

func wantPIDs(t *testing.T, children *Children, want ...int) {
	t.Helper()
	testcontainer.Eventually(t, "the children are those", func() error {
		got, err := children.PIDs()
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			return fmt.Errorf("%w (-want +got):\n%s", err, diff)
		}
		return nil
	})
}

func TestEndOfOneInjectionLeavesTheOthers(t *testing.T) {
	mine, neighbour := of("d-"+t.Name(), "t-1"), of("d-"+t.Name(), "t-2")
	first, other := start(t, mine, os.Getpid()), start(t, neighbour, os.Getpid())
	wantPIDs(t, mine, first.PID())
	marks, err := lingerers.Audit("/proc")
	want := v1beta1.Mark{
		Object: fmt.Sprintf("lingerer process %d", first.PID()), Kind: "linger",
		Disruption: v1beta1.DisruptionRef{UID: "d-TestEndOfOneInjectionLeavesTheOthers"}, Target: "t-1",
	}
	if err != nil || len(marks) != 2 || marks[0] != want && marks[1] != want {
		t.Errorf("Audit() = %+v, %v, want two, and among them %+v", marks, err, want)
	}
	for range 2 {
		if err := mine.End(t.Context()); err != nil {
			t.Errorf("End() = %v", err)
		}
		if left, err := mine.Left(); err != nil || len(left) != 0 {
			t.Errorf("Left() = %v, %v, want nothing", left, err)
		}
	}
	wantPIDs(t, neighbour, other.PID())
}

// Standing is called often, so it lists only the children that this process started.
func TestOwnChildrenStandWhileTheyRun(t *testing.T) {
	mine, earlier := of("d-"+t.Name(), "t-1"), of("d-"+t.Name(), "t-1")
	first, second := start(t, mine, os.Getpid()), start(t, mine, os.Getpid())
	start(t, earlier, os.Getpid())
	if diff := cmp.Diff([]int{first.PID(), second.PID()}, mine.Running()); diff != "" {
		t.Errorf("Running() (-want +got):\n%s", diff)
	}
	_ = first.Abandon(nil)
	if diff := cmp.Diff([]string{fmt.Sprintf("lingerer process %d", second.PID())}, mine.Standing()); diff != "" {
		t.Errorf("Standing() after one has ended (-want +got):\n%s", diff)
	}
}

// A powerless child has no rights on the node, and its parent keeps its own.
func TestPowerlessChildren(t *testing.T) {
	testneeds.BeRoot(t)
	powerless := lingerers
	powerless.Powerless = true
	children := powerless.Of(targetOf("d-"+t.Name(), "t-1"))
	made := start(t, children, os.Getpid())
	if err := testcontainer.Powerless(made.PID()); err != nil {
		t.Error(err)
	}
	wantPIDs(t, children, made.PID()) // its mark identifies it like any other
	mine := start(t, of("d-"+t.Name(), "t-2"), os.Getpid())
	if err := testcontainer.Powerless(mine.PID()); err == nil {
		t.Error("a child of another family has no rights either: the parent has lost its own")
	}
}

// A mark on a target's own process is not believed: it could keep a disruption stuck, or a
// sweep busy.
func TestForgedMarkIsNoChild(t *testing.T) {
	testneeds.BeRoot(t)
	children := of("d-"+t.Name(), "t-1")
	forge := func(attributes *syscall.SysProcAttr) *exec.Cmd {
		input, output, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer input.Close()
		forged := exec.Command("/proc/self/exe", lingerers.Command, lingerers.markOf(v1beta1.Injection{
			Disruption: v1beta1.DisruptionRef{UID: types.UID("d-" + t.Name())}, Target: v1beta1.InjectionTarget{UID: "t-1"},
		}), "")
		forged.Stdin, forged.SysProcAttr = input, attributes // it waits to be released
		if err := forged.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { output.Close(); _ = forged.Process.Kill(); _ = forged.Wait() })
		return forged
	}
	contained := forge(&syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID})
	other := forge(&syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}})
	genuine := forge(nil)
	wantPIDs(t, children, genuine.Process.Pid)
	for _, forged := range []*exec.Cmd{contained, other} {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", forged.Process.Pid))
		if err != nil || !strings.Contains(string(line), lingerers.Prefix) {
			t.Errorf("process %d has the command line %q, %v: it forges nothing", forged.Process.Pid, line, err)
		}
	}
	if marks, err := lingerers.Audit("/proc"); err != nil || len(marks) != 1 {
		t.Errorf("Audit() = %+v, %v, want the genuine one alone", marks, err)
	}
}

func TestChildEndsWithTheProcessThatItWatches(t *testing.T) {
	watched := exec.Command("sleep", "1000")
	if err := watched.Start(); err != nil {
		t.Fatal(err)
	}
	children := of("d-"+t.Name(), "t-1")
	made := start(t, children, watched.Process.Pid)
	wantPIDs(t, children, made.PID())
	_ = watched.Process.Kill()
	_ = watched.Wait()
	wantPIDs(t, children)
}

func TestChildThatIsNotReleasedDoesNothing(t *testing.T) {
	children := of("d-"+t.Name(), "t-1")
	made := startHeld(t, children, os.Getpid())
	wantPIDs(t, children, made.PID())
	if err := made.Abandon(os.ErrInvalid); err == nil {
		t.Error("Abandon() = nil, want the error it was given")
	}
	wantPIDs(t, children)
}

func TestChildThatCannotRunIsGivenUp(t *testing.T) {
	children := of("d-"+t.Name(), "t-1")
	made := startHeld(t, children, os.Getpid())
	if err := unix.Kill(made.PID(), unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	late := errors.New("too late")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, late)
	defer cancel()
	err := made.Release(ctx)
	if !errors.Is(err, late) || !strings.Contains(err.Error(), "frozen cgroup") {
		t.Errorf("Release() = %v, want that it may be frozen, and %v", err, late)
	}
	_ = made.Abandon(err)
	wantPIDs(t, children)
}
