//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"
)

const cgroupRoot = "/sys/fs/cgroup"

// settings are the files of both versions of cgroups that limit something.
var settings = []string{
	"cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.shares", "cpuset.cpus", "cpuset.mems", "freezer.state",
	"blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device",
	"blkio.throttle.read_iops_device", "blkio.throttle.write_iops_device",
	"memory.limit_in_bytes", "memory.soft_limit_in_bytes", "pids.max",
	"cpu.max", "cpu.weight", "io.max", "io.weight", "memory.max", "memory.high", "cgroup.freeze",
}

// cgroupSettings adds the limits of a process's cgroups, the cgroups below them
// and the names of the processes in them.
func cgroupSettings(found map[string]string, pid int) error {
	dirs, err := cgroupDirs(pid)
	if err != nil {
		return err
	}
	for controllers, dir := range dirs {
		for _, name := range settings {
			if content, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
				found["cgroup "+controllers+" "+name] = strings.TrimSpace(string(content))
			}
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return fmt.Errorf("list cgroup %s: %w", dir, err)
		}
		for _, entry := range entries {
			if entry.IsDir() {
				found["cgroup "+controllers+" below"] += entry.Name() + " "
			}
		}
		found["cgroup "+controllers+" processes"] = names(dir)
	}
	return nil
}

// cgroupDirs are the directories of a process's cgroups by their controllers.
func cgroupDirs(pid int) (map[string]string, error) {
	content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return nil, fmt.Errorf("read the cgroups of process %d: %w", pid, err)
	}
	dirs := map[string]string{}
	for line := range strings.Lines(string(content)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		mount := fields[1]
		if mount == "" {
			mount = "unified" // the version 2 hierarchy beside those of version 1
			if _, err := os.Stat(filepath.Join(cgroupRoot, mount)); err != nil {
				mount = ""
			}
		}
		dir := filepath.Join(cgroupRoot, strings.TrimPrefix(mount, "name="), fields[2])
		if _, err := os.Stat(dir); err == nil {
			dirs[fields[1]] = dir
		}
	}
	if len(dirs) == 0 {
		return nil, fmt.Errorf("no cgroup of process %d was found below %s", pid, cgroupRoot)
	}
	return dirs, nil
}

// names are those of a cgroup's processes, sorted.
func names(dir string) string {
	content, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	var all []string
	for _, pid := range strings.Fields(string(content)) {
		comm, err := os.ReadFile(filepath.Join("/proc", pid, "comm"))
		if err == nil {
			all = append(all, strings.TrimSpace(string(comm)))
		}
	}
	sort.Strings(all)
	return strings.Join(all, " ")
}

// cpuTime is what the cgroup of a process has taken so far.
func cpuTime(pid int) (time.Duration, error) {
	dirs, err := cgroupDirs(pid)
	if err != nil {
		return 0, err
	}
	for controllers, dir := range dirs {
		if content, err := os.ReadFile(filepath.Join(dir, "cpuacct.usage")); err == nil {
			nanoseconds, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
			return time.Duration(nanoseconds), err
		}
		if content, err := os.ReadFile(filepath.Join(dir, "cpu.stat")); err == nil && controllers == "" {
			for line := range strings.Lines(string(content)) {
				if value, ok := strings.CutPrefix(line, "usage_usec "); ok && dirs["cpuacct"] == "" && dirs["cpu,cpuacct"] == "" {
					microseconds, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
					return time.Duration(microseconds) * time.Microsecond, err
				}
			}
		}
	}
	return 0, fmt.Errorf("the cgroups of process %d do not count processor time", pid)
}

// memoryOf is what is charged to the cgroup of a process, and its limit, in bytes.
func memoryOf(pid int) (map[string]int64, error) {
	dirs, err := cgroupDirs(pid)
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		for _, names := range [][2]string{{"memory.usage_in_bytes", "memory.limit_in_bytes"}, {"memory.current", "memory.max"}} {
			used, errUsed := os.ReadFile(filepath.Join(dir, names[0]))
			limit, errLimit := os.ReadFile(filepath.Join(dir, names[1]))
			if errUsed != nil || errLimit != nil {
				continue
			}
			inUse, errUsed := strconv.ParseInt(strings.TrimSpace(string(used)), 10, 64)
			most, errLimit := strconv.ParseInt(strings.TrimSpace(string(limit)), 10, 64)
			if errUsed != nil || errLimit != nil {
				return nil, fmt.Errorf("cgroup %s: %q of %q are in use", dir, used, limit)
			}
			return map[string]int64{"used": inUse, "limit": most}, nil
		}
	}
	return nil, fmt.Errorf("the cgroups of process %d do not count memory", pid)
}
