//go:build linux

package target

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/cgroups/v3"
	"golang.org/x/sys/unix"
)

// Cgroups are the cgroup directories of one process, as this process sees the
// node's hierarchies below /sys/fs/cgroup.
type Cgroups struct {
	// V1 maps a version 1 controller, such as "cpu" or "blkio", to its directory.
	V1 map[string]string `json:"v1,omitempty"`
	// Unified is the version 2 directory; empty without one. A hybrid node has one too, with
	// few controllers in it.
	Unified string `json:"unified,omitempty"`
	// Problem is why directories are unknown; empty if they are known.
	Problem string `json:"problem,omitempty"`
}

// Dir returns the directory that limits the process for a controller, such as "cpu",
// "cpuset", "memory", "io", "blkio" or "freezer", and whether it is version 2. Ask for
// "blkio" in version 1 and for "io" in version 2.
func (c Cgroups) Dir(controller string) (dir string, v2 bool, err error) {
	if dir, ok := c.V1[controller]; ok {
		return dir, false, nil
	}
	if c.Unified == "" {
		return "", false, fmt.Errorf("cgroup with controller %s: none is known %s", controller, c.Problem)
	}
	data, err := os.ReadFile(filepath.Join(c.Unified, "cgroup.controllers"))
	if err != nil {
		return "", false, fmt.Errorf("cgroup with controller %s: %w", controller, goneIfMissing(err))
	}
	if !slices.Contains(strings.Fields(string(data)), controller) {
		return "", false, fmt.Errorf("cgroup %s has no controller %s %s", c.Unified, controller, c.Problem)
	}
	return c.Unified, true, nil
}

// remain is true if a directory named after the container exists.
func (c Cgroups) remain(id string) bool {
	dirs := append(slices.Collect(maps.Values(c.V1)), c.Unified)
	return slices.ContainsFunc(dirs, func(dir string) bool {
		if !mentions(dir, id) {
			return false
		}
		_, err := os.Stat(dir)
		return err == nil
	})
}

// Whole returns the cgroups of the container with the version 2 one that holds all of its
// processes: a first process such as systemd moves into a cgroup below the container's. In
// version 1 a limit does not apply to the cgroups below, so those of the first process
// stay.
func (c Container) Whole() Cgroups {
	whole := c.Cgroups
	for above := filepath.Dir(whole.Unified); mentions(above, c.ID); above = filepath.Dir(above) {
		whole.Unified = above
	}
	return whole
}

// Join moves a process, with this process's rights, into the cgroup directory dir. It
// returns ErrGone, wrapped, if the cgroup is gone.
func (t *Target) Join(dir string, pid int) error {
	// Version 2 refuses moves out of the mover's cgroup namespace, and a chaos pod has one of
	// its own.
	err := inHostCgroupNamespace(t.ProcDir(), func() error {
		procs, err := os.OpenFile(filepath.Join(dir, "cgroup.procs"), os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer procs.Close()
		_, err = procs.WriteString(strconv.Itoa(pid))
		return err
	})
	if err != nil {
		return fmt.Errorf("move process %d into cgroup %s: %w", pid, dir, goneIfMissing(err))
	}
	return nil
}

// cgroupsOf never fails, as a kind that needs no cgroup must work without them. Errors are
// in Problem.
func cgroupsOf(proc string, pid int) Cgroups {
	var found Cgroups
	err := inHostCgroupNamespace(proc, func() error {
		memberships, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "cgroup"))
		if err != nil {
			return err
		}
		// DefaultProc has our own mounts, which are shown relative to the same cgroup namespace
		// as the memberships.
		mounts, err := os.ReadFile(DefaultProc + "/thread-self/mountinfo")
		if err != nil {
			return err
		}
		found, err = resolveCgroups(string(memberships), parseCgroupMounts(string(mounts)))
		return err
	})
	if err != nil {
		found.Problem = err.Error()
	}
	return found
}

// inHostCgroupNamespace runs f where cgroup paths start at the root of the hierarchy. A
// chaos pod may have a cgroup namespace of its own. Other cgroups appear there as
// "/../../…", with names missing in between.
func inHostCgroupNamespace(proc string, f func() error) error {
	host := filepath.Join(proc, "1/ns/cgroup")
	var theirs, ours unix.Stat_t
	if unix.Stat(host, &theirs) != nil || unix.Stat(DefaultProc+"/self/ns/cgroup", &ours) != nil {
		return f() // resolveCgroups detects a wrong namespace
	}
	if theirs.Ino == ours.Ino {
		return f()
	}
	return inNamespace(host, unix.CLONE_NEWCGROUP, "cgroup", f)
}

// cgroupMount is one mounted hierarchy: root is the cgroup that appears at dir.
type cgroupMount struct {
	dir, root   string
	v2          bool
	controllers []string
}

// resolveCgroups turns the lines "4:memory:/pods/x" of a /proc/<pid>/cgroup file into
// directories. With an error, the directories found are valid too.
func resolveCgroups(memberships string, mounts []cgroupMount) (Cgroups, error) {
	paths, unified, err := cgroups.ParseCgroupFromReaderUnified(strings.NewReader(memberships))
	if err != nil {
		return Cgroups{}, err
	}
	if unified != "" {
		paths[""] = unified
	}
	found := Cgroups{V1: map[string]string{}}
	var errs []error
	for _, controller := range slices.Sorted(maps.Keys(paths)) {
		path := paths[controller]
		if strings.HasPrefix(path, "/..") {
			return Cgroups{}, fmt.Errorf("path %s is outside the cgroup namespace, and the node's cannot be entered", path)
		}
		dir, err := directory(mounts, controller, path)
		switch {
		case err != nil:
			errs = append(errs, err)
		case controller == "":
			found.Unified = dir
		default:
			found.V1[controller] = dir
		}
	}
	return found, errors.Join(errs...)
}

// directory returns where a cgroup path of a hierarchy is mounted. The empty controller
// means version 2.
func directory(mounts []cgroupMount, controller, path string) (string, error) {
	for _, mount := range mounts {
		if mount.v2 != (controller == "") || (!mount.v2 && !slices.Contains(mount.controllers, controller)) {
			continue
		}
		below, err := filepath.Rel(mount.root, path)
		if err != nil || below == ".." || strings.HasPrefix(below, "../") {
			continue // another part of the hierarchy is mounted there
		}
		return filepath.Join(mount.dir, below), nil
	}
	if controller == "" {
		controller = "unified"
	}
	return "", fmt.Errorf("hierarchy %s is not mounted where the injector could see %s", controller, path)
}

// parseCgroupMounts reads the cgroup mounts out of a mountinfo file:
//
//	32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
func parseCgroupMounts(mountinfo string) []cgroupMount {
	var mounts []cgroupMount
	for line := range strings.Lines(mountinfo) {
		before, after, found := strings.Cut(line, " - ")
		place, source := strings.Fields(before), strings.Fields(after)
		if !found || len(place) < 5 || len(source) < 3 {
			continue
		}
		mount := cgroupMount{root: place[3], dir: place[4], v2: source[0] == "cgroup2"}
		if !mount.v2 && source[0] != "cgroup" {
			continue
		}
		mount.controllers = strings.Split(source[2], ",")
		mounts = append(mounts, mount)
	}
	return mounts
}
