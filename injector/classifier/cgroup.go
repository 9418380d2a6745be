//go:build linux

package classifier

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Cgroups are cgroup-v2 directories whose sockets' packets are judged, each with all below
// it. The kernel gets the directories themselves, so it does not matter how much of the
// hierarchy above them is visible.
type Cgroups struct {
	array *ebpf.Map
	count int
}

// OpenCgroups passes directories of cgroup v2 to the kernel. Call Close once the programs
// that use them are loaded.
func OpenCgroups(dirs []string) (*Cgroups, error) {
	array, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: "squall_cgroups", Type: ebpf.CGroupArray, KeySize: 4, ValueSize: 4, MaxEntries: uint32(max(len(dirs), 1)),
	})
	if err != nil {
		return nil, fmt.Errorf("make a map for cgroups: %w", err)
	}
	c := &Cgroups{array, len(dirs)}
	for at, dir := range dirs {
		if err := c.put(uint32(at), dir); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

func (c *Cgroups) put(at uint32, dir string) error {
	if err := CheckCgroup(dir); err != nil {
		return err
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open cgroup %s: %w", dir, err)
	}
	defer unix.Close(fd)
	if err := c.array.Put(at, uint32(fd)); err != nil {
		return fmt.Errorf("hand cgroup %s to the kernel: %w", dir, err)
	}
	return nil
}

// Close is safe on nil.
func (c *Cgroups) Close() {
	if c != nil {
		c.array.Close()
	}
}

// CheckCgroup returns an error if a directory cannot identify its processes' packets.
func CheckCgroup(dir string) error {
	if dir == "" {
		return fmt.Errorf("it has no cgroup of version 2")
	}
	if isV2, err := isCgroup2(dir); err != nil || !isV2 {
		return fmt.Errorf("%s is no cgroup of version 2 (%v)", dir, err)
	}
	if above, _ := isCgroup2(filepath.Dir(dir)); !above {
		return fmt.Errorf("its cgroup of version 2 is the node's root, %s", dir)
	}
	return nil
}

func isCgroup2(dir string) (bool, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return false, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return stat.Type == unix.CGROUP2_SUPER_MAGIC, nil
}
