package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// sweepPatience is how long Sweep waits for killed processes to go. With many
// of them the machine's first process needs a second or two to reap them.
const sweepPatience = 20 * time.Second

// Sweep ends every process in the groups whose name starts with prefix and
// removes the groups. Frozen ones are thawed first: a frozen task does not die,
// and the first process of its pid namespace waits for it for ever. Sweep is
// idempotent.
func Sweep(prefix string) error {
	deadline := time.Now().Add(sweepPatience)
	for {
		dirs, err := groups(prefix)
		if err != nil {
			return err
		}
		if len(dirs) == 0 {
			return nil
		}
		for _, dir := range dirs {
			thaw(dir)
		}
		for _, pid := range Processes(dirs) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // gone already is as good
		}
		for _, dir := range dirs {
			err = errors.Join(err, remove(dir))
		}
		if err == nil {
			continue
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("cgroups %s* are still busy after %s; see cgroup.procs in them: %w", prefix, sweepPatience, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Processes lists what is in the given groups and below them.
func Processes(dirs []string) []int {
	var pids []int
	seen := map[int]bool{}
	for _, dir := range dirs {
		walk(dir, func(group string) {
			list, _ := os.ReadFile(filepath.Join(group, "cgroup.procs"))
			for field := range strings.FieldsSeq(string(list)) {
				if pid, err := strconv.Atoi(field); err == nil && pid > 1 && !seen[pid] {
					seen[pid] = true
					pids = append(pids, pid)
				}
			}
		})
	}
	return pids
}

// Members lists the processes of the group, and of those below it.
func Members(name string) []int {
	dirs, err := groups(name)
	if err != nil {
		return nil
	}
	return Processes(dirs)
}

// Init returns the first process of the pid namespace of the group, or 0 if
// there is none.
func Init(name string) int {
	for _, pid := range Members(name) {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		for line := range strings.Lines(string(status)) {
			// Two numbers: the machine's and the namespace's. Containers have three.
			ids, ok := strings.CutPrefix(line, "NSpid:")
			if fields := strings.Fields(ids); ok && len(fields) == 2 && fields[1] == "1" {
				return pid
			}
		}
	}
	return 0
}

// Kill ends every process of the group at once. The group stays.
func Kill(name string) error {
	dirs, err := groups(name)
	if err != nil {
		return err
	}
	for _, pid := range Processes(dirs) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
			return fmt.Errorf("kill process %d of %s: %w", pid, name, err)
		}
	}
	return nil
}

// Freeze stops everything in the group until Thaw, as if the computer hung.
func Freeze(name string) error {
	dirs, err := groups(name)
	if err != nil {
		return err
	}
	// The freezer of v1, or of v2 where there is no other.
	for _, file := range []struct{ name, content string }{{"freezer.state", "FROZEN"}, {"cgroup.freeze", "1"}} {
		for _, dir := range dirs {
			path := filepath.Join(dir, file.name)
			if _, err := os.Stat(path); err == nil {
				return os.WriteFile(path, []byte(file.content), 0)
			}
		}
	}
	return fmt.Errorf("no freezer for cgroup %s", name)
}

// Thaw lets everything in the group run again.
func Thaw(name string) error {
	dirs, err := groups(name)
	for _, dir := range dirs {
		thaw(dir)
	}
	return err
}

// groups lists the directories of all hierarchies whose name starts with prefix.
func groups(prefix string) ([]string, error) {
	hierarchies, err := Hierarchies()
	if err != nil {
		return nil, err
	}
	var found []string
	for _, h := range hierarchies {
		matches, err := filepath.Glob(filepath.Join(h.Path, prefix+"*"))
		if err != nil {
			return nil, fmt.Errorf("list cgroups %s*: %w", prefix, err)
		}
		found = append(found, matches...)
	}
	return found, nil
}

// thaw lets everything in the group run again. Only the group's own hierarchy
// has the file, so a missing one is no error.
func thaw(dir string) {
	walk(dir, func(group string) {
		writeExisting(filepath.Join(group, "freezer.state"), "THAWED")
		writeExisting(filepath.Join(group, "cgroup.freeze"), "0")
	})
}

func writeExisting(path, content string) {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = f.WriteString(content)
}

// remove deletes the group and those below it, the deepest first.
func remove(dir string) error {
	var order []string
	walk(dir, func(group string) { order = append(order, group) })
	for i := len(order) - 1; i >= 0; i-- {
		if err := syscall.Rmdir(order[i]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", order[i], err)
		}
	}
	return nil
}

// walk calls visit with the group and all below it, parents before children.
func walk(dir string, visit func(group string)) {
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fs.SkipDir // it went away meanwhile
		}
		if entry.IsDir() {
			visit(path)
		}
		return nil
	})
}
