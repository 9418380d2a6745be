// Package supervise is the one process of the development cluster in the host's
// namespaces. It starts the machines and Temporal, connects them, starts again
// what ends, and takes everything with it when it dies.
package supervise

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/squall-chaos/squall/hack/cgroup"
	"github.com/squall-chaos/squall/hack/cluster"
)

// revivePause is how long a machine or Temporal stays dead before it is started
// again. It also bounds what a machine that dies at once can do.
const revivePause = 2 * time.Second

// Temporal is the role of the only process that is not in a machine.
const Temporal = "temporal"

type supervisor struct {
	cluster     *cluster.Cluster
	snapshotter string
	running     map[string]*process // by role
	ended       chan *process
	revive      chan *process
}

// Run starts the cluster and keeps it until SIGTERM or SIGINT; then it ends
// everything and removes what it made on the host. A line "ok" on ready means that
// the machines start and all ports are open. On SIGHUP it starts the nodes that
// the saved plan has more than are running.
func Run(c *cluster.Cluster, ready io.WriteCloser) error {
	runtime.LockOSThread() // the children die with the thread that cloned them
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	replanned := make(chan os.Signal, 1)
	signal.Notify(replanned, syscall.SIGHUP)
	s := &supervisor{
		cluster:     c,
		snapshotter: snapshotter(c.Dir),
		running:     map[string]*process{},
		ended:       make(chan *process),
		revive:      make(chan *process),
	}
	if err := s.begin(); err != nil {
		s.end()
		return err
	}
	fmt.Fprintln(ready, "ok")
	ready.Close()
	s.loop(signals, replanned)
	return s.end()
}

func (s *supervisor) begin() error {
	if err := cgroup.Make(s.cluster.Cgroup("supervisor")); err != nil {
		return err
	}
	if err := cgroup.Join(s.cluster.Cgroup("supervisor")); err != nil {
		return err
	}
	if err := s.startMachines(); err != nil {
		return err
	}
	if err := s.startTemporal(); err != nil {
		return err
	}
	return s.forwardAll()
}

// loop starts again what ends. It alone clones, on the locked thread.
func (s *supervisor) loop(signals, replanned <-chan os.Signal) {
	for {
		select {
		case <-signals:
			return
		case <-replanned:
			if err := s.grow(); err != nil {
				fmt.Printf("%s add nodes: %v\n", time.Now().Format(time.TimeOnly), err)
			}
		case p := <-s.ended:
			if s.running[p.role] != p {
				continue // replaced on purpose
			}
			fmt.Printf("%s %s ended: %v\n", time.Now().Format(time.TimeOnly), p.role, p.err)
			time.AfterFunc(revivePause, func() { s.revive <- p })
		case p := <-s.revive:
			if s.running[p.role] != p {
				continue
			}
			if err := s.startAgain(p.role); err != nil {
				fmt.Printf("%s start %s again: %v\n", time.Now().Format(time.TimeOnly), p.role, err)
				for _, half := range s.running {
					half.spec.Close() // a machine that still waits for its spec ends
				}
				s.running[p.role] = p
				time.AfterFunc(revivePause, func() { s.revive <- p })
			}
		}
	}
}

// grow starts the nodes that the saved plan has more than are running. It forgets
// a node that cannot be started until the next request.
func (s *supervisor) grow() error {
	saved, err := cluster.Load(s.cluster.Dir)
	if err != nil {
		return err
	}
	s.cluster.Virtual, s.cluster.Kernel = saved.Virtual, saved.Kernel
	for s.cluster.Nodes < saved.Nodes {
		s.cluster.Nodes++
		role := cluster.NodeRole(s.cluster.Nodes)
		if err := s.startNode(role); err != nil {
			s.cluster.Nodes--
			delete(s.running, role)
			return errors.Join(err, cgroup.Sweep(s.cluster.Cgroup(role)))
		}
		fmt.Printf("%s %s added\n", time.Now().Format(time.TimeOnly), role)
	}
	return nil
}

// startAgain replaces what ended. Without the control plane's machine there is
// no bridge, so then all machines are replaced.
func (s *supervisor) startAgain(role string) error {
	switch role {
	case Temporal:
		return s.startTemporal()
	case cluster.ControlPlane:
		return s.startMachines()
	default:
		return s.startNode(role)
	}
}

// end removes everything but the supervisor itself. It is idempotent.
func (s *supervisor) end() error {
	s.running = map[string]*process{}
	go func() {
		for range s.ended { // let them be reaped
		}
	}()
	if err := Clean(s.cluster, cluster.ControlPlane, "node", Temporal); err != nil {
		return err
	}
	if err := cgroup.Leave(); err != nil {
		return err
	}
	return cgroup.Sweep(s.cluster.Cgroup("supervisor"))
}

// Clean ends what runs in the given roles of a cluster and removes their
// cgroups and the host's network device. It needs no memory of a start and is
// idempotent. No role means all, the supervisor too.
func Clean(c *cluster.Cluster, roles ...string) error {
	if len(roles) == 0 {
		roles = []string{""}
	}
	for _, role := range roles {
		if err := cgroup.Sweep(c.Cgroup(role)); err != nil {
			return err
		}
	}
	return removeLink(c.HostLink())
}

// snapshotter names containerd's way to lay images over each other: an overlay
// cannot have its upper layer on another overlay.
func snapshotter(dir string) string {
	const overlayMagic = 0x794c7630
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err == nil && stat.Type == overlayMagic {
		return "native"
	}
	return "overlayfs"
}
