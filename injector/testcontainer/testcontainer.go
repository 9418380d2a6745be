// Package testcontainer gives tests a real process that looks to an injector
// like a container: number 1 of its own process namespace, in its own network
// namespace, in cgroups that carry its ID. It promises that process and cgroups
// are gone when the test has ended.
package testcontainer

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/squall-chaos/squall/injector/testneeds"
)

// deadline is how long a test waits for the kernel or a process.
const deadline = 20 * time.Second

// Container is a process that a test may hurt.
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

// StartAs is Start with a chosen ID, as when a container is started again.
func StartAs(t *testing.T, id string, command ...string) *Container {
	t.Helper()
	testneeds.BeRoot(t)
	c := &Container{ID: id, ended: make(chan struct{})}
	t.Cleanup(func() { c.Stop(t) })
	for _, root := range hierarchies() {
		dir := filepath.Join(root, "squall-test", "cri-containerd-"+id+".scope")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			testneeds.Missing(t, testneeds.Cgroups, err)
		}
		c.Cgroups = append(c.Cgroups, dir)
	}
	c.command = exec.Command(command[0], command[1:]...)
	c.command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNET,
		Pdeathsig:  syscall.SIGKILL,
	}
	if err := c.command.Start(); err != nil {
		t.Fatalf("start %s: %v", command[0], err)
	}
	c.PID = c.command.Process.Pid
	go func() {
		c.command.Wait()
		close(c.ended)
	}()
	for _, dir := range c.Cgroups {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(c.PID)), 0); err != nil {
			t.Fatalf("join cgroup: %v", err)
		}
	}
	return c
}

// Proc makes a directory in which an injector sees some processes of this machine
// alone, and one of them as the node's first process: the real one may not be
// looked at everywhere.
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

// File is the path of a control file in the container's cgroup: v1 in the
// directory of a version 1 controller, v2 in the unified one without it.
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
		Eventually(t, "cgroup "+dir+" removed", func() error {
			if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		})
		os.Remove(filepath.Dir(dir)) // stays while another test uses it
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

// AwaitEnd waits until the process has ended and returns how.
func (c *Container) AwaitEnd(t *testing.T) syscall.WaitStatus {
	t.Helper()
	select {
	case <-c.ended:
	case <-time.After(deadline):
		t.Fatalf("process %d has not ended in %s", c.PID, deadline)
	}
	return c.command.ProcessState.Sys().(syscall.WaitStatus)
}

// Running tells whether the process has not ended.
func (c *Container) Running() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
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

// Eventually calls condition until it returns nil, and ends the test with its
// last error after a deadline.
func Eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	end := time.Now().Add(deadline)
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not after %s: %s: %v", deadline, what, err)
		}
		<-ticker.C
	}
}

// hierarchies are some version 1 hierarchies and the unified one, or the
// unified one alone.
func hierarchies() []string {
	const root = "/sys/fs/cgroup"
	if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err == nil {
		return []string{root}
	}
	var found []string
	for _, name := range []string{"cpu", "freezer", "blkio", "unified"} {
		dir := filepath.Join(root, name)
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err == nil {
			found = append(found, dir)
		}
	}
	return found
}
