//go:build linux

package diskfailure

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/testcontainer"
)

// TestMain runs the test binary as a listener, as a process of the target, or as an
// injector that can be killed.
func TestMain(m *testing.M) {
	roles := map[string]func(args []string) error{
		"enter": enter, "open": open, "mount": mountAndWait, "overlay": overlayAndWait, "bounded": bounded, "gives": gives, "inject": injectAndHang,
		"put":         func(args []string) error { return unix.Mount(args[0], args[1], "", unix.MS_BIND, "") },
		"take":        func(args []string) error { return unix.Unmount(args[0], 0) },
		ListenCommand: func(args []string) error { return Listen(context.Background(), args) },
	}
	if len(os.Args) < 2 || roles[os.Args[1]] == nil {
		os.Exit(m.Run())
	}
	if err := roles[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, os.Args[1], err)
		os.Exit(1)
	}
}

// enter joins the mount namespace of another process and then runs a role there. args are
// the number of that process, then the role and its arguments.
func enter(args []string) error {
	runtime.LockOSThread() // the namespace is the thread's, and then the new program's
	namespace, err := unix.Open("/proc/"+args[0]+"/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if err := unix.Setns(namespace, unix.CLONE_NEWNS); err != nil {
		return err
	}
	return unix.Exec(program, append([]string{"target"}, args[1:]...), nil)
}

// bounded runs a role with only the rights of the kind's chaos pod. args are the role and
// its arguments.
func bounded(args []string) error {
	runtime.LockOSThread()
	kept := map[string]uintptr{
		"SYS_ADMIN": unix.CAP_SYS_ADMIN, "SYS_PTRACE": unix.CAP_SYS_PTRACE, "SYS_CHROOT": unix.CAP_SYS_CHROOT,
		"DAC_READ_SEARCH": unix.CAP_DAC_READ_SEARCH, "IPC_LOCK": unix.CAP_IPC_LOCK,
	}
	for right := range uintptr(unix.CAP_LAST_CAP + 1) {
		if slices.ContainsFunc(v1beta1.KindDiskFailure.Needs().Capabilities, func(name string) bool { number, known := kept[name]; return known && number == right }) {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, right, 0, 0, 0); err != nil && err != unix.EINVAL {
			return err
		}
	}
	return unix.Exec("/proc/self/exe", append([]string{"bounded"}, args...), nil)
}

// gives prints the errors that this kernel gives by a way.
func gives(args []string) error {
	names, err := errnosBy(args[0])
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(names)
}

// errnosBy returns the errors that this kernel gives by a way.
func errnosBy(by string) ([]string, error) {
	ways := allWays()
	return ways[slices.IndexFunc(ways, func(w way) bool { return w.name == by })].errnos()
}

// open opens a file several times, and prints how often each result occurred: args are the
// file, the flags and the number.
func open(args []string) error {
	flags, _ := strconv.Atoi(args[1])
	times, _ := strconv.Atoi(args[2])
	ends := map[string]int{}
	for range times {
		fd, err := unix.Open(args[0], flags|unix.O_CLOEXEC, 0o600)
		if err == nil {
			ends["ok"]++
			unix.Close(fd)
			continue
		}
		ends[unix.ErrnoName(err.(syscall.Errno))]++
	}
	return json.NewEncoder(os.Stdout).Encode(ends)
}

// mountAndWait is a container's first process with a volume at args[0]. With a further
// argument the volume is shared.
func mountAndWait(args []string) error {
	if err := unix.Mount("tmpfs", args[0], "tmpfs", 0, ""); err != nil {
		return err
	}
	if len(args) > 1 {
		if err := unix.Mount("", args[0], "", unix.MS_SHARED, ""); err != nil {
			return err
		}
	}
	return writeAndWait(args[0] + "/file")
}

// overlayAndWait is a container's first process with an overlay at args[0]/merged.
func overlayAndWait(args []string) error {
	if err := unix.Mount("tmpfs", args[0], "tmpfs", 0, ""); err != nil {
		return err
	}
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(args[0]+"/"+name, 0o755); err != nil {
			return err
		}
	}
	options := strings.ReplaceAll("lowerdir=D/lower,upperdir=D/upper,workdir=D/work", "D", args[0])
	if err := unix.Mount("overlay", args[0]+"/merged", "overlay", 0, options); err != nil {
		return err
	}
	return writeAndWait(args[0] + "/merged/file")
}

func writeAndWait(file string) error {
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return err
	}
	for {
		time.Sleep(time.Hour) // it ends with the test
	}
}

// opens has a process of the container open a file, and returns how often each result
// occurred.
func opens(t *testing.T, c *testcontainer.Container, file string, flags, times int) map[string]int {
	t.Helper()
	return openedBy(t, exec.Command("/proc/self/exe", "enter", strconv.Itoa(c.PID), "open", file, strconv.Itoa(flags), strconv.Itoa(times)))
}

// openedOutside is opens by a process outside the container.
func openedOutside(t *testing.T, file string, times int) map[string]int {
	t.Helper()
	return openedBy(t, exec.Command("/proc/self/exe", "open", file, "0", strconv.Itoa(times)))
}

func openedBy(t *testing.T, command *exec.Cmd) map[string]int {
	t.Helper()
	command.Stderr = os.Stderr
	output, err := command.Output()
	ends := map[string]int{}
	if err == nil {
		err = json.Unmarshal(output, &ends)
	}
	if err != nil {
		t.Fatalf("%v: %v: %s", command.Args, err, output)
	}
	return ends
}

func injection(containers ...*testcontainer.Container) v1beta1.Injection {
	document := v1beta1.Injection{
		Disruption: v1beta1.DisruptionRef{Namespace: "shop", Name: "broken", UID: "disruption-uid"},
		Kind:       v1beta1.KindDiskFailure,
		Level:      v1beta1.LevelPod,
		Target:     v1beta1.InjectionTarget{Namespace: "shop", Name: "db-0", UID: "pod-uid", NodeName: "node-7"},
	}
	for n, c := range containers {
		// With this UID no other test finds its listeners.
		document.Disruption.UID = types.UID("d-" + c.ID)
		document.Target.Containers = append(document.Target.Containers, v1beta1.InjectionContainer{Name: fmt.Sprintf("db-%d", n), ID: c.ID})
	}
	return document
}

// params returns parameters for an error on all opens below the paths, or on a share of
// them.
func params(errno, probability string, paths ...string) v1beta1.DiskFailure {
	p := v1beta1.DiskFailure{Paths: paths, Probability: &v1beta1.Percentage{Text: probability}}
	if errno != "" {
		p.OpenatSyscall = &v1beta1.OpenatSyscall{ExitCode: errno}
	}
	return p
}

// newInjector makes an injector with one way, and cleans at the end of the test.
func newInjector(t *testing.T, by string, params v1beta1.DiskFailure, containers ...*testcontainer.Container) *Injector {
	t.Helper()
	loaded, err := target.Load(t.Context(), injection(containers...), "")
	if err != nil {
		t.Fatal(err)
	}
	return injectorFor(t, by, params, loaded)
}

func injectorFor(t *testing.T, by string, params v1beta1.DiskFailure, loaded *target.Target) *Injector {
	t.Helper()
	return injectorIn(t, t.TempDir(), by, params, loaded)
}

// injectorIn makes an injector with its journal in dir, which injectors of one node share.
func injectorIn(t *testing.T, dir, by string, params v1beta1.DiskFailure, loaded *target.Target) *Injector {
	t.Helper()
	notes, err := journal.Open(dir, loaded)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(notes.Close)
	injector := New(params, loaded, notes).only(by)
	t.Cleanup(func() { clean(t, injector) })
	return injector
}

// only removes the other ways.
func (i *Injector) only(by string) *Injector {
	i.ways = slices.DeleteFunc(i.ways, func(w way) bool { return w.name != by })
	return i
}

func inject(t *testing.T, injector *Injector) {
	t.Helper()
	if err := injector.Inject(t.Context()); err != nil {
		t.Fatalf("Inject = %v", err)
	}
}

func clean(t *testing.T, injector *Injector) {
	t.Helper()
	// The test's own context is over when its cleanups run.
	ctx := context.WithoutCancel(t.Context())
	if err := injector.Clean(ctx); err != nil {
		t.Errorf("Clean = %v", err)
	}
	if left, err := injector.Left(ctx); err != nil || len(left) > 0 {
		t.Errorf("Left after Clean = %v, %v, want nothing", left, err)
	}
}

// injectAndHang runs an injector that prints when it has injected and never cleans. args
// are the way, the container's ID, the error, the path and the journal's directory.
func injectAndHang(args []string) error {
	loaded, err := target.Load(context.Background(), injection(&testcontainer.Container{ID: args[1]}), "")
	if err != nil {
		return err
	}
	notes, err := journal.Open(args[4], loaded)
	if err != nil {
		return err
	}
	defer notes.Close()
	if err := New(params(args[2], "", args[3]), loaded, notes).only(args[0]).Inject(context.Background()); err != nil {
		return err
	}
	fmt.Println("injected")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
