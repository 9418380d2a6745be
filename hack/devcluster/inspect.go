package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/squall-chaos/squall/hack/cgroup"
	"github.com/squall-chaos/squall/hack/cluster"
	"github.com/squall-chaos/squall/hack/machine"
	"github.com/squall-chaos/squall/hack/supervise"
)

// errNotRunning ends commands that need a running cluster.
var errNotRunning = errors.New("the cluster does not run; start it with devcluster up")

// running loads the plan of a cluster that has a supervisor.
func running(dir string) (*cluster.Cluster, error) {
	if err := needHost(); err != nil {
		return nil, err
	}
	c, err := cluster.Load(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNotRunning
	}
	if err != nil {
		return nil, err
	}
	if c.Supervisor() == 0 {
		return nil, errNotRunning
	}
	return c, nil
}

func status(ctx context.Context, args []string) error {
	flags, dir := flagSet("status", "")
	if _, err := parse(flags, args, 0, 0); err != nil {
		return err
	}
	c, err := running(*dir)
	if err != nil {
		return err
	}
	fmt.Printf("supervisor   process %d\n", c.Supervisor())
	fmt.Printf("API server   %s, in the cluster %s\n", c.HostURL(), c.URL())
	fmt.Printf("Temporal     127.0.0.1:%d, for pods %s:%d; web interface http://127.0.0.1:%d\n", c.TemporalPort, c.HostAddr(), c.TemporalPort, c.UIPort)
	fmt.Printf("directory    %s\n", c.Dir)
	api, err := newAPI(c)
	if err != nil {
		return err
	}
	var list nodeList
	if err := api.do(ctx, "GET", "/api/v1/nodes", &list); err != nil {
		return err
	}
	var lost []string
	for name, ready := range list.readyNodes(time.Time{}) {
		fmt.Printf("node         %s ready=%t\n", name, ready)
		if !ready {
			lost = append(lost, name)
		}
	}
	if len(lost) > 0 {
		return fmt.Errorf("not ready: %s", strings.Join(lost, ", "))
	}
	return nil
}

func images(ctx context.Context, args []string) error {
	flags, dir := flagSet("images", "ARCHIVE...")
	archives, err := parse(flags, args, 1, math.MaxInt)
	if err != nil {
		return err
	}
	c, err := running(*dir)
	if err != nil {
		return err
	}
	s := newSteps()
	for n := 1; n <= c.Nodes; n++ {
		load, err := loader(c, n)
		if err != nil {
			return err
		}
		for _, archive := range archives {
			if err := load(ctx, archive); err != nil {
				return fmt.Errorf("load %s into %s: %w", archive, cluster.NodeName(n), err)
			}
			s.logf("%s: loaded %s", cluster.NodeName(n), archive)
		}
	}
	return nil
}

// loader loads an archive into node n.
func loader(c *cluster.Cluster, n int) (func(context.Context, string) error, error) {
	role := cluster.NodeRole(n)
	if c.IsVirtual(n) {
		return func(ctx context.Context, archive string) error {
			ctx, cancel := context.WithTimeout(ctx, virtualPatience)
			defer cancel()
			archive, err := filepath.Abs(archive)
			if err != nil {
				return err
			}
			return machine.Ask(ctx, c.Path("log", role), archive)
		}, nil
	}
	first := cgroup.Init(c.Cgroup(role))
	if first == 0 {
		return nil, fmt.Errorf("%s is down; try again when devcluster status shows it", cluster.NodeName(n))
	}
	return func(ctx context.Context, archive string) error { return importInto(ctx, first, archive) }, nil
}

// importInto loads an archive by the client of a node's own containerd, run
// inside the node.
func importInto(ctx context.Context, first int, archive string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	args := append([]string{"--target", strconv.Itoa(first), "--mount", "--pid", "--net", "--"}, machine.ImportCommand("-")...)
	cmd := exec.CommandContext(ctx, "nsenter", args...)
	cmd.Stdin = f
	cmd.Dir = "/"
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// node does to a node what its hardware might.
func node(_ context.Context, args []string) error {
	flags, dir := flagSet("node", "crash|freeze|thaw|cut|join|pid N")
	arguments, err := parse(flags, args, 2, 2)
	if err != nil {
		return err
	}
	c, err := running(*dir)
	if err != nil {
		return err
	}
	n, err := nodeNumber(c, arguments[1])
	if err != nil {
		return err
	}
	role := cluster.NodeRole(n)
	group := c.Cgroup(role)
	switch arguments[0] {
	case "cut":
		return supervise.Cut(c, role)
	case "join":
		return supervise.Rejoin(c, role)
	case "crash", "pid":
	default:
		return hang(group, arguments[0])
	}
	if c.IsVirtual(n) && arguments[0] == "crash" {
		return cgroup.Kill(group)
	}
	if c.IsVirtual(n) {
		return errNotHere
	}
	first := cgroup.Init(group)
	if first == 0 {
		return fmt.Errorf("%s is down", role)
	}
	if arguments[0] == "pid" { // for nsenter, and for /proc/PID/root
		fmt.Println(first)
		return nil
	}
	return syscall.Kill(first, syscall.SIGKILL)
}

// temporal does to Temporal what its machine might. Crashed it comes back after
// two seconds, with all it stored; to keep it away, freeze it.
func temporal(_ context.Context, args []string) error {
	flags, dir := flagSet("temporal", "crash|freeze|thaw")
	arguments, err := parse(flags, args, 1, 1)
	if err != nil {
		return err
	}
	c, err := running(*dir)
	if err != nil {
		return err
	}
	group := c.Cgroup(supervise.Temporal)
	if arguments[0] != "crash" {
		return hang(group, arguments[0])
	}
	return cgroup.Kill(group)
}

// hang stops all in a group, or lets it go on.
func hang(group, action string) error {
	switch action {
	case "freeze":
		return cgroup.Freeze(group)
	case "thaw":
		return cgroup.Thaw(group)
	}
	return fmt.Errorf("action %q: want crash, freeze or thaw", action)
}
