//go:build linux

package diskpressure

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/mounts"
)

// maxOverlays bounds overlays whose upper directory is on another overlay.
const maxOverlays = 8

// ErrNoDisk means that no disk of this node is below a path, so that there is nothing to
// throttle. Test it with errors.Is.
var ErrNoDisk = errors.New("no disk below the path")

// errNoPath means that the target has no such path.
var errNoPath = errors.New("there is no such path in the target")

// finder finds disks through the files of the kernel.
type finder struct {
	proc string // the directory of processes
	sys  string // the directory of devices
}

// disk returns the whole disk, as major:minor, below a path as the process sees
// it. It returns ErrNoDisk, wrapped, for memory and network filesystems.
func (f finder) disk(pid int, path string) (string, error) {
	for range maxOverlays {
		mount, err := f.mountOf(pid, path)
		if err != nil {
			return "", fmt.Errorf("find the disk below %s: %w", path, err)
		}
		if upper, overlaid := mount.Upper(); overlaid {
			if !filepath.IsAbs(upper) {
				return "", fmt.Errorf("find the disk below %s: the container's root keeps its changes in %q, relative to an unknown directory; name a path on a volume", path, upper)
			}
			// The overlay's directories have the names that its mounter saw.
			pid, path = f.mounter(pid), upper
			continue
		}
		device, err := f.deviceOf(pid, mount)
		if err != nil {
			return "", fmt.Errorf("find the disk below %s: %w", path, err)
		}
		return f.whole(device)
	}
	return "", fmt.Errorf("find the disk below %s: more than %d overlays on top of each other", path, maxOverlays)
}

// mountOf finds the mount of path, as the process sees it. The kernel resolves the path
// below the process's root and returns the mount's number, so that links and mounts over
// mounts are as the process has them.
func (f finder) mountOf(pid int, path string) (mounts.Mount, error) {
	root, err := unix.Open(filepath.Join(f.proc, strconv.Itoa(pid), "root"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return mounts.Mount{}, fmt.Errorf("enter the root of process %d: %w", pid, err)
	}
	defer unix.Close(root)
	fd, err := unix.Openat2(root, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return mounts.Mount{}, errNoPath
	}
	if err != nil {
		return mounts.Mount{}, fmt.Errorf("look up the path in the target: %w", err)
	}
	defer unix.Close(fd)
	info, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return mounts.Mount{}, fmt.Errorf("find the mount: %w", err)
	}
	table, err := os.ReadFile(filepath.Join(f.proc, strconv.Itoa(pid), "mountinfo"))
	if err != nil {
		return mounts.Mount{}, fmt.Errorf("find the mount: %w", err)
	}
	return mounts.Find(string(table), mounts.ID(string(info)))
}

// mounter returns a process that sees the node like the maker of the container: the first
// process's parent, which is the runtime's shim, or the node's first process if the parent
// is unknown.
func (f finder) mounter(pid int) int {
	status, _ := os.ReadFile(filepath.Join(f.proc, strconv.Itoa(pid), "status"))
	for line := range strings.Lines(string(status)) {
		if parent, found := strings.CutPrefix(line, "PPid:"); found {
			number, _ := strconv.Atoi(strings.TrimSpace(parent))
			return max(number, 1)
		}
	}
	return 1
}

// deviceOf returns the block device of a mount that pid sees, possibly a partition.
func (f finder) deviceOf(pid int, m mounts.Mount) (string, error) {
	if !strings.HasPrefix(m.Device, "0:") {
		return m.Device, nil
	}
	// Some filesystems on disks, such as btrfs, number their mounts themselves.
	var stat unix.Stat_t
	source := filepath.Join(f.proc, strconv.Itoa(f.mounter(pid)), "root", m.Source)
	if filepath.IsAbs(m.Source) && unix.Stat(source, &stat) == nil && stat.Mode&unix.S_IFMT == unix.S_IFBLK {
		return fmt.Sprintf("%d:%d", unix.Major(stat.Rdev), unix.Minor(stat.Rdev)), nil
	}
	return "", fmt.Errorf("%w: %s has the type %s, without a disk on this node; name a path on an emptyDir or persistent volume",
		ErrNoDisk, m.Point, m.Kind)
}

// whole returns the disk of a partition; the kernel throttles whole disks only. Any other
// device, a device mapper's too, is its own.
func (f finder) whole(device string) (string, error) {
	// filepath.Join would resolve "..", which must follow the link first.
	dir := f.sys + "/dev/block/" + device
	if _, err := os.Stat(dir); err != nil {
		return "", fmt.Errorf("find disk %s: %w", device, err)
	}
	if _, err := os.Stat(dir + "/partition"); errors.Is(err, fs.ErrNotExist) {
		return device, nil
	}
	disk, err := os.ReadFile(dir + "/../dev")
	if err != nil {
		return "", fmt.Errorf("find the disk of partition %s: %w", device, err)
	}
	return strings.TrimSpace(string(disk)), nil
}
