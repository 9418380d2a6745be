package target

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// NetnsID tells one network namespace from all others of this boot.
type NetnsID struct {
	Dev uint64 `json:"dev"`
	Ino uint64 `json:"ino"`
}

// Netns is a network namespace and a path to reach it.
type Netns struct {
	NetnsID
	// Path is valid as long as the process it leads through lives; empty when
	// no process is in the namespace any more.
	Path string `json:"path"`
}

// Netnses lists all network namespaces of the node that a process is in or
// that are mounted below /run/netns, each once. Proc is DefaultProc when empty.
func Netnses(proc string) ([]Netns, error) {
	proc = procOrDefault(proc)
	pids, err := listPIDs(proc)
	if err != nil {
		return nil, err
	}
	var found []Netns
	seen := map[NetnsID]bool{}
	add := func(netns Netns, err error) {
		// A process without an answer has ended, or is one that nobody may look at.
		if err != nil || seen[netns.NetnsID] {
			return
		}
		seen[netns.NetnsID] = true
		found = append(found, netns)
	}
	for _, pid := range pids {
		add(netnsOf(proc, pid))
	}
	mounted, _ := filepath.Glob(filepath.Join(proc, "1/root/run/netns/*"))
	for _, path := range mounted {
		add(statNetns(path))
	}
	return found, nil
}

// Do runs f in the network namespace at path, on an operating system thread
// that nothing else uses meanwhile, and brings the thread back. If that fails,
// the thread is thrown away, so that nothing of the namespace can leak into
// other goroutines. F must not start goroutines that need the namespace.
func Do(path string, f func() error) error {
	return inNamespace(path, unix.CLONE_NEWNET, "net", f)
}

// InNewNetns runs f with the path of a network namespace that exists as long as
// f runs. F itself is not inside.
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

func inNamespace(path string, kind int, name string, f func() error) error {
	namespace, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open namespace: %w", goneIfMissing(err))
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
				// A namespace's name is a plain file from when it is unmounted
				// until it is removed.
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

// onOwnThread runs f on a thread that is locked to this goroutine. The thread
// ends with the goroutine unless f restored it. Ending it needlessly would do
// harm: children that die with their parent die with the thread that made them.
func onOwnThread(f func() (restored bool, err error)) error {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// The main thread cannot end, and /proc/self shows its namespaces.
		// While this goroutine sits on it, the next one gets another thread.
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

func netnsOf(proc string, pid int) (Netns, error) {
	return statNetns(filepath.Join(proc, strconv.Itoa(pid), "ns/net"))
}

func statNetns(path string) (Netns, error) {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return Netns{}, fmt.Errorf("look at namespace %s: %w", path, goneIfMissing(err))
	}
	return Netns{NetnsID: NetnsID{Dev: stat.Dev, Ino: stat.Ino}, Path: path}, nil
}

// currentNetns finds a path that leads to a known namespace now. A container may
// be started again while its pod, and with it the namespace, stays. The result
// is zero when no process is in the namespace any more.
func currentNetns(proc string, known Netns) (Netns, error) {
	if now, err := statNetns(known.Path); err == nil && now.NetnsID == known.NetnsID {
		return known, nil
	}
	all, err := Netnses(proc)
	if err != nil {
		return Netns{}, err
	}
	for _, netns := range all {
		if netns.NetnsID == known.NetnsID {
			return netns, nil
		}
	}
	return Netns{}, nil
}
