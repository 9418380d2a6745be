package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/squall-chaos/squall/hack/cluster"
	"github.com/squall-chaos/squall/hack/debian"
	"github.com/squall-chaos/squall/hack/pki"
	"github.com/squall-chaos/squall/hack/supervise"
	"github.com/squall-chaos/squall/hack/toolchain"
)

// freeForCluster is the room that a cluster needs to start, in bytes.
const freeForCluster = 2 << 30

// wishes are the flags of up. Zero means: as it was, or the default.
type wishes struct{ nodes, virtual, apiPort, temporalPort, uiPort int }

func up(ctx context.Context, args []string) error {
	flags, dir := flagSet("up", "")
	var w wishes
	flags.IntVar(&w.nodes, "nodes", 0, "`number` of nodes, 1 to 9 (default: as before, at first 1)")
	flags.IntVar(&w.virtual, "virtual", 0, "`number` of the first node that is a virtual machine, as those above it are (default: as before, at first none)")
	flags.IntVar(&w.apiPort, "api-port", 0, "`port` of the API server on 127.0.0.1 (default: as before, at first 6443)")
	flags.IntVar(&w.temporalPort, "temporal-port", 0, "`port` of Temporal on 127.0.0.1 (default: as before, at first 7233)")
	flags.IntVar(&w.uiPort, "ui-port", 0, "`port` of Temporal's web interface on 127.0.0.1 (default: as before, at first 8233)")
	if _, err := parse(flags, args, 0, 0); err != nil {
		return err
	}
	if w.nodes < 0 || w.nodes > cluster.MaxNodes {
		fmt.Fprintf(os.Stderr, "devcluster: --nodes %d: want 1 to %d\n", w.nodes, cluster.MaxNodes)
		return errUsage
	}
	if err := needHost(); err != nil {
		return err
	}
	s := newSteps()
	kernel, err := w.kernel(ctx, s, *dir)
	if err != nil {
		return err
	}
	if err := debian.Install(ctx, s.logf, debian.ForCluster...); err != nil {
		return err
	}
	programs, err := buildAll(ctx, s)
	if err != nil {
		return err
	}
	lock, err := cluster.Lock(filepath.Join(*dir, "command.lock"), true)
	if err != nil {
		return err
	}
	defer lock.Close()
	return start(ctx, s, *dir, w, programs, kernel)
}

// start brings the cluster of a directory up, whatever state it is in. The
// caller holds the command lock.
func start(ctx context.Context, s steps, dir string, w wishes, programs map[string]string, kernel string) error {
	c, err := plan(dir)
	if err != nil {
		return err
	}
	if kernel != "" {
		if err := buildGuest(ctx, c); err != nil {
			return err
		}
	}
	began := time.Time{} // already running: a node that was ready is ready
	if c.Supervisor() != 0 {
		if err := w.agree(c); err != nil {
			return err
		}
		s.logf("the cluster is running")
		if err := grow(c, w, kernel); err != nil {
			return err
		}
	} else {
		w.apply(c)
		c.Programs, c.Kernel = programs, kernel
		if began, err = launch(s, c); err != nil {
			return err
		}
	}
	if err := settle(ctx, s, c, began); err != nil {
		return err
	}
	s.logf("ready: %d nodes, API server %s, Temporal 127.0.0.1:%d, its web interface http://127.0.0.1:%d", c.Nodes, c.HostURL(), c.TemporalPort, c.UIPort)
	s.logf("set -a; . %s; set +a", c.Path("env"))
	return nil
}

// plan is what the directory holds, or a new plan.
func plan(dir string) (*cluster.Cluster, error) {
	c, err := cluster.Load(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	taken, err := supervise.Routed()
	if err != nil {
		return nil, err
	}
	return cluster.New(dir, taken)
}

// agree returns an error if a running cluster is not as wished and cannot
// become so by more nodes.
func (w wishes) agree(c *cluster.Cluster) error {
	if w.nodes != 0 && w.nodes < c.Nodes || differs(w.virtual, c.Virtual) && (c.Virtual != 0 || w.virtual <= c.Nodes) || differs(w.apiPort, c.APIPort) || differs(w.temporalPort, c.TemporalPort) || differs(w.uiPort, c.UIPort) {
		return fmt.Errorf("the cluster runs with %d nodes and ports %d, %d, %d; run devcluster down first to change that",
			c.Nodes, c.APIPort, c.TemporalPort, c.UIPort)
	}
	return nil
}

// grow asks the supervisor of a running cluster for so many nodes. It is asked
// also when the plan has them already: an earlier up may have been interrupted.
func grow(c *cluster.Cluster, w wishes, kernel string) error {
	if w.nodes == 0 {
		return nil
	}
	supervisor := c.Supervisor()
	if supervisor <= 0 { // a signal to -1 would go to every process
		return errors.New("the supervisor is starting or has just died; run devcluster up again")
	}
	c.Nodes, c.Virtual, c.Kernel = w.nodes, max(c.Virtual, w.virtual), kernel
	if err := writeAccess(c); err != nil {
		return err
	}
	if err := syscall.Kill(supervisor, syscall.SIGHUP); err != nil {
		return fmt.Errorf("ask the supervisor for %d nodes: %w", w.nodes, err)
	}
	return nil
}

func differs(wish, is int) bool { return wish != 0 && wish != is }

func (w wishes) apply(c *cluster.Cluster) {
	for _, set := range []struct {
		to   *int
		wish int
	}{{&c.Nodes, w.nodes}, {&c.Virtual, w.virtual}, {&c.APIPort, w.apiPort}, {&c.TemporalPort, w.temporalPort}, {&c.UIPort, w.uiPort}} {
		if set.wish != 0 {
			*set.to = set.wish
		}
	}
}

// launch starts the supervisor after cleaning what a dead one left. It returns
// the moment from which on everything is new.
func launch(s steps, c *cluster.Cluster) (time.Time, error) {
	var never time.Time
	if err := toolchain.CheckSpace(c.Dir, freeForCluster); err != nil {
		return never, err
	}
	// Others only try the lock to see whether a supervisor lives, so this wait is short.
	lock, err := cluster.Lock(c.SupervisorLock(), true)
	if err != nil {
		return never, err
	}
	defer lock.Close()
	if err := lock.Truncate(0); err != nil { // another process may have the number of a dead supervisor
		return never, fmt.Errorf("clear %s: %w", c.SupervisorLock(), err)
	}
	if err := supervise.Clean(c); err != nil {
		return never, err
	}
	if err := checkFree(c); err != nil {
		return never, err
	}
	if err := pki.Ensure(c); err != nil {
		return never, err
	}
	if err := writeAccess(c); err != nil {
		return never, err
	}
	began := time.Now()
	if err := startSupervisor(c, lock); err != nil {
		return never, err
	}
	s.logf("machines started: control plane and %d nodes, Temporal", c.Nodes)
	return began, nil
}

// checkFree returns an error if a port or an address range of the plan is in use.
func checkFree(c *cluster.Cluster) error {
	for _, p := range []struct {
		port int
		flag string
	}{{c.APIPort, "--api-port"}, {c.TemporalPort, "--temporal-port"}, {c.UIPort, "--ui-port"}} {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p.port))
		if err != nil {
			return fmt.Errorf("port 127.0.0.1:%d is taken; end what listens there or choose another by %s", p.port, p.flag)
		}
		listener.Close()
	}
	taken, err := supervise.Routed()
	if err != nil {
		return err
	}
	for _, own := range []netip.Prefix{c.Links, c.Pods} {
		if other := cluster.Overlapping(taken, own); other.IsValid() {
			return fmt.Errorf("the host routes %s, which overlaps the cluster's %s; devcluster down --wipe lets it choose another", other, own)
		}
	}
	return nil
}

// writeAccess writes what people and scripts use, and the plan.
func writeAccess(c *cluster.Cluster) error {
	admin, err := pki.Admin(c)
	if err != nil {
		return fmt.Errorf("read the administrator's certificate: %w", err)
	}
	if err := cluster.WriteFile(c.Path("kubeconfig"), admin.Kubeconfig(), 0o600); err != nil {
		return err
	}
	if err := cluster.WriteFile(c.Path("env"), c.Env(), 0o644); err != nil {
		return err
	}
	if err := linkPrograms(c); err != nil {
		return err
	}
	return c.Save()
}

// linkPrograms fills the directory bin with links to all programs.
func linkPrograms(c *cluster.Cluster) error {
	bin := c.Path("bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return fmt.Errorf("link the programs: %w", err)
	}
	for _, dir := range c.Programs {
		programs, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			return fmt.Errorf("link the programs: %w", err)
		}
		for _, program := range programs {
			link := filepath.Join(bin, filepath.Base(program))
			if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("link the programs: %w", err)
			}
			if err := os.Symlink(program, link); err != nil {
				return fmt.Errorf("link the programs: %w", err)
			}
		}
	}
	return nil
}
