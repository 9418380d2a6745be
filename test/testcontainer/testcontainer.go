//go:build linux

// Package testcontainer gives tests a real process that looks to an injector like a
// container. It is number 1 of its own process namespace, in network and mount namespaces
// of its own, in cgroups with its ID. It promises that process and cgroups are gone when
// the test has ended. The cgroup above them, squall-test, stays: another process may be
// about to make one below it.
package testcontainer

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/test/patience"
	"github.com/squall-chaos/squall/test/testneeds"
)

// deadline is how long a test waits for the kernel or a process.
const deadline = time.Minute

// MemoryLimit is a container's memory limit in bytes, where memory is counted.
const MemoryLimit = 128 << 20

// Container is a process that a test may disrupt.
type Container struct {
	ID  string
	PID int
	// Cgroups are the directories made for it, one per hierarchy.
	Cgroups []string

	command *exec.Cmd
	ended   chan struct{}
}

// ExitsOnTerm is a command that handles SIGTERM by exiting with code 3.
var ExitsOnTerm = []string{"sh", "-c", `trap "exit 3" TERM; while :; do sleep 1 & wait; done`}

// Sleeps is a command without a handler for SIGTERM.
var Sleeps = []string{"sleep", "1000"}

// Start runs command as a container. It skips the test unless it runs as root.
func Start(t *testing.T, command ...string) *Container {
	t.Helper()
	return StartAs(t, rand.Text(), command...)
}

// StartAs is Start with a chosen ID, as for a container that restarts.
func StartAs(t *testing.T, id string, command ...string) *Container {
	t.Helper()
	testneeds.BeRoot(t)
	patience.Watch(t)
	c := &Container{ID: id, ended: make(chan struct{})}
	t.Cleanup(func() { c.Stop(t) })
	for _, root := range hierarchies() {
		dir := filepath.Join(root, "squall-test", "cri-containerd-"+id+".scope")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			testneeds.Missing(t, testneeds.Cgroups, err)
		}
		c.Cgroups = append(c.Cgroups, dir)
	}
	handOn(t)
	c.limitMemory(t)
	c.command = exec.Command(command[0], command[1:]...)
	c.command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:   syscall.CLONE_NEWPID | syscall.CLONE_NEWNET,
		Unshareflags: syscall.CLONE_NEWNS, // outside Cloneflags, so that its mounts are private
		Pdeathsig:    syscall.SIGKILL,
	}
	started := make(chan error)
	go func() {
		// The container ends with the thread that started it, so no other goroutine may use that
		// thread.
		runtime.LockOSThread()
		defer close(c.ended)
		err := c.command.Start()
		started <- err
		if err == nil {
			c.command.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("start %s: %v", command[0], err)
	}
	c.PID = c.command.Process.Pid
	for _, dir := range c.Cgroups {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(c.PID)), 0); err != nil {
			t.Fatalf("join cgroup: %v", err)
		}
	}
	c.loopback(t)
	return c
}

// loopback sets up the loopback link, as a container runtime does for every pod.
func (c *Container) loopback(t *testing.T) {
	t.Helper()
	up := exec.Command("nsenter", "--target", strconv.Itoa(c.PID), "--net", "ip", "link", "set", "lo", "up")
	if output, err := up.CombinedOutput(); err != nil {
		t.Fatalf("set the loopback link up: %v: %s", err, output)
	}
}

// Proc makes a directory in which an injector sees only some processes of this machine, and
// one of them as the node's first process: on some machines the real one is protected.
func Proc(t *testing.T, first int, others ...int) string {
	t.Helper()
	dir := t.TempDir()
	links := map[string]int{"1": first}
	for _, pid := range append(others, first) {
		links[strconv.Itoa(pid)] = pid
	}
	for name, pid := range links {
		if err := os.Symlink("/proc/"+strconv.Itoa(pid), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// NodeProc is Proc with all processes of this machine, also those that start later.
func NodeProc(t *testing.T, first int) string {
	t.Helper()
	dir := t.TempDir()
	for _, mount := range []struct{ from, to string }{{"/proc", dir}, {"/proc/" + strconv.Itoa(first), filepath.Join(dir, "1")}} {
		if err := syscall.Mount(mount.from, mount.to, "", syscall.MS_BIND, ""); err != nil {
			t.Fatalf("mount %s: %v", mount.to, err)
		}
		t.Cleanup(func() {
			if err := syscall.Unmount(mount.to, syscall.MNT_DETACH); err != nil {
				t.Errorf("unmount %s: %v", mount.to, err)
			}
		})
	}
	return dir
}

// File returns the path of a control file in the container's cgroup: v1 in the directory of
// a version 1 controller, v2 in the unified one without it.
func (c *Container) File(t *testing.T, controller, v1, v2 string) string {
	t.Helper()
	for _, dir := range c.Cgroups {
		if strings.HasPrefix(dir, "/sys/fs/cgroup/"+controller+"/") {
			return filepath.Join(dir, v1)
		}
	}
	return filepath.Join(c.Cgroups[len(c.Cgroups)-1], v2)
}

// Stop kills the container and removes its cgroups. It is safe to call twice.
func (c *Container) Stop(t *testing.T) {
	t.Helper()
	c.Kill(t)
	for _, dir := range c.Cgroups {
		RemoveCgroup(t, dir)
	}
}

// Kill ends the process and leaves its cgroups. It is safe to call twice.
func (c *Container) Kill(t *testing.T) {
	t.Helper()
	if c.command != nil && c.command.Process != nil {
		c.command.Process.Kill()
		c.AwaitEnd(t)
	}
}

// AwaitEnd waits until the process has ended and returns its status.
func (c *Container) AwaitEnd(t *testing.T) syscall.WaitStatus {
	t.Helper()
	select {
	case <-c.ended:
	case <-time.After(deadline):
		t.Fatalf("process %d has not ended in %s", c.PID, deadline)
	}
	return c.command.ProcessState.Sys().(syscall.WaitStatus)
}

// Running is true until the process has ended.
func (c *Container) Running() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// AwaitSleep waits until a container that runs Sleeps sleeps: from then on it opens no
// file.
func (c *Container) AwaitSleep(t *testing.T) {
	t.Helper()
	Eventually(t, "the process sleeps", func() error {
		call, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", c.PID))
		if err != nil {
			return err
		}
		if number, _, _ := strings.Cut(string(call), " "); number != strconv.Itoa(unix.SYS_CLOCK_NANOSLEEP) {
			return fmt.Errorf("it is in system call %q", call)
		}
		return nil
	})
}

// AwaitTermHandler waits until the process has installed a handler for SIGTERM.
func (c *Container) AwaitTermHandler(t *testing.T) {
	t.Helper()
	c.awaitTermIn(t, "SigCgt")
}

// AwaitTermIgnored waits until the process has set SIGTERM to be ignored.
func (c *Container) AwaitTermIgnored(t *testing.T) {
	t.Helper()
	c.awaitTermIn(t, "SigIgn")
}

func (c *Container) awaitTermIn(t *testing.T, field string) {
	t.Helper()
	Eventually(t, "SIGTERM is in "+field, func() error {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.PID))
		if err != nil {
			return err
		}
		_, signals, _ := strings.Cut(string(status), field+":")
		mask, err := strconv.ParseUint(strings.Fields(signals)[0], 16, 64)
		if err != nil || mask&(1<<(syscall.SIGTERM-1)) == 0 {
			return fmt.Errorf("signals are %x", mask)
		}
		return nil
	})
}

// Freeze stops a process by SIGSTOP, and returns once all of its threads have stopped:
// until then one may still answer.
func Freeze(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "every thread has stopped", func() error {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(threads) == 0 {
			return fmt.Errorf("threads = %v, %v", threads, err)
		}
		for _, thread := range threads {
			stat, err := os.ReadFile(thread)
			if err != nil {
				return err
			}
			if _, state, _ := strings.Cut(string(stat), ") "); !strings.HasPrefix(state, "T") {
				return fmt.Errorf("%s says %s", thread, stat)
			}
		}
		return nil
	})
}

// Eventually calls condition until it returns nil, and ends the test with its
// last error after a minute of this machine's time.
func Eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	patience.Within(t, deadline, what, condition)
}

// handOn enables for the cgroups of containers the controllers that they have on a node,
// where only version 2 exists.
func handOn(t *testing.T) {
	t.Helper()
	const root = "/sys/fs/cgroup"
	if hierarchies()[0] != root {
		return
	}
	for _, dir := range []string{root, filepath.Join(root, "squall-test")} {
		file := filepath.Join(dir, "cgroup.subtree_control")
		if err := os.WriteFile(file, []byte("+memory"), 0); err != nil {
			testneeds.Missing(t, testneeds.Cgroups, err)
		}
		for _, controller := range []string{"+io", "+cpu", "+cpuset"} {
			_ = os.WriteFile(file, []byte(controller), 0) // a test without its controller fails
		}
	}
}

// limitMemory sets a memory limit, as most containers have one.
func (c *Container) limitMemory(t *testing.T) {
	t.Helper()
	limit := c.File(t, "memory", "memory.limit_in_bytes", "memory.max")
	if _, err := os.Stat(limit); err != nil {
		return // this machine counts no memory
	}
	if err := os.WriteFile(limit, []byte(strconv.Itoa(MemoryLimit)), 0); err != nil {
		t.Fatal(err)
	}
}

// hierarchies are some version 1 hierarchies and the unified one, or only the unified one.
func hierarchies() []string {
	const root = "/sys/fs/cgroup"
	if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err == nil {
		return []string{root}
	}
	var found []string
	for _, name := range []string{"cpu", "freezer", "blkio", "memory", "unified"} {
		dir := filepath.Join(root, name)
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err == nil {
			found = append(found, dir)
		}
	}
	return found
}

// Children returns the processes that this one has started and that execute a hidden
// subcommand of the injector without arguments.
func Children(command string) []int {
	var pids []int
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, path := range lists {
		list, _ := os.ReadFile(path)
		for _, text := range strings.Fields(string(list)) {
			line, _ := os.ReadFile("/proc/" + text + "/cmdline")
			if pid, err := strconv.Atoi(text); err == nil && strings.HasSuffix(string(line), "\x00"+command+"\x00") {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// Powerless returns an error unless no thread of a process has a capability or can get one.
func Powerless(pid int) error {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(threads) == 0 {
		return fmt.Errorf("process %d has %d threads, %v", pid, len(threads), err)
	}
	for _, thread := range threads {
		status, err := os.ReadFile(thread)
		if err != nil {
			return err
		}
		for _, line := range []string{"CapInh:\t0000000000000000\n", "CapPrm:\t0000000000000000\n", "CapEff:\t0000000000000000\n", "CapAmb:\t0000000000000000\n", "NoNewPrivs:\t1\n"} {
			if !strings.Contains(string(status), line) {
				return fmt.Errorf("%s lacks the line %q", thread, line)
			}
		}
	}
	return nil
}

// Child is a process that a family of children has started.
type Child interface {
	PID() int
	Abandon(why error) error
}

// StartsPowerless tests that the process that start begins, beside this process, is
// powerless. Such children run in a target's cgroups, and must not be able to change the
// node.
func StartsPowerless(t *testing.T, start func(watched *os.File) (Child, error)) {
	t.Helper()
	testneeds.BeRoot(t)
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		t.Fatal(err)
	}
	watched := os.NewFile(uintptr(self), "pidfd")
	defer watched.Close()
	made, err := start(watched)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = made.Abandon(errors.New("the test is over")) }()
	if err := Powerless(made.PID()); err != nil {
		t.Error(err)
	}
}
