//go:build linux

package memorypressure

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// meminfo describes the whole machine in every mount namespace.
const meminfo = "/proc/meminfo"

// files are the files of a cgroup version with the memory of a cgroup.
type files struct {
	limit, usage string
	inactive     string // the line of memory.stat with the page cache that the kernel frees first
}

var (
	version1 = files{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}
	version2 = files{"memory.max", "memory.current", "inactive_file"}
)

// readLevels reads every bound on the memory of a process in the cgroup dir: the limits of
// that cgroup and of those above it, innermost first, and last the node. It omits a limit
// that is not set, or exceeds the node's memory.
func readLevels(dir string) ([]level, error) {
	node, err := readNode()
	if err != nil {
		return nil, err
	}
	names := version2
	if _, err := os.Stat(filepath.Join(dir, version1.limit)); err == nil {
		names = version1
	}
	var levels []level
	for at := dir; isCgroup(at); at = filepath.Dir(at) {
		limit, err := readLimit(filepath.Join(at, names.limit))
		switch {
		case errors.Is(err, fs.ErrNotExist) && !isCgroup(filepath.Dir(at)):
			continue // the root of version 2 has no limit
		case err != nil:
			return nil, fmt.Errorf("read the memory limit: %w", err)
		case limit >= node.limit:
			continue
		}
		used, err := names.used(at)
		if err != nil {
			return nil, fmt.Errorf("read how much memory is in use: %w", err)
		}
		levels = append(levels, level{name: at, limit: limit, used: used})
	}
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("look for the cgroup: %w", err)
	}
	return append(levels, node), nil
}

func isCgroup(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "cgroup.procs"))
	return err == nil
}

// readLimit reads a limit in bytes; without one it is the largest number.
func readLimit(path string) (int64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	text := strings.TrimSpace(string(data))
	if text == "max" {
		return 1<<63 - 1, nil
	}
	limit, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return int64(limit), nil
}

// used returns the use of a cgroup and those below it, as the kubelet counts it: without
// the page cache that the kernel frees first.
func (f files) used(dir string) (int64, error) {
	usage, err := readLimit(filepath.Join(dir, f.usage))
	if err != nil {
		return 0, err
	}
	stat, err := os.ReadFile(filepath.Join(dir, "memory.stat"))
	if err != nil {
		return 0, err
	}
	inactive, err := field(string(stat), f.inactive)
	if err != nil {
		return 0, fmt.Errorf("%s/memory.stat: %w", dir, err)
	}
	return max(usage-inactive, 0), nil
}

// readNode reads the node's memory and its use.
func readNode() (level, error) {
	data, err := os.ReadFile(meminfo)
	if err != nil {
		return level{}, fmt.Errorf("read the node's memory: %w", err)
	}
	return parseNode(string(data))
}

func parseNode(text string) (level, error) {
	total, errTotal := field(text, "MemTotal:")
	available, errAvailable := field(text, "MemAvailable:")
	if err := errors.Join(errTotal, errAvailable); err != nil {
		return level{}, fmt.Errorf("%s: %w", meminfo, err)
	}
	return level{limit: total << 10, used: (total - available) << 10}, nil
}

// swaps is true if the kernel may move memory of the cgroup to a disk.
func swaps(dir string) (bool, error) {
	data, err := os.ReadFile(meminfo)
	if err != nil {
		return false, fmt.Errorf("read the node's swap: %w", err)
	}
	total, err := field(string(data), "SwapTotal:")
	if err != nil || total == 0 {
		return false, err
	}
	limit, err := readLimit(filepath.Join(dir, "memory.swap.max"))
	return err != nil || limit > 0, nil // version 1 has no such file
}

// field returns the number after a name at the beginning of a line.
func field(text, name string) (int64, error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == name {
			return strconv.ParseInt(fields[1], 10, 64)
		}
	}
	return 0, fmt.Errorf("no line %s", strings.TrimSuffix(name, ":"))
}
