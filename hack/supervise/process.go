package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"github.com/squall-chaos/squall/hack/cgroup"
	"github.com/squall-chaos/squall/hack/cluster"
	"github.com/squall-chaos/squall/hack/machine"
)

// Commands that the supervisor's program must offer, because it starts itself
// for them.
const (
	EnterCommand = "machine-enter" // machine.Enter with file 3
	RunCommand   = "machine-run"   // machine.Run
	JoinCommand  = "join"          // Join with the arguments
)

// The main goroutine stays on the first thread. That a process ends with its parent is
// noted of the thread which was forked (PR_SET_PDEATHSIG), and an execve by another
// thread, in Join or machine.Enter, loses it: Temporal outlived a supervisor that way.
func init() { runtime.LockOSThread() }

// process is a machine's first process, or Temporal.
type process struct {
	role string
	pid  int
	spec *os.File // a machine waits here for what it shall be
	err  error    // how it ended
}

// startMachines ends all machines there are and starts all that belong to the
// cluster.
func (s *supervisor) startMachines() error {
	if err := Clean(s.cluster, cluster.ControlPlane, "node"); err != nil {
		return err
	}
	specs := []machine.Spec{machine.ControlPlane(s.cluster)}
	for n := 1; n <= s.cluster.Nodes; n++ {
		if !s.cluster.IsVirtual(n) {
			specs = append(specs, machine.Node(s.cluster, n, s.snapshotter))
		}
	}
	for _, spec := range specs {
		if err := s.clone(spec); err != nil {
			return err
		}
	}
	if err := s.linkControlPlane(); err != nil {
		return err
	}
	for n := 1; n <= s.cluster.Nodes; n++ {
		if s.cluster.IsVirtual(n) {
			continue
		}
		if err := s.linkNode(n); err != nil {
			return err
		}
	}
	if err := s.routeAll(); err != nil {
		return err
	}
	for _, spec := range specs {
		if err := s.release(spec); err != nil {
			return err
		}
	}
	for n := 1; n <= s.cluster.Nodes; n++ {
		if !s.cluster.IsVirtual(n) {
			continue
		}
		if err := s.startVirtual(n); err != nil {
			return err
		}
	}
	return nil
}

// startNode replaces one worker machine.
func (s *supervisor) startNode(role string) error {
	n, err := strconv.Atoi(role[len("node"):])
	if err != nil {
		return fmt.Errorf("start %s: not a node", role)
	}
	if err := cgroup.Sweep(s.cluster.Cgroup(role)); err != nil {
		return err
	}
	if s.cluster.IsVirtual(n) {
		return errors.Join(s.startVirtual(n), s.routeAll())
	}
	spec := machine.Node(s.cluster, n, s.snapshotter)
	if err := s.clone(spec); err != nil {
		return err
	}
	if err := s.linkNode(n); err != nil {
		return err
	}
	if err := s.routeAll(); err != nil {
		return err
	}
	return s.release(spec)
}

// clone makes a machine's first process, which waits for release.
func (s *supervisor) clone(spec machine.Spec) error {
	if err := spec.Prepare(); err != nil {
		return err
	}
	if err := cgroup.Make(spec.Cgroup); err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start %s: %w", spec.Name, err)
	}
	defer r.Close()
	cmd := exec.Command("/proc/self/exe", EnterCommand)
	cmd.Env = []string{}
	cmd.ExtraFiles = []*os.File{r}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: machine.CloneFlags,
		Setsid:     true,
		Pdeathsig:  syscall.SIGKILL,
	}
	p := &process{role: spec.Name, spec: w}
	return s.start(cmd, p, filepath.Join(spec.Logs, "machine.log"))
}

// release sends a machine its spec.
func (s *supervisor) release(spec machine.Spec) error {
	p := s.running[spec.Name]
	defer p.spec.Close()
	if err := json.NewEncoder(p.spec).Encode(spec); err != nil {
		return fmt.Errorf("start %s: %w", spec.Name, err)
	}
	return nil
}

func (s *supervisor) startTemporal() error {
	c := s.cluster
	group := c.Cgroup(Temporal)
	if err := cgroup.Sweep(group); err != nil {
		return err
	}
	if err := cgroup.Make(group); err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe", JoinCommand, group, c.Program("temporal", "temporal"),
		fmt.Sprintf("--address=127.0.0.1:%d", c.TemporalPort),
		fmt.Sprintf("--ui-address=127.0.0.1:%d", c.UIPort),
		"--db="+c.Path("temporal", "temporal.db"), "--retention=840h")
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	return s.start(cmd, &process{role: Temporal}, c.Path("log", "temporal.log"))
}

// Join moves the caller into a control group and becomes the program that the
// further arguments name. It returns only with an error.
func Join(group string, args []string) error {
	if err := cgroup.Join(group); err != nil {
		return err
	}
	return fmt.Errorf("execute %s: %w", args[0], syscall.Exec(args[0], args, os.Environ()))
}

// start runs a command with its output in a log, keeps it as the role's process
// and reports its end.
func (s *supervisor) start(cmd *exec.Cmd, p *process, logPath string) error {
	_ = os.Rename(logPath, logPath+".old") // there is none on the first start
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.role, err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.role, err)
	}
	p.pid = cmd.Process.Pid
	s.running[p.role] = p
	go func() {
		p.err = cmd.Wait()
		s.ended <- p
	}()
	return nil
}
