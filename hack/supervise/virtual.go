package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/squall-chaos/squall/hack/cgroup"
	"github.com/squall-chaos/squall/hack/cluster"
	"github.com/squall-chaos/squall/hack/machine"
)

// diskSize is what a virtual machine may write; the file has holes.
const diskSize = 8 << 30

// startVirtual starts node n as a virtual machine, whose link is on the bridge. When
// it has panicked or was powered off, QEMU ends, and it is started again like any
// machine that ends.
func (s *supervisor) startVirtual(n int) error {
	c, role := s.cluster, cluster.NodeRole(n)
	dir := c.Path("machines", role)
	err := errors.Join(os.MkdirAll(dir, 0o755), os.MkdirAll(c.Path("log", role), 0o755), ensureDisk(filepath.Join(dir, machine.DiskFile)),
		cgroup.Make(c.Cgroup(role)), cgroup.Weigh(c.Cgroup(role), machine.Processors))
	if err != nil {
		return fmt.Errorf("prepare %s: %w", role, err)
	}
	cp := s.running[cluster.ControlPlane].pid
	_ = ip(cp, "link del "+role) // of a dead machine
	if err := ip(cp, "tuntap add dev "+role+" mode tap", "link set "+role+" master br0 up"); err != nil {
		return err
	}
	qemu, err := machine.QEMU(c, n, dir)
	if err != nil {
		return fmt.Errorf("prepare %s: %w", role, err)
	}
	enter, err := exec.LookPath("nsenter")
	if err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe", append([]string{JoinCommand, c.Cgroup(role), enter, "--net", "--target", strconv.Itoa(cp), "--"}, qemu...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	return s.start(cmd, &process{role: role}, c.Path("log", role, "machine.log"))
}

// ensureDisk makes the disk of a virtual machine, unless it is there: what the
// machine wrote outlives it.
func ensureDisk(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	half := path + ".new"
	file, err := os.Create(half)
	if err != nil {
		return err
	}
	if err := errors.Join(file.Truncate(diskSize), file.Close()); err != nil {
		return err
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", half).CombinedOutput(); err != nil {
		return fmt.Errorf("mkfs.ext4: %w: %s", err, out)
	}
	return os.Rename(half, path)
}
