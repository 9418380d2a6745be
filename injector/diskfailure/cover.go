//go:build linux

package diskfailure

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/mounts"
	"github.com/squall-chaos/squall/injector/target"
)

// A cover is a mount over a file or directory of the target under which opens fail.
// It needs no listener, so it fails all opens, and it outlives the injector.
//
//   - A directory that was removed after it was mounted holds nothing and takes
//     nothing: every name below it is ENOENT, also to an open that would make it.
//   - A symbolic link over a file is followed like any other: one that leads nowhere
//     is ENOENT, one that leads to itself ELOOP, one with a name of 256 bytes
//     ENAMETOOLONG.
//   - A socket cannot be opened: ENXIO.

const directoryErrno = "ENOENT" // the only one for directories

// fileErrnos are the errors for files.
var fileErrnos = []string{"ELOOP", "ENAMETOOLONG", "ENOENT", "ENXIO"}

// cover is a cover to mount.
type cover struct {
	point     string // from the root of the mount namespace
	directory bool
}

// stage is a filesystem in memory that only this thread sees. An object made on it is
// mounted in the target's namespace, and keeps its name there as the mark.
const stage = "/tmp"

// mountCovers mounts covers in the mount namespace at a path. It leaves the thread there, so
// the caller must discard the thread, and cannot open files by path on it.
func mountCovers(mark, namespace, errno string, covers []cover) error {
	there, err := unix.Open(namespace, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open mount namespace %s: %w", namespace, err)
	}
	defer unix.Close(there)
	made, err := openStage(mark)
	if err != nil {
		return err
	}
	defer unix.Close(made)
	var trees []int
	defer func() {
		for _, tree := range trees {
			unix.Close(tree)
		}
	}()
	for n, c := range covers {
		tree, err := makeCover(made, strconv.Itoa(n), errno, c)
		if err != nil {
			return fmt.Errorf("make a mount for %s: %w", c.point, err)
		}
		trees = append(trees, tree)
	}
	if err := unix.Setns(there, unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("enter mount namespace %s: %w", namespace, err)
	}
	for n, c := range covers {
		if err := unix.MoveMount(trees[n], "", unix.AT_FDCWD, c.point, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("mount over %s: %w", c.point, err)
		}
		if !c.directory {
			continue
		}
		if err := unix.Unlinkat(made, strconv.Itoa(n), unix.AT_REMOVEDIR); err != nil {
			return fmt.Errorf("remove what is mounted over %s: %w", c.point, err)
		}
	}
	return nil
}

// openStage mounts the stage in a mount namespace of this thread alone.
func openStage(mark string) (int, error) {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return -1, fmt.Errorf("make a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return -1, fmt.Errorf("keep mounts private: %w", err)
	}
	if err := unix.Mount(mark, stage, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=64k,mode=755"); err != nil {
		return -1, fmt.Errorf("mount a filesystem in memory: %w", err)
	}
	fd, err := unix.Open(stage, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open the filesystem in memory: %w", err)
	}
	return fd, nil
}

// makeCover makes a mount that is not attached yet.
func makeCover(stage int, name, errno string, c cover) (int, error) {
	var err error
	switch {
	case c.directory:
		err = unix.Mkdirat(stage, name, 0o755)
	case errno == "ENXIO":
		err = unix.Mknodat(stage, name, unix.S_IFSOCK|0o666, 0)
	default:
		err = unix.Symlinkat(leadsTo(errno, c.point), stage, name)
	}
	if err != nil {
		return -1, err
	}
	tree, err := unix.OpenTree(stage, name, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil || !c.directory {
		return tree, err
	}
	// Until it is removed, the directory must not accept files either.
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		unix.Close(tree)
		return -1, err
	}
	return tree, nil
}

// leadsTo is the content of a link over a file. The kernel resolves it in the file's
// directory.
func leadsTo(errno, point string) string {
	switch errno {
	case "ELOOP":
		return point[strings.LastIndexByte(point, '/')+1:]
	case "ENAMETOOLONG":
		return strings.Repeat("n", 256)
	}
	return ".squall-disk-failure-leads/nowhere"
}

// coverErrnos returns the errors that covers give on this kernel. It tries each on the
// stage, in a mount namespace of its own.
func coverErrnos() ([]string, error) {
	var given []string
	err := target.OnThrowawayThread(func() error {
		made, err := openStage(listeners.Prefix + "probe")
		if err != nil {
			return err
		}
		defer unix.Close(made)
		if err := tryCover(made, "directory", directoryErrno, true); err != nil {
			return err
		}
		for _, errno := range fileErrnos {
			if err := tryCover(made, errno, errno, false); err != nil {
				return err
			}
			given = append(given, errno)
		}
		return nil
	})
	return given, err
}

// tryCover covers something on the stage and opens it.
func tryCover(stage int, name, errno string, directory bool) error {
	file := name
	if directory {
		if err := unix.Mkdirat(stage, name, 0o755); err != nil {
			return err
		}
		file += "/file"
	} else if err := unix.Mknodat(stage, name, unix.S_IFREG|0o600, 0); err != nil {
		return err
	}
	source := name + "-cover"
	tree, err := makeCover(stage, source, errno, cover{point: "/" + name, directory: directory})
	if err != nil {
		return fmt.Errorf("make a mount for %s: %w", errno, err)
	}
	defer unix.Close(tree)
	if err := unix.MoveMount(tree, "", stage, name, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount for %s: %w", errno, err)
	}
	if directory {
		if err := unix.Unlinkat(stage, source, unix.AT_REMOVEDIR); err != nil {
			return err
		}
	}
	fd, err := unix.Openat(stage, file, unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err == nil {
		unix.Close(fd)
	}
	if !errors.Is(err, errnos[errno]) {
		return fmt.Errorf("a mount for %s makes opens end with %w", errno, err)
	}
	return nil
}

// removeCovers unmounts the covers with a mark in the mount namespace at a path, the last
// first, and continues after an error. It leaves the thread there, so the caller must
// discard the thread.
func removeCovers(mark, namespace string) error {
	// The other namespace may have no /proc, so this opens the one of this process.
	proc, err := openRoot(target.DefaultProc)
	if err != nil {
		return err
	}
	defer unix.Close(proc)
	there, err := unix.Open(namespace, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if isAbsent(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open mount namespace %s: %w", namespace, err)
	}
	defer unix.Close(there)
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	if err := unix.Setns(there, unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("enter mount namespace %s: %w", namespace, err)
	}
	table, err := ownMounts(proc)
	if err != nil {
		return err
	}
	var errs []error
	for n, m := range slices.Backward(table) {
		if m.Source != mark {
			continue
		}
		if slices.ContainsFunc(table[n+1:], func(above mounts.Mount) bool { return above.Point == m.Point && above.Source != mark }) {
			errs = append(errs, fmt.Errorf("unmount %s: another mount covers it; unmount that first", m.Point))
			continue
		}
		err := unix.Unmount(m.Point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if err != nil && !errors.Is(err, unix.EINVAL) { // EINVAL: another cleaner was faster
			errs = append(errs, fmt.Errorf("unmount %s: %w", m.Point, err))
		}
	}
	return errors.Join(errs...)
}

// ownMounts returns the mounts that this thread sees.
func ownMounts(proc int) ([]mounts.Mount, error) {
	fd, err := unix.Openat(proc, "thread-self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("list the mounts: %w", err)
	}
	file := os.NewFile(uintptr(fd), "mountinfo")
	defer file.Close()
	return mounts.Read(file)
}

// covered is a cover in place.
type covered struct {
	mark, point string
	namespace   string // a path to its mount namespace
}

// findCovers lists the covers in all mount namespaces of the node whose mark begins with
// prefix. It reads each namespace by the first process in it. proc is the directory of
// processes.
func findCovers(proc, prefix string) ([]covered, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var found []covered
	seen := map[string]bool{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		// A process without a name has ended, or is protected.
		name := namespaceOf(proc, pid)
		if name == "" || seen[name] {
			continue
		}
		dir := proc + "/" + entry.Name()
		table, err := mounts.Of(dir)
		if err != nil {
			continue // another process may show the mounts
		}
		seen[name] = true
		for _, m := range table {
			if strings.HasPrefix(m.Source, prefix) {
				found = append(found, covered{mark: m.Source, point: m.Point, namespace: dir + "/ns/mnt"})
			}
		}
	}
	return found, nil
}
