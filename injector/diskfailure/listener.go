//go:build linux

package diskfailure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/child"
	"github.com/squall-chaos/squall/injector/target"
)

// ListenCommand is the hidden subcommand of the injector that runs Listen.
const ListenCommand = "listen"

// beat is how often a listener writes a sign of life. After silence without one it is
// ended, so that no open waits for longer than 2 s. With a program no open waits, but the
// listener has to see the end of its target.
const (
	beat           = 400 * time.Millisecond
	silence        = 1500 * time.Millisecond
	programSilence = 15 * time.Second
)

// order is the task of a listener.
type order struct {
	// Way is how opens fail: by a hook, or fanotify.
	Way string
	// Root leads to the root of the target's processes, Namespace is the name of their mount
	// namespace.
	Root, Namespace string
	// Mounts are the points of the mounts to listen at, Prefixes the paths below which opens
	// fail, both as the target sees them.
	Mounts, Prefixes []string
	// Devices are the devices of the mounts' filesystems, as the kernel numbers them.
	Devices []uint32
	Errno   unix.Errno
	Percent int

	// found are the mounts, each with what distinguishes it from another one at its point.
	found []string
}

// silence is how long the listener may write nothing.
func (o order) silence() time.Duration {
	if o.Way == byFanotify {
		return silence
	}
	return programSilence
}

// listener answers fanotify, which asks before each open on the mounts of an order.
type listener struct {
	order
	group group
	base  string // the path of Root in its mount namespace
	share share
	// denied counts the opens that failed.
	denied uint64
}

// Listen is the listener, a child process of the injector. It starts when a byte arrives on
// its standard input. It then listens, and reports that in a line on its standard output.
// From then on it regularly writes a line with the number of opens that it made fail.
//
// Listen ends without an error when its standard input is closed, as by the injector's end.
// It also ends when the process behind the pidfd in file descriptor 3 is gone. All its
// effects end with it. args are the mark that lets Clean and Audit find it, and its order.
func Listen(_ context.Context, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("%s: want a mark and an order; it is started by the injector, not by hand", ListenCommand)
	}
	var o order
	if err := json.Unmarshal([]byte(args[1]), &o); err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	if !child.AwaitRelease() {
		return nil
	}
	if hook, is := hooks[o.Way]; is {
		return hook.hold(o)
	}
	return o.listen()
}

// listen answers by fanotify.
func (o order) listen() error {
	// Every open waits for this process, so it should not wait for its own memory. Without the
	// right to lock it, it may have to.
	_ = unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE | unix.MCL_ONFAULT)
	root, err := openRoot(o.Root)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	// Root was found by process number: it is the target's if its process still runs.
	if child.Ended(0) {
		return nil
	}
	l := listener{order: o, share: share{percent: o.Percent}}
	if l.base, err = nameOf(root); err != nil {
		return err
	}
	if l.group, err = newGroup(); err != nil {
		return err
	}
	defer l.group.close()
	for _, point := range o.Mounts {
		if err := l.group.mark(root, point); err != nil {
			return err
		}
	}
	return l.answerAll()
}

// answerAll answers until the injector or the target has ended. It also writes the signs of
// life, so that a listener that does not answer writes none.
func (l *listener) answerAll() error {
	if err := beginReporting(); err != nil {
		return err
	}
	reported := time.Now()
	buffer := make([]byte, 4096)
	ready := []unix.PollFd{{Fd: int32(l.group.fd), Events: unix.POLLIN}}
	for !child.Ended(0) {
		if _, err := unix.Poll(ready, int(beat.Milliseconds())); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for opens: %w", err)
		}
		events, err := l.group.events(buffer)
		for _, event := range events {
			l.answer(event)
		}
		if err != nil {
			return err
		}
		if time.Since(reported) >= beat {
			writeLine(strconv.FormatUint(l.denied, 10))
			reported = time.Now()
		}
	}
	return nil
}

// beginReporting reports that opens fail from now on.
func beginReporting() error {
	// If the injector does not read, the pipe may be full: the listener must not wait for it.
	if err := unix.SetNonblock(1, true); err != nil {
		return err
	}
	writeLine("listening")
	return nil
}

func writeLine(line string) { _, _ = unix.Write(1, []byte(line+"\n")) }

// answer decides about one open. After any error, the open continues.
func (l *listener) answer(event unix.FanotifyEventMetadata) {
	if event.Fd < 0 {
		return
	}
	defer unix.Close(int(event.Fd))
	response := uint32(unix.FAN_ALLOW)
	if l.meant(event) && l.share.next() {
		response = denial(l.Errno)
		l.denied++
	}
	// An error means that the process was killed meanwhile.
	_ = l.group.answer(event.Fd, response)
}

// meant is true for an open of the target, below the paths.
func (l *listener) meant(event unix.FanotifyEventMetadata) bool {
	file, err := nameOf(int(event.Fd))
	if err != nil || !below(l.Prefixes, within(l.base, file)) {
		return false
	}
	pid := int(event.Pid)
	if pid == os.Getpid() || pid == os.Getppid() {
		return false
	}
	return namespaceOf(target.DefaultProc, pid) == l.Namespace
}

// namespaceOf returns the name of a process's mount namespace, empty if it is unknown.
func namespaceOf(proc string, pid int) string {
	name, _ := os.Readlink(proc + "/" + strconv.Itoa(pid) + "/ns/mnt")
	return name
}
