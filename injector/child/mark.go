//go:build linux

package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/target"
)

// endTimeout bounds the wait for one killed child.
const endTimeout = 5 * time.Second

// markOf returns the mark on the command line of an injection's children. It names the
// target too, because two targets of a disruption may share a node.
func (f Family) markOf(injection v1beta1.Injection) string {
	return f.Prefix + string(injection.Disruption.UID) + "/" + string(injection.Target.UID)
}

// Audit lists the children of the family on this node, of any disruption. proc is the
// directory of processes. An empty list means that nothing is left.
func (f Family) Audit(proc string) ([]v1beta1.Mark, error) {
	pids, err := f.marked(proc, "")
	var marks []v1beta1.Mark
	for _, pid := range pids {
		disruption, targetUID, _ := strings.Cut(strings.TrimPrefix(f.markOn(proc, pid), f.Prefix), "/")
		marks = append(marks, v1beta1.Mark{
			Object: f.process(pid), Kind: f.Kind,
			Disruption: v1beta1.DisruptionRef{UID: types.UID(disruption)}, Target: types.UID(targetUID),
		})
	}
	return marks, err
}

// process describes a child to people.
func (f Family) process(pid int) string { return fmt.Sprintf("%s process %d", f.Noun, pid) }

// PIDs lists the running children of this injection, started by any process.
func (c *Children) PIDs() ([]int, error) { return c.marked(c.proc, c.mark) }

// Running lists the running children that this process started. Unlike PIDs it reads no
// other process of the node.
func (c *Children) Running() []int {
	c.starting.Lock()
	defer c.starting.Unlock()
	return slices.DeleteFunc(slices.Clone(c.started), func(pid int) bool { return c.markOn(c.proc, pid) != c.mark })
}

// Standing describes the children that Running lists.
func (c *Children) Standing() []string { return c.names(c.Running()) }

// Left describes the children that PIDs lists.
func (c *Children) Left() ([]string, error) {
	pids, err := c.PIDs()
	return c.names(pids), err
}

func (c *Children) names(pids []int) []string {
	var names []string
	for _, pid := range pids {
		names = append(names, c.process(pid))
	}
	return names
}

// End kills the children of this injection, also those that another process started, and
// waits until they are gone. It continues after an error, needs no state of Start and may
// be called twice.
func (c *Children) End(ctx context.Context) error {
	pids, err := c.PIDs()
	errs := []error{err}
	for _, pid := range pids {
		errs = append(errs, c.endOne(ctx, pid))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	c.reapers.Wait()
	return nil
}

// marked lists the processes whose mark is mark, or any mark if it is empty. Zombies have
// no command line and are not listed.
func (f Family) marked(proc, mark string) ([]int, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if found := f.markOn(proc, pid); found != "" && (mark == "" || mark == found) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// markOn returns the mark of a process, empty for a process of another family. Any user may
// put a mark on a command line. It counts only on a process with the injector's user and
// process namespace. A container has another namespace, unless it was given the node's
// processes, and with them the node.
func (f Family) markOn(proc string, pid int) string {
	// An error means that the process is gone.
	line, _ := target.ReadProc(filepath.Join(proc, strconv.Itoa(pid), "cmdline"))
	args := bytes.Split(line, []byte{0})
	if len(args) < 3 || string(args[1]) != f.Command || !bytes.HasPrefix(args[2], []byte(f.Prefix)) {
		return ""
	}
	if !runsAsWeDo(proc, pid) {
		return ""
	}
	return string(args[2])
}

// runsAsWeDo is true for a process of our user and of our process namespace, in which proc
// was mounted. An injector shares the node's.
func runsAsWeDo(proc string, pid int) bool {
	status, err := target.ReadProc(filepath.Join(proc, strconv.Itoa(pid), "status"))
	if err != nil {
		return false // it has ended
	}
	ours := 0
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		fields := strings.Fields(value)
		if name == "Uid" && len(fields) > 0 && fields[0] == strconv.Itoa(os.Getuid()) || name == "NSpid" && len(fields) == 1 {
			ours++
		}
	}
	return ours == 2
}

// endOne kills one process and waits for its end. It reads the mark again once the
// descriptor holds the process, as its number may belong to another one by then.
func (c *Children) endOne(ctx context.Context, pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open a descriptor of %s %d: %w", c.Noun, pid, err)
	}
	defer unix.Close(fd)
	if c.markOn(c.proc, pid) != c.mark {
		return nil
	}
	err = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill %s %d: %w", c.Noun, pid, err)
	}
	return c.awaitEnd(ctx, fd, pid)
}

func (c *Children) awaitEnd(ctx context.Context, fd, pid int) error {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	for ctx.Err() == nil {
		end := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		count, err := unix.Poll(end, 100)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for the end of %s %d: %w", c.Noun, pid, err)
		}
		if count > 0 {
			return nil
		}
	}
	return fmt.Errorf("%s %d was killed but does not end: %w", c.Noun, pid, ctx.Err())
}
