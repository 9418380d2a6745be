//go:build linux

package target

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// NetnsID identifies a network namespace among those that exist now. The kernel reuses the
// number once the namespace is gone.
type NetnsID struct {
	Dev uint64 `json:"dev"`
	Ino uint64 `json:"ino"`
}

// Netns is a network namespace and a path to reach it.
type Netns struct {
	NetnsID
	// Cookie is a number of the namespace that the kernel never reuses. It is 0 if unknown:
	// before Linux 5.14, and without the right to enter.
	Cookie uint64 `json:"cookie,omitempty"`
	// Path is valid while the process in it lives; empty when no process is in the namespace
	// any more.
	Path string `json:"path"`
}

// EachNetns calls look once for each network namespace of the node that a process is in or
// that is mounted below /run/netns. The path passed to look is valid until look returns:
// EachNetns holds the namespace, as many processes end sooner. It continues after an error
// of look, and stops with ctx. proc is DefaultProc when empty.
func EachNetns(ctx context.Context, proc string, look func(Netns) error) error {
	paths, err := netnsPaths(procOrDefault(proc))
	if err != nil {
		return err
	}
	seen := map[NetnsID]bool{}
	var errs []error
	for _, path := range paths {
		if err := ctx.Err(); err != nil {
			return errors.Join(append(errs, err)...)
		}
		// A process that cannot be read has ended, or is protected.
		if known, err := statNetns(path); err != nil || seen[known.NetnsID] {
			continue
		}
		err := holdNetns(path, func(held Netns) error {
			if seen[held.NetnsID] {
				return nil // the process number belongs to another one by now
			}
			seen[held.NetnsID] = true
			return look(held)
		})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// holdNetns calls f with a path that leads to the namespace at path until f returns. It
// does nothing if the namespace is gone. Another process may have its number by then, with
// another namespace.
func holdNetns(path string, f func(Netns) error) error {
	namespace, err := OpenNetns(path)
	if errors.Is(err, ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer namespace.Close()
	held, err := statNetns(fmt.Sprintf("/proc/self/fd/%d", namespace.Fd()))
	if err != nil {
		return err
	}
	return f(held)
}

// OpenNetns opens the network namespace at path, which stays while the file is open. It
// returns ErrGone, wrapped, if the namespace is gone.
func OpenNetns(path string) (*os.File, error) {
	namespace, err := openNamespace(path)
	if err != nil {
		return nil, err
	}
	var system unix.Statfs_t
	if err := unix.Fstatfs(int(namespace.Fd()), &system); err != nil || system.Type != unix.NSFS_MAGIC {
		namespace.Close()
		// Between unmount and removal, a namespace's name is a plain file.
		return nil, fmt.Errorf("open network namespace %s: %w", path, errors.Join(ErrGone, err))
	}
	return namespace, nil
}

// netnsPaths returns all paths that lead to network namespaces now, usually several to
// each.
func netnsPaths(proc string) ([]string, error) {
	pids, err := listPIDs(proc)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, pid := range pids {
		paths = append(paths, netnsPath(proc, pid))
	}
	mounted, _ := filepath.Glob(filepath.Join(proc, "1/root/run/netns/*"))
	return append(paths, mounted...), nil
}

func netnsPath(proc string, pid int) string {
	return filepath.Join(proc, strconv.Itoa(pid), "ns/net")
}

// Do runs f in the network namespace at path, on an operating system thread of its own, and
// restores the thread. If that fails, the thread is discarded, so that no other goroutine
// runs in the namespace. f must not start goroutines that need the namespace.
func Do(path string, f func() error) error {
	return inNamespace(path, unix.CLONE_NEWNET, "net", f)
}

// InNewNetns runs f with the path of a network namespace that exists while f runs. f itself
// is not inside.
func InNewNetns(f func(path string) error) error {
	var namespace *os.File
	err := Do("/proc/thread-self/ns/net", func() (err error) {
		if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace: %w", err)
		}
		namespace, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		return err
	}
	defer namespace.Close()
	return f(fmt.Sprintf("/proc/self/fd/%d", namespace.Fd()))
}

// OnThrowawayThread runs f on an operating system thread that is discarded afterwards, so
// that f may leave it in other namespaces. f must not start goroutines that need that
// thread's namespaces.
func OnThrowawayThread(f func() error) error {
	result := make(chan error, 1)
	go func() { result <- onOwnThread(func() (restored bool, err error) { return false, f() }) }()
	return <-result
}

func openNamespace(path string) (namespace *os.File, err error) {
	err = askTwice(func() (err error) {
		namespace, err = os.Open(path)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open namespace: %w", err)
	}
	return namespace, nil
}

// askTwice retries once after EACCES. The kernel also returns that when the process ends
// between its listing below /proc and the read of its namespace. The retry then finds no
// process, which becomes ErrGone.
func askTwice(ask func() error) error {
	err := ask()
	if errors.Is(err, fs.ErrPermission) {
		err = ask()
	}
	return goneIfMissing(err)
}

func inNamespace(path string, kind int, name string, f func() error) error {
	namespace, err := openNamespace(path)
	if err != nil {
		return err
	}
	defer namespace.Close()

	result := make(chan error, 1)
	go func() {
		result <- onOwnThread(func() (restored bool, err error) {
			own, err := os.Open(DefaultProc + "/thread-self/ns/" + name)
			if err != nil {
				return true, fmt.Errorf("open own namespace: %w", err)
			}
			defer own.Close()
			err = unix.Setns(int(namespace.Fd()), kind)
			if errors.Is(err, unix.EINVAL) {
				// Between unmount and removal, a namespace's name is a plain file.
				return true, fmt.Errorf("enter namespace %s: %w", path, ErrGone)
			}
			if err != nil {
				return true, fmt.Errorf("enter namespace %s: %w", path, err)
			}
			err = f()
			return unix.Setns(int(own.Fd()), kind) == nil, err
		})
	}()
	return <-result
}

// onOwnThread runs f on a thread that is locked to this goroutine. The thread ends with the
// goroutine unless f restored it. A needless end would do harm: children that die with
// their parent die with the thread that made them.
func onOwnThread(f func() (restored bool, err error)) error {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// The main thread cannot end, and /proc/self shows its namespaces. While this goroutine
		// occupies it, the next one gets another thread.
		defer runtime.UnlockOSThread()
		result := make(chan error, 1)
		go func() { result <- onOwnThread(f) }()
		return <-result
	}
	restored, err := f()
	if restored {
		runtime.UnlockOSThread()
	}
	return err
}

// cookieOf returns the cookie of the network namespace at path, 0 if it is unknown.
func cookieOf(path string) uint64 {
	var cookie uint64
	err := Do(path, func() error {
		socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(socket)
		cookie, err = unix.GetsockoptUint64(socket, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
		return err
	})
	if err != nil {
		return 0
	}
	return cookie
}

func netnsOf(proc string, pid int) (Netns, error) {
	return statNetns(netnsPath(proc, pid))
}

func statNetns(path string) (Netns, error) {
	var stat unix.Stat_t
	if err := askTwice(func() error { return unix.Stat(path, &stat) }); err != nil {
		return Netns{}, fmt.Errorf("look at namespace %s: %w", path, err)
	}
	return Netns{NetnsID: NetnsID{Dev: stat.Dev, Ino: stat.Ino}, Path: path}, nil
}

// currentNetns finds a path that leads to a known namespace now. A container may restart
// while its pod, and with it the namespace, stays. The result is zero when no process is in
// the namespace any more, also when another namespace has its number by now.
func currentNetns(proc string, known Netns) (Netns, error) {
	if now, err := statNetns(known.Path); err == nil && now.NetnsID == known.NetnsID {
		if known.isAnother(now) {
			return Netns{}, nil
		}
		return known, nil
	}
	paths, err := netnsPaths(proc)
	if err != nil {
		return Netns{}, err
	}
	for _, path := range paths {
		if now, err := statNetns(path); err == nil && now.NetnsID == known.NetnsID {
			if known.isAnother(now) {
				return Netns{}, nil
			}
			now.Cookie = known.Cookie
			return now, nil
		}
	}
	return Netns{}, nil
}

// isAnother is true if now has the same number but is known to be a different namespace.
func (n Netns) isAnother(now Netns) bool {
	if n.Cookie == 0 {
		return false
	}
	cookie := cookieOf(now.Path)
	return cookie != 0 && cookie != n.Cookie
}
