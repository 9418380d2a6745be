//go:build linux

// Command probe looks at a node from a privileged pod on it, for the end-to-end
// tests and benchmarks: it sees what is really in force, by other means than the
// injector's own. It changes nothing except by the commands kill, spoil and heal.
//
//	probe serve [--listen ADDRESS]    runs the commands below for HTTP requests that carry $PROBE_TOKEN
//	probe snapshot [--container ID]   settings that a disruption could leave changed, as JSON
//	probe cpu --container ID          the cores the container takes, as JSON
//	probe memory --container ID       the memory that is charged to the container, and its limit, as JSON
//	probe kill --name NAME --container ID [--guard]   kills, by SIGKILL, the container's processes of
//	                                  that name, and before each its guard
//	probe spoil --disruption UID      makes the journals of a disruption unreadable, so that no cleaner can use them
//	probe restore --disruption UID    makes them readable again
//	probe hold                        is ready at once and waits to be ended
//	probe heal --disruption UID --container ID   kills an injector, and prints how long its journal stays, as JSON
//	probe busy --for 60s              the processors of this machine that were at work, as JSON
//	probe grpc --listen ADDRESS       is a gRPC application that can be disrupted
//	probe call --to ADDRESS --count N calls such an application, and counts the codes of its answers, as JSON
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
)

func main() {
	programs := map[string]func(context.Context, []string) (any, error){
		"serve": serve, "snapshot": snapshot, "cpu": cpu, "memory": memory, "kill": kill, "spoil": spoil, "restore": restore,
		"hold": hold, "heal": heal, "busy": busy, "grpc": serveGRPC, "call": callGRPC,
	}
	if len(os.Args) < 2 || programs[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "probe: want serve, snapshot, cpu, memory, kill, spoil, restore, hold, heal, busy, grpc or call")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	result, err := programs[os.Args[1]](ctx, os.Args[2:])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(result)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

// snapshot maps what is set to its value: links of the container's network
// namespace or else of the node, and the container's cgroups and mounts.
func snapshot(_ context.Context, args []string) (any, error) {
	id, _, err := parse("snapshot", args)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	if id == "" {
		return found, nodeNetwork(found)
	}
	pid, err := firstProcess(id)
	if err != nil {
		return nil, err
	}
	if err := cgroupSettings(found, pid); err != nil {
		return nil, err
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		return nil, fmt.Errorf("read the mounts: %w", err)
	}
	found["mounts"] = mountsOf(string(mounts))
	return found, networkOf(found, pid)
}

// mountsOf are the lines of a mountinfo (proc_pid_mountinfo(5)) as every instance
// of the container has them: where something is mounted, with which options, and
// the type of its file system. Numbers, snapshots and directories of logs are
// another's after each restart.
func mountsOf(mountinfo string) string {
	var b strings.Builder
	for line := range strings.Lines(mountinfo) {
		if f := strings.Fields(line); len(f) > 6 {
			if dash := slices.Index(f, "-"); dash > 0 && dash+1 < len(f) {
				fmt.Fprintln(&b, f[4], f[5], f[dash+1])
			}
		}
	}
	return b.String()
}

// cpu measures over the time of --for.
func cpu(ctx context.Context, args []string) (any, error) {
	id, length, err := parse("cpu", args)
	if err != nil {
		return nil, err
	}
	pid, err := firstProcess(id)
	if err != nil {
		return nil, err
	}
	before, err := cpuTime(pid)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(length):
	}
	after, err := cpuTime(pid)
	if err != nil {
		return nil, err
	}
	return map[string]float64{"cores": (after - before).Seconds() / time.Since(began).Seconds()}, nil
}

// memory returns bytes.
func memory(_ context.Context, args []string) (any, error) {
	id, _, err := parse("memory", args)
	if err != nil {
		return nil, err
	}
	pid, err := firstProcess(id)
	if err != nil {
		return nil, err
	}
	return memoryOf(pid)
}

func kill(_ context.Context, args []string) (any, error) {
	flags := flag.NewFlagSet("kill", flag.ContinueOnError)
	name := flags.String("name", "", "`name` of the program, as /proc/PID/comm shows it")
	container := flags.String("container", "", "`ID` of the container it must be in")
	guard := flags.Bool("guard", false, "kill the injector's guard too, before it: what the injector did stays")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	var killed []int
	for _, pid := range processes() {
		comm, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
		cgroups, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cgroup"))
		if *name == "" || *container == "" || strings.TrimSpace(string(comm)) != *name || !strings.Contains(string(cgroups), *container) {
			continue
		}
		victims := []int{pid}
		if *guard {
			victims = append(guardsOf(pid), pid) // a guard that was killed is not started again
		}
		for _, victim := range victims {
			if err := syscall.Kill(victim, syscall.SIGKILL); err != nil && !(victim != pid && errors.Is(err, syscall.ESRCH)) {
				return nil, fmt.Errorf("kill process %d: %w", victim, err)
			}
		}
		killed = append(killed, victims...)
	}
	if len(killed) == 0 {
		return nil, fmt.Errorf("no process %q runs in container %q", *name, *container)
	}
	return killed, nil
}

// guardsOf are the guards that an injector has started. They are in no container's
// cgroup, so that what ends the injector's does not end them.
func guardsOf(injector int) []int {
	var guards []int
	for _, pid := range processes() {
		line, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		status, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
		if strings.HasPrefix(string(line), v1beta1.GuardName+"\x00") && strings.Contains(string(status), fmt.Sprintf("\nPPid:\t%d\n", injector)) {
			guards = append(guards, pid)
		}
	}
	return guards
}

func parse(command string, args []string) (container string, length time.Duration, err error) {
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.StringVar(&container, "container", "", "`ID` of a container on this node")
	flags.DurationVar(&length, "for", 2*time.Second, "how long to measure")
	return container, length, flags.Parse(args)
}

// firstProcess is the process of a container that is number 1 inside it, or the
// one with the lowest number if it shares the process namespace of others.
func firstProcess(id string) (int, error) {
	lowest := 0
	for _, pid := range processes() {
		cgroups, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cgroup"))
		if err != nil || !strings.Contains(string(cgroups), id) {
			continue
		}
		if lowest == 0 || pid < lowest {
			lowest = pid
		}
		status, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
		for line := range strings.Lines(string(status)) {
			if fields := strings.Fields(line); fields[0] == "NSpid:" && len(fields) > 2 && fields[len(fields)-1] == "1" {
				return pid, nil
			}
		}
	}
	if lowest == 0 {
		return 0, fmt.Errorf("no process of container %q runs on this node", id)
	}
	return lowest, nil
}

func processes() []int {
	entries, _ := os.ReadDir("/proc")
	var pids []int
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
