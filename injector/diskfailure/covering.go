//go:build linux

package diskfailure

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/injector/mounts"
	"github.com/squall-chaos/squall/injector/target"
)

// mark is the source of the mounts of this injection's covers.
func (i *Injector) mark() string {
	injection := i.target.Injection
	return listeners.Prefix + string(injection.Disruption.UID) + "/" + string(injection.Target.UID)
}

// cover mounts covers over those of the paths that exist, in every container. All of them
// are in the journal before the first is mounted.
func (i *Injector) cover(p plan) error {
	found := make([][]cover, len(i.target.Containers))
	count := 0
	for n, container := range i.target.Containers {
		covers, err := i.coversOf(p, container)
		// Everything was found by process number: it is valid if the number is still the
		// target's.
		if err := errors.Join(container.Check(), err); err != nil {
			return fmt.Errorf("container %s: %w", container.Name, err)
		}
		found[n] = covers
		count += len(covers)
	}
	if count == 0 {
		return fmt.Errorf("no container has any of %s; %s can be given to what there is when it is injected, and to nothing made later",
			strings.Join(p.paths, ", "), p.errno)
	}
	for n, container := range i.target.Containers {
		for _, c := range found[n] {
			object := fmt.Sprintf("mount over %s in container %s", c.point, container.Name)
			if err := i.journal.Write(journal.Change{Object: object, Before: "nothing", After: i.mark()}); err != nil {
				return err
			}
		}
	}
	for n, container := range i.target.Containers {
		err := target.OnThrowawayThread(func() error {
			return mountCovers(i.mark(), filepath.Join(filepath.Dir(container.Root()), "ns/mnt"), p.errno, found[n])
		})
		i.covers += len(found[n])
		if err := errors.Join(err, container.Check()); err != nil {
			return fmt.Errorf("make opens fail in container %s: %w", container.Name, err)
		}
	}
	return nil
}

// coversOf finds the covers for a container. It changes nothing.
func (i *Injector) coversOf(p plan, container target.Container) ([]cover, error) {
	root, err := openRoot(container.Root())
	if err != nil {
		return nil, err
	}
	defer unix.Close(root)
	table, err := mounts.Of(filepath.Dir(container.Root()))
	if err != nil {
		return nil, err
	}
	var all []cover
	for _, prefix := range p.paths {
		files, err := beginWith(root, prefix)
		if err != nil {
			return nil, fmt.Errorf("path %s: %w", prefix, err)
		}
		for _, file := range files {
			c, err := coverFor(root, file, p.errno, table)
			switch {
			case isAbsent(err): // a link that leads nowhere
			case err != nil:
				return nil, fmt.Errorf("path %s: %w", file, err)
			case !slices.Contains(all, c):
				all = append(all, c)
			}
		}
		if len(files) == 0 {
			i.note(fmt.Sprintf("container %s has no %s and is not disrupted there", container.Name, prefix))
		}
	}
	i.note(p.errno + " comes from mounts over the files below the paths. The mounts also hide these files from stat and listings; new files fail within some seconds")
	return all, nil
}

// beginWith lists the names with a prefix, in its last directory.
func beginWith(root int, prefix string) ([]string, error) {
	dir, rest := path.Split(prefix)
	if rest == "" {
		dir = path.Clean(dir)
		if dir == "/" {
			return nil, errors.New("the root of a container cannot be covered: name a path below it")
		}
		_, _, err := lookUp(root, dir)
		if isAbsent(err) {
			return nil, nil
		}
		return []string{dir}, err
	}
	fd, err := unix.Openat2(root, dir, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
	if isAbsent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s in the target: %w", dir, err)
	}
	listed := os.NewFile(uintptr(fd), dir)
	defer listed.Close()
	entries, err := listed.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list %s in the target: %w", dir, err)
	}
	var found []string
	for _, entry := range entries {
		if strings.HasPrefix(entry, rest) {
			found = append(found, path.Join(dir, entry))
		}
	}
	slices.Sort(found)
	return found, nil
}

// coverFor returns the cover of a file or directory, or of the destination of a link.
func coverFor(root int, file, errno string, table []mounts.Mount) (cover, error) {
	fd, err := openPath(root, file)
	if err != nil {
		return cover{}, err
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return cover{}, err
	}
	c := cover{directory: stat.Mode&unix.S_IFMT == unix.S_IFDIR}
	if c.point, err = nameOf(fd); err != nil {
		return cover{}, err
	}
	if c.directory && errno != directoryErrno {
		return cover{}, fmt.Errorf("it is a directory, and mounts give %s to single files only", errno)
	}
	if c.point == "/" {
		return cover{}, errors.New("it leads to the root of the container, which cannot be covered")
	}
	info, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return cover{}, err
	}
	at := slices.IndexFunc(table, func(m mounts.Mount) bool { return m.ID == mounts.ID(string(info)) })
	switch {
	case at < 0:
		return cover{}, errors.New("it lies on no mount that the target sees")
	case !canFail(table[at]):
		return cover{}, fmt.Errorf("it lies on %s, a filesystem of type %s without a disk, on which opens cannot be made to fail", table[at].Point, table[at].Kind)
	case table[at].Shared:
		return cover{}, fmt.Errorf("it lies on %s, whose mounts are shared with others (mountPropagation: Bidirectional) and would be disrupted too", table[at].Point)
	}
	return c, nil
}

// uncoveredNow returns one of the current paths that leads to a file without a cover of
// this injection.
func (i *Injector) uncoveredNow(p plan) (string, error) {
	for _, container := range i.target.Containers {
		file, err := i.uncoveredIn(p, container)
		// Everything was found by process number: it is valid if the number is still the
		// target's.
		if err := errors.Join(container.Check(), err); err != nil {
			return "", fmt.Errorf("container %s: %w", container.Name, err)
		}
		if file != "" {
			return fmt.Sprintf("container %s: %s", container.Name, file), nil
		}
	}
	return "", nil
}

func (i *Injector) uncoveredIn(p plan, container target.Container) (string, error) {
	root, err := openRoot(container.Root())
	if err != nil {
		return "", err
	}
	defer unix.Close(root)
	table, err := mounts.Of(filepath.Dir(container.Root()))
	if err != nil {
		return "", err
	}
	for _, prefix := range p.paths {
		files, err := beginWith(root, prefix)
		if err != nil {
			return "", fmt.Errorf("path %s: %w", prefix, err)
		}
		for _, file := range files {
			_, id, err := lookUp(root, file)
			if err != nil {
				continue // as expected: a cover, or a link that leads nowhere
			}
			if !slices.ContainsFunc(table, func(m mounts.Mount) bool { return m.ID == id && m.Source == i.mark() }) {
				return file, nil
			}
		}
	}
	return "", nil
}

// covered lists the covers of this injection, also those of other processes.
func (i *Injector) covered() ([]covered, error) {
	found, err := findCovers(i.target.ProcDir(), i.mark())
	return slices.DeleteFunc(found, func(c covered) bool { return c.mark != i.mark() }), err
}

// uncover unmounts them, and continues after an error.
func (i *Injector) uncover() error {
	found, err := i.covered()
	errs := []error{err}
	seen := map[string]bool{}
	for _, c := range found {
		if !seen[c.namespace] {
			seen[c.namespace] = true
			errs = append(errs, target.OnThrowawayThread(func() error { return removeCovers(i.mark(), c.namespace) }))
		}
	}
	return errors.Join(errs...)
}

// String describes a cover to people.
func (c covered) String() string { return "mount over " + c.point }
