//go:build linux

package diskpressure

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/target"
)

// throttleDir returns the cgroup directory with the disk limits.
func throttleDir(cgroups target.Cgroups) (dir string, v2 bool, err error) {
	if _, found := cgroups.V1["blkio"]; found {
		return cgroups.Dir("blkio")
	}
	dir, v2, err = cgroups.Dir("io")
	if err != nil {
		return "", false, fmt.Errorf("disk limits need the controller blkio (version 1) or io (version 2; \"+io\" in cgroup.subtree_control of every cgroup above): %w", err)
	}
	return dir, v2, nil
}

// podsDir returns the cgroup that holds all pods of the node.
func podsDir(node target.Cgroups) (string, error) {
	if _, found := node.V1["blkio"]; found {
		return "", errors.New("disk pressure at node level needs cgroup version 2, because version 1 has no limit for a whole node; use level pod")
	}
	if node.Unified == "" {
		return "", fmt.Errorf("find the cgroup of all pods: %s", node.Problem)
	}
	// The node's first process is in the root, or in systemd's own cgroup.
	for _, root := range []string{node.Unified, filepath.Dir(node.Unified)} {
		for _, name := range []string{"kubepods.slice", "kubepods"} {
			dir := filepath.Join(root, name)
			if _, err := os.Stat(filepath.Join(dir, "io.max")); err == nil {
				return dir, nil
			}
		}
	}
	return "", fmt.Errorf("disk pressure at node level needs the cgroup of all pods: kubepods.slice or kubepods, with an io.max, below %s; use level pod", node.Unified)
}

// checkLeast refuses limits with which a target would stop. The API server refuses them
// too, but may have accepted older disruptions.
func checkLeast(asked v1beta1.DiskPressureThrottling, level v1beta1.Level) error {
	if limit, low := asked.TooLow(level); low {
		return fmt.Errorf("throttling.%s is %d: want at least %d at level %s, below that a target stands still", limit.Field, limit.Value, limit.Least, level)
	}
	return nil
}

// readLimit and writeLimit access a limit by its name in the journal.
func readLimit(object string) (string, error) {
	l, err := parseObject(object)
	if err != nil {
		return "", err
	}
	file, err := openLimit(l.file, os.O_RDONLY)
	if err != nil {
		return "", fmt.Errorf("read the limit: %w", err)
	}
	defer file.Close()
	content, err := io.ReadAll(file)
	if err != nil {
		return "", fmt.Errorf("read the limit: %w", err)
	}
	return l.find(string(content)), nil
}

func writeLimit(object, value string) error {
	l, err := parseObject(object)
	if err != nil {
		return err
	}
	// Without O_CREATE, a removed cgroup is an error.
	file, err := openLimit(l.file, os.O_WRONLY)
	if err != nil {
		return fmt.Errorf("write the limit: %w", err)
	}
	defer file.Close()
	if _, err := file.WriteString(l.line(value)); err != nil {
		return fmt.Errorf("write %q into %s: %w", l.line(value), l.file, err)
	}
	return nil
}

// openLimit opens disk limits only. Root writes to the path in a journal, so a forged
// journal reaches no more than a cgroup's limit.
func openLimit(path string, how int) (*os.File, error) {
	if name := filepath.Base(path); name != "io.max" && !strings.HasPrefix(name, "blkio.throttle.") {
		return nil, fmt.Errorf("%s is no disk limit: want io.max or blkio.throttle.* of a cgroup", path)
	}
	file, err := os.OpenFile(path, how|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &fs); err != nil {
		file.Close()
		return nil, fmt.Errorf("look where %s lies: %w", path, err)
	}
	if fs.Type != unix.CGROUP2_SUPER_MAGIC && fs.Type != unix.CGROUP_SUPER_MAGIC {
		file.Close()
		return nil, fmt.Errorf("%s is in no cgroup: it is left as it is", path)
	}
	return file, nil
}
