// Package cgroup makes, enters and removes the control groups of the
// development cluster, in every hierarchy that the machine has mounted. All
// that it kills or removes it finds by the name of the group, so it needs no
// pid files and cannot meet the wrong process.
package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Hierarchy is one mounted tree of control groups.
type Hierarchy struct {
	Path    string // mount point, such as /sys/fs/cgroup/memory
	Unified bool   // cgroup v2
	Options string // what a further mount of a v1 hierarchy names: "memory" or "none,name=systemd"
}

// Hierarchies reads the trees of this process's mount namespace.
func Hierarchies() ([]Hierarchy, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list cgroup hierarchies: %w", err)
	}
	found := parse(string(mounts))
	if len(found) == 0 {
		return nil, fmt.Errorf("no cgroup hierarchy is mounted; mount one at /sys/fs/cgroup")
	}
	return found, nil
}

// OnlyUnified reports whether cgroup v2 is all there is, so that it has the
// controllers.
func OnlyUnified(hierarchies []Hierarchy) bool {
	return !slices.ContainsFunc(hierarchies, func(h Hierarchy) bool { return !h.Unified })
}

// parse takes the hierarchies out of a mountinfo file. Of several mounts of one
// hierarchy the first below /sys/fs/cgroup counts.
func parse(mountinfo string) []Hierarchy {
	var found []Hierarchy
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(strings.TrimSpace(line), " - ")
		place, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(place) < 5 || len(kind) < 3 || !strings.HasPrefix(place[4], "/sys/fs/cgroup") {
			continue
		}
		h := Hierarchy{Path: place[4], Unified: kind[0] == "cgroup2"}
		if kind[0] == "cgroup" {
			h.Options = mountOptions(kind[2])
		} else if !h.Unified {
			continue
		}
		known := func(other Hierarchy) bool { return other.Unified == h.Unified && other.Options == h.Options }
		if !slices.ContainsFunc(found, known) {
			found = append(found, h)
		}
	}
	return found
}

// mountOptions turns the super block options of a v1 hierarchy, such as
// "rw,cpu,cpuacct" or "rw,xattr,name=systemd", into those of a further mount.
func mountOptions(super string) string {
	var controllers, name []string
	for option := range strings.SplitSeq(super, ",") {
		switch {
		case strings.HasPrefix(option, "name="):
			name = []string{"none", option}
		case slices.Contains([]string{"rw", "ro", "xattr", "clone_children", "noprefix"}, option),
			strings.HasPrefix(option, "release_agent="):
		default:
			controllers = append(controllers, option)
		}
	}
	if len(controllers) > 0 {
		return strings.Join(controllers, ",")
	}
	return strings.Join(name, ",")
}

// Make creates the group in every hierarchy. It is idempotent.
func Make(name string) error {
	hierarchies, err := Hierarchies()
	if err != nil {
		return err
	}
	for _, h := range hierarchies {
		if OnlyUnified(hierarchies) {
			enableControllers(h.Path)
		}
		dir := filepath.Join(h.Path, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make cgroup: %w", err)
		}
		// A v1 cpuset without these takes no process at all.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(h.Path, file))
			if h.Unified || err != nil {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, file), value, 0); err != nil {
				return fmt.Errorf("fill in %s of cgroup %s: %w", file, name, err)
			}
		}
	}
	return nil
}

// Weigh gives a group as much of busy processors as so many processes have that
// are in none. A group has as much as one otherwise, whatever is in it.
func Weigh(name string, processes int) error {
	hierarchies, err := Hierarchies()
	if err != nil {
		return err
	}
	for _, h := range hierarchies {
		dir := filepath.Join(h.Path, name)
		for file, one := range map[string]int{"cpu.shares": 1024, "cpu.weight": 100} {
			if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
				continue // of another controller, or another version
			}
			if err := os.WriteFile(filepath.Join(dir, file), []byte(strconv.Itoa(one*processes)), 0); err != nil {
				return fmt.Errorf("weigh cgroup %s: %w", name, err)
			}
		}
	}
	return nil
}

// Join moves the calling process into the group, in every hierarchy.
func Join(name string) error {
	hierarchies, err := Hierarchies()
	if err != nil {
		return err
	}
	for _, h := range hierarchies {
		if err := enter(filepath.Join(h.Path, name)); err != nil {
			return fmt.Errorf("join cgroup %s: %w", name, err)
		}
	}
	return nil
}

// Delegate readies the group that the caller is in, and that is the root of its
// cgroup namespace, to hold others with controllers. On cgroup v2 such a group
// may hold no process, so the caller moves into a leaf. On v1 there is nothing
// to do.
func Delegate(name string) error {
	hierarchies, err := Hierarchies()
	if err != nil || !OnlyUnified(hierarchies) {
		return err
	}
	for _, h := range hierarchies {
		group := filepath.Join(h.Path, name)
		leaf := filepath.Join(group, "init")
		if err := os.MkdirAll(leaf, 0o755); err != nil {
			return fmt.Errorf("make the leaf of cgroup %s: %w", name, err)
		}
		if err := enter(leaf); err != nil {
			return fmt.Errorf("enter the leaf of cgroup %s: %w", name, err)
		}
		enableControllers(group)
	}
	return nil
}

// Leave moves the calling process to the root of every hierarchy.
func Leave() error { return Join("") }

func enter(dir string) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0)
}

// enableControllers hands the controllers of a v2 group on to its children, one
// by one, because one that cannot be enabled spoils the whole line.
func enableControllers(group string) {
	available, err := os.ReadFile(filepath.Join(group, "cgroup.controllers"))
	if err != nil {
		return
	}
	for _, controller := range strings.Fields(string(available)) {
		_ = os.WriteFile(filepath.Join(group, "cgroup.subtree_control"), []byte("+"+controller), 0)
	}
}
