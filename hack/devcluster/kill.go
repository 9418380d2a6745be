package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/squall-chaos/squall/hack/cgroup"
	"github.com/squall-chaos/squall/hack/cluster"
)

// kill ends one program at once, as a crash would, and returns when it is gone.
// A machine starts its own programs again after a second; a container is the
// kubelet's affair.
func kill(ctx context.Context, args []string) error {
	flags, dir := flagSet("kill", "PROGRAM [N]")
	container := flags.String("container", "", "`ID` of the container that PROGRAM runs in; without, it is one that node N, or the control plane, runs itself")
	arguments, err := parse(flags, args, 1, 2)
	if err != nil {
		return err
	}
	c, err := running(*dir)
	if err != nil {
		return err
	}
	role := cluster.ControlPlane
	if len(arguments) > 1 {
		n, err := nodeNumber(c, arguments[1])
		if err != nil {
			return err
		}
		if c.IsVirtual(n) {
			return errNotHere
		}
		role = cluster.NodeRole(n)
	}
	all := readProcesses(c.Cgroup(role))
	pid := daemon(all, arguments[0], cgroup.Init(c.Cgroup(role)))
	if *container != "" {
		pid = contained(all, arguments[0], *container)
	}
	if pid == 0 {
		return fmt.Errorf("%s does not run in %s now", arguments[0], strings.TrimSpace(role+" "+*container))
	}
	for _, victim := range append(guards(all, arguments[0], pid), pid) {
		if err := syscall.Kill(victim, syscall.SIGKILL); err != nil && !(victim != pid && errors.Is(err, syscall.ESRCH)) {
			return fmt.Errorf("kill %s, process %d: %w", arguments[0], victim, err)
		}
	}
	fmt.Println(pid)
	return gone(ctx, pid)
}

// gone waits until a killed process is, and its ports are free.
func gone(ctx context.Context, pid int) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for syscall.Kill(pid, 0) == nil {
		select {
		case <-ctx.Done():
			return fmt.Errorf("process %d was killed and is still there", pid)
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// nodeNumber reads the number of a node that a user gave.
func nodeNumber(c *cluster.Cluster, number string) (int, error) {
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > c.Nodes {
		return 0, fmt.Errorf("node %q: want a number of 1 to %d", number, c.Nodes)
	}
	return n, nil
}

// process has the facts by which programs are distinguished.
type process struct {
	pid, parent int
	program     string // the last part of its path
	cgroups     string // a line for each hierarchy
}

// readProcesses are those of a control group; what ends meanwhile is left out.
func readProcesses(group string) []process {
	var all []process
	for _, pid := range cgroup.Members(group) {
		dir := filepath.Join("/proc", strconv.Itoa(pid))
		command, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		status, _ := os.ReadFile(filepath.Join(dir, "status"))
		cgroups, err := os.ReadFile(filepath.Join(dir, "cgroup"))
		if err != nil {
			continue
		}
		program, _, _ := strings.Cut(string(command), "\x00")
		all = append(all, process{pid, parent(string(status)), filepath.Base(program), string(cgroups)})
	}
	return all
}

func parent(status string) int {
	for line := range strings.Lines(status) {
		if id, ok := strings.CutPrefix(line, "PPid:"); ok {
			pid, _ := strconv.Atoi(strings.TrimSpace(id)) // the kernel writes a number
			return pid
		}
	}
	return 0
}

// daemon finds the program that a machine's first process started; 0 if it
// does not run.
func daemon(all []process, program string, first int) int {
	for _, p := range all {
		if p.program == program && p.parent == first {
			return p.pid
		}
	}
	return 0
}

// guards are the processes that a program started to clean after it, should it be
// killed. A crash of its container takes them along, so they are killed before it.
func guards(all []process, program string, pid int) []int {
	var found []int
	for _, p := range all {
		if p.parent == pid && p.program == program+"-guard" {
			found = append(found, p.pid)
		}
	}
	return found
}

// contained finds the program in a container that no other process of it has
// started; 0 if it does not run.
func contained(all []process, program, container string) int {
	inside := slices.DeleteFunc(slices.Clone(all), func(p process) bool { return !strings.Contains(p.cgroups, container) })
	for _, p := range inside {
		started := slices.ContainsFunc(inside, func(other process) bool { return other.pid == p.parent })
		if p.program == program && !started {
			return p.pid
		}
	}
	return 0
}
