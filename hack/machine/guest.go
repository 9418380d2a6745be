package machine

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/squall-chaos/squall/hack/cgroup"
	"github.com/squall-chaos/squall/hack/vm"
)

// Guest is what the first process of a virtual machine has to do before it is
// like that of any other.
type Guest struct {
	Early   []string // files of modules in the archive that it starts with
	Modules []string // files of modules on the host, in this order
	Links   []string // commands of iproute2
}

// How a virtual machine sees what is not its own.
const (
	HostTag  = "host" // the host's files, read only
	LogsTag  = "logs" // the directory of its logs
	hostDir  = "/host"
	logsDir  = "/logs"
	diskDir  = "/disk"
	disk     = "/dev/vda"
	guestDir = "/machine" // where the root is built
	// NewRoot is an empty directory of that archive.
	NewRoot = "/new"
	// SpecFile is the name of its Spec in the archive that it starts with, and
	// GuestProgram that of its first process.
	SpecFile     = "spec.json"
	GuestProgram = "init"
)

// IsGuest reports whether this is the first process of a virtual machine.
func IsGuest() bool {
	if os.Getpid() != 1 {
		return false
	}
	_, err := os.Stat("/" + SpecFile)
	return err == nil
}

// Boot is Run of a virtual machine. It returns only with an error.
func Boot() error {
	data, err := os.ReadFile("/" + SpecFile)
	if err != nil {
		return fmt.Errorf("read what machine to be: %w", err)
	}
	var s Spec
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("read what machine to be: %w", err)
	}
	if err := vm.Load(s.Guest.Early); err != nil {
		return err
	}
	if err := mountGuest(); err != nil {
		return err
	}
	if err := vm.Load(s.Guest.Modules); err != nil {
		return err
	}
	if err := s.Prepare(); err != nil {
		return err
	}
	// The kernel's own root group may hold processes beside controllers; a
	// machine with a service manager has none there either.
	if err := cgroup.Delegate(""); err != nil {
		return err
	}
	return s.run()
}

// guestMounts are what the first process mounts itself, in this order.
var guestMounts = []struct {
	source, at, kind string
	flags            uintptr
	options          string
}{
	{"proc", "/proc", "proc", plain, ""},
	{"sysfs", "/sys", "sysfs", plain, ""},
	{"devtmpfs", "/dev", "devtmpfs", syscall.MS_NOSUID, ""},
	{"cgroup2", "/sys/fs/cgroup", "cgroup2", plain, ""},
	{HostTag, hostDir, "9p", syscall.MS_RDONLY, share + "loose"},
	{LogsTag, logsDir, "9p", 0, share + "none"},
	{disk, diskDir, "ext4", 0, ""},
}

const (
	plain = syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC
	share = "trans=virtio,version=9p2000.L,msize=512000,cache="
)

// mountGuest replaces the archive as root: pivot_root cannot leave it.
func mountGuest() error {
	if err := syscall.Mount("tmpfs", NewRoot, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount a root: %w", err)
	}
	if err := os.Chdir(NewRoot); err != nil {
		return err
	}
	if err := syscall.Mount(".", "/", "", syscall.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the root: %w", err)
	}
	if err := syscall.Chroot("."); err != nil {
		return err
	}
	for _, m := range guestMounts {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return err
		}
		if err := syscall.Mount(m.source, m.at, m.kind, m.flags, m.options); err != nil {
			return fmt.Errorf("mount %s at %s: %w", m.source, m.at, err)
		}
	}
	return nil
}

// connect makes the links of a machine's network.
func (g *Guest) connect() error {
	cmd := exec.Command("/usr/sbin/ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(g.Links, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(g.Links, "; "), err, out)
	}
	return nil
}
