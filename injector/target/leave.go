//go:build linux

package target

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// podName matches the kubelet's name of a pod's cgroup: "pod" and its UID, with "_" for "-"
// and more around it with systemd. The container's cgroup is below.
var podName = regexp.MustCompile(`pod[0-9a-f]{8}([-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}(\.slice)?/`)

// ending are the version 1 hierarchies by which a container is ended or limited.
var ending = []string{"memory", "pids", "freezer", "devices", "name=systemd"}

// LeaveContainer moves a process out of its container's cgroups into one of the same pod
// with this name. It then survives the end of its container: a runtime kills all processes
// of a container whose first one has ended, if they share the node's process namespace. The
// kernel may kill them together when memory runs out. LeaveContainer returns the
// directories, none for a process outside pods.
func LeaveContainer(proc string, pid int, name string) ([]string, error) {
	var made []string
	err := inHostCgroupNamespace(proc, func() error {
		memberships, err := os.ReadFile(filepath.Join(DefaultProc, strconv.Itoa(pid), "cgroup"))
		if err != nil || !podName.Match(memberships) {
			return err
		}
		dirs, err := podDirs(proc, string(memberships))
		for _, dir := range dirs {
			dir = filepath.Join(dir, name)
			made = append(made, dir)
			err = errors.Join(err, enter(dir, pid))
		}
		return err
	})
	if err != nil {
		return made, fmt.Errorf("leave the container's cgroups: %w", err)
	}
	return made, nil
}

// podDirs returns the directories of a process's pod: below the node's cgroups in this
// process, or else below those of the node's first process.
func podDirs(proc, memberships string) ([]string, error) {
	node := filepath.Join(proc, "1")
	for _, view := range []struct{ mounts, root string }{{DefaultProc + "/thread-self/mountinfo", "/"}, {node + "/mountinfo", node + "/root"}} {
		mounts, err := os.ReadFile(view.mounts)
		if err != nil {
			return nil, err
		}
		// A hierarchy that is not mounted contains no container either.
		found, _ := resolveCgroups(memberships, parseCgroupMounts(string(mounts)))
		if dirs := found.podDirs(view.root); len(dirs) > 0 {
			return dirs, nil
		}
	}
	return nil, errors.New("the pod's are seen neither here nor by the node's first process")
}

func (c Cgroups) podDirs(root string) []string {
	var dirs []string
	for _, hierarchy := range append([]string{""}, ending...) {
		dir := c.Unified
		if hierarchy != "" {
			dir = c.V1[hierarchy]
		}
		at := podName.FindStringIndex(dir)
		if at == nil {
			continue
		}
		if pod := filepath.Join(root, strings.TrimSuffix(dir[:at[1]], "/")); !slices.Contains(dirs, pod) {
			dirs = append(dirs, pod)
		}
	}
	return dirs
}

func enter(dir string, pid int) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	procs, err := os.OpenFile(filepath.Join(dir, "cgroup.procs"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer procs.Close()
	if _, err := procs.WriteString(strconv.Itoa(pid)); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}
