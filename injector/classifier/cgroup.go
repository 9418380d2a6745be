package classifier

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Cgroup is a cgroup-v2 directory whose sockets' packets are meant.
type Cgroup struct {
	ID uint64
	// Level is the depth of the directory below the root of the hierarchy.
	Level int32
}

// ReadCgroup reads what BPF knows a cgroup by: the ID that its file handle
// holds, and its depth.
func ReadCgroup(dir string) (Cgroup, error) {
	if dir == "" {
		return Cgroup{}, fmt.Errorf("it has no cgroup of version 2")
	}
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, dir, 0)
	if err != nil {
		return Cgroup{}, fmt.Errorf("read the ID of cgroup %s: %w", dir, err)
	}
	if handle.Size() != 8 {
		return Cgroup{}, fmt.Errorf("read the ID of cgroup %s: it has %d bytes, want 8", dir, handle.Size())
	}
	level, err := depth(dir)
	if err != nil {
		return Cgroup{}, err
	}
	if level == 0 {
		return Cgroup{}, fmt.Errorf("its cgroup of version 2 is the node's root, %s", dir)
	}
	return Cgroup{ID: binary.NativeEndian.Uint64(handle.Bytes()), Level: level}, nil
}

// depth counts the cgroups above dir. Only the root of the hierarchy is without
// a cgroup.type, so that a root which is not in sight shows itself.
func depth(dir string) (int32, error) {
	level := int32(0)
	for {
		var stat unix.Statfs_t
		if err := unix.Statfs(dir, &stat); err != nil {
			return 0, fmt.Errorf("look at cgroup %s: %w", dir, err)
		}
		if stat.Type != unix.CGROUP2_SUPER_MAGIC {
			return 0, fmt.Errorf("the root of the node's cgroup hierarchy is not visible above %s", dir)
		}
		if _, err := os.Stat(filepath.Join(dir, "cgroup.type")); err != nil {
			return level, nil
		}
		dir = filepath.Dir(dir)
		level++
	}
}
