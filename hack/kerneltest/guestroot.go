package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// tempDir is in memory in the guest. It is not /tmp, where the tests may lie.
const tempDir = "/run/kerneltest"

// mount is a file system of the guest. It may be missing where the kernel has no
// such type.
type mount struct {
	kind, at, options string
	optional          bool
}

var mounts = []mount{
	{kind: "proc", at: "/proc"},
	{kind: "sysfs", at: "/sys"},
	{kind: "devtmpfs", at: "/dev"},
	{kind: "devpts", at: "/dev/pts", options: "ptmxmode=0666"},
	{kind: "tmpfs", at: "/dev/shm"},
	{kind: "tmpfs", at: "/run"},
	{kind: "tmpfs", at: tempDir},
	{kind: "bpf", at: "/sys/fs/bpf", optional: true},
	{kind: "securityfs", at: "/sys/kernel/security", optional: true},
	{kind: "tracefs", at: "/sys/kernel/tracing", optional: true},
	{kind: "cgroup2", at: "/sys/fs/cgroup"},
}

// How a virtual computer sees the files of the machine that runs it.
const (
	shareTag  = "host"
	sharedDir = "shared" // in the archive that it starts with
)

// mountShared mounts the files of the machine that runs this one, read only.
func mountShared() (string, error) {
	const options = "trans=virtio,version=9p2000.L,msize=512000,cache=loose"
	if err := syscall.Mount(shareTag, "/"+sharedDir, "9p", syscall.MS_RDONLY, options); err != nil {
		return "", fmt.Errorf("mount the files of the machine that runs this one: %w", err)
	}
	return "/" + sharedDir, nil
}

// makeRoot has this process, and all it starts, see the files below lower, and
// write to memory instead. The new root is moved onto the old one: after a chroot
// alone, a process that enters this mount namespace would see the old one.
func makeRoot(lower string) error {
	const work = "/run" // which every machine has; what is there now is not looked at
	if err := syscall.Mount("tmpfs", work, "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mount a tmpfs: %w", err)
	}
	dirs := map[string]string{}
	for _, name := range []string{"upper", "work", "root"} {
		dirs[name] = filepath.Join(work, name)
		if err := os.Mkdir(dirs[name], 0o755); err != nil {
			return err
		}
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", lower, dirs["upper"], dirs["work"])
	if err := syscall.Mount("overlay", dirs["root"], "overlay", 0, options); err != nil {
		return fmt.Errorf("mount an overlay: %w", err)
	}
	if err := os.Chdir(dirs["root"]); err != nil {
		return err
	}
	if err := syscall.Mount(".", "/", "", syscall.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the overlay to the root: %w", err)
	}
	if err := syscall.Chroot("."); err != nil {
		return err
	}
	for _, m := range mounts {
		if err := os.MkdirAll(m.at, 0o755); err != nil && !m.optional {
			return err
		}
		if err := syscall.Mount(m.kind, m.at, m.kind, 0, m.options); err != nil && !m.optional {
			return fmt.Errorf("mount %s at %s: %w", m.kind, m.at, err)
		}
	}
	return os.Chdir("/")
}
