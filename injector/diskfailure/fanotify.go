//go:build linux

package diskfailure

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// group is a listener's descriptor. The kernel asks it before each open on the mounts that
// it marks. Once it is closed, for whatever reason, waiting opens continue and the marks
// are gone.
type group struct{ fd int }

func newGroup() (group, error) {
	// Only this class may answer with a chosen error. The kernel opens the event's descriptor:
	// for a FIFO that must not wait for a writer.
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_PRE_CONTENT|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK|unix.FAN_UNLIMITED_QUEUE|unix.FAN_UNLIMITED_MARKS,
		unix.O_RDONLY|unix.O_CLOEXEC|unix.O_LARGEFILE|unix.O_NONBLOCK)
	if err != nil {
		return group{}, fmt.Errorf("make a fanotify group (CONFIG_FANOTIFY_ACCESS_PERMISSIONS): %w", err)
	}
	return group{fd}, nil
}

func (g group) close() { _ = unix.Close(g.fd) }

// mark subscribes to the opens on the mount at point below the root of a descriptor. Links
// in it stay below that root.
func (g group) mark(root int, point string) error {
	fd, err := openPath(root, point)
	if err != nil {
		return fmt.Errorf("look up mount %s: %w", point, err)
	}
	defer unix.Close(fd)
	err = unix.FanotifyMark(g.fd, unix.FAN_MARK_ADD|unix.FAN_MARK_MOUNT, unix.FAN_OPEN_PERM|unix.FAN_ONDIR, unix.AT_FDCWD, descriptorPath(fd))
	if err != nil {
		return fmt.Errorf("mark mount %s: %w", point, err)
	}
	return nil
}

// takes is true if the kernel lets an open fail with an error. It answers an event that
// does not exist: a kernel that accepts the answer searches for the event.
func (g group) takes(errno unix.Errno) (bool, error) {
	err := g.answer(math.MaxInt32, denial(errno))
	switch {
	case errors.Is(err, unix.ENOENT):
		return true, nil
	case errors.Is(err, unix.EINVAL):
		return false, nil
	}
	return false, fmt.Errorf("ask for %s: %w", unix.ErrnoName(errno), err)
}

// denial is the answer that makes an open fail. Without a number it is EPERM, also to
// kernels before 6.13, which know no other.
func denial(errno unix.Errno) uint32 {
	if errno == unix.EPERM {
		return unix.FAN_DENY
	}
	return unix.FAN_DENY | uint32(errno&unix.FAN_ERRNO_MASK)<<unix.FAN_ERRNO_SHIFT
}

func (g group) answer(event int32, response uint32) error {
	var answer [8]byte
	binary.NativeEndian.PutUint32(answer[:], uint32(event))
	binary.NativeEndian.PutUint32(answer[4:], response)
	_, err := unix.Write(g.fd, answer[:])
	return err
}

// events reads the waiting events, as many as fit.
func (g group) events(buffer []byte) ([]unix.FanotifyEventMetadata, error) {
	n, err := unix.Read(g.fd, buffer)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the opens that wait: %w", err)
	}
	var events []unix.FanotifyEventMetadata
	for rest := buffer[:n]; len(rest) >= int(unsafe.Sizeof(unix.FanotifyEventMetadata{})); {
		var event unix.FanotifyEventMetadata
		if err := binary.Read(bytes.NewReader(rest), binary.NativeEndian, &event); err != nil {
			return events, err
		}
		if event.Vers != unix.FANOTIFY_METADATA_VERSION || int(event.Event_len) > len(rest) || event.Event_len == 0 {
			return events, fmt.Errorf("the kernel reports opens in version %d: want %d", event.Vers, unix.FANOTIFY_METADATA_VERSION)
		}
		events, rest = append(events, event), rest[event.Event_len:]
	}
	return events, nil
}

// fanotifyErrnos returns the errors that this kernel gives by fanotify. It makes a group,
// and marks a directory without events: a kernel may know groups and no permission events.
func fanotifyErrnos() ([]string, error) {
	g, err := newGroup()
	if err != nil {
		return nil, err
	}
	defer g.close()
	// Without FAN_ONDIR the directory's own opens are no events.
	if err := unix.FanotifyMark(g.fd, unix.FAN_MARK_ADD, unix.FAN_OPEN_PERM, unix.AT_FDCWD, "/"); err != nil {
		return nil, fmt.Errorf("ask for permission events (CONFIG_FANOTIFY_ACCESS_PERMISSIONS): %w", err)
	}
	var given []string
	for _, name := range slices.Sorted(maps.Keys(errnos)) {
		taken, err := g.takes(errnos[name])
		if err != nil {
			return nil, err
		}
		if taken {
			given = append(given, name)
		}
	}
	return given, nil
}

// openPath resolves a path below a root, with links as the processes there have them. It
// opens no file, so no listener is asked.
func openPath(root int, file string) (int, error) {
	return unix.Openat2(root, file, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
}

func openRoot(dir string) (int, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("enter %s: %w", dir, err)
	}
	return fd, nil
}

func descriptorPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// nameOf returns the path behind a descriptor, from the root of its mount namespace.
func nameOf(fd int) (string, error) { return os.Readlink(descriptorPath(fd)) }
