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

// beat is how often a listener says that it answers, silence how long it may say
// nothing until it is ended, so that no open waits for longer than 2 s. For one with a
// program no open waits; but it has to see the end of its target.
const (
	beat           = 400 * time.Millisecond
	silence        = 1500 * time.Millisecond
	programSilence = 15 * time.Second
)

// order is what a listener has to do.
type order struct {
	// Way is how: by a hook, or fanotify.
	Way string
	// Root leads to the root of the target's processes, Namespace names their
	// mount namespace.
	Root, Namespace string
	// Mounts are the points of the mounts to listen at, Prefixes the paths below
	// which opens fail, both as the target sees them.
	Mounts, Prefixes []string
	// Devices are those of the mounts' filesystems, as the kernel keeps their numbers.
	Devices []uint32
	Errno   unix.Errno
	Percent int

	// found are the mounts, each with what tells it from another one at its point.
	found []string
}

// silence is how long the listener may say nothing.
func (o order) silence() time.Duration {
	if o.Way == byFanotify {
		return silence
	}
	return programSilence
}

// listener answers fanotify, which asks before each open on the mounts of an
// order.
type listener struct {
	order
	group group
	base  string // where Root is in its mount namespace
	share share
	// denied counts the opens that failed.
	denied uint64
}

// Listen is the listener, a child process of the injector. It does nothing until a
// byte comes on its standard input, then it listens and says so in a line on its
// standard output, and from then on, now and again, in a line with the number of
// opens that it has made fail.
//
// It ends, without an error, when its standard input is closed (the injector is
// gone) or the process behind the pidfd in file descriptor 3 is gone, and with it
// ends all that it did. args are the mark that lets Clean and Audit find it, and
// its order.
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
	// Whoever opens a file waits for this process: it should not wait for its own
	// memory. Without the right to it, it may have to.
	_ = unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE | unix.MCL_ONFAULT)
	root, err := openRoot(o.Root)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	// Root was found by number: it is the target's if its process still is.
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

// answerAll answers until the injector or the target has ended. The sign of life
// comes from here, so that there is none from a listener that does not answer.
func (l *listener) answerAll() error {
	if err := beginToSay(); err != nil {
		return err
	}
	said := time.Now()
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
		if time.Since(said) >= beat {
			say(strconv.FormatUint(l.denied, 10))
			said = time.Now()
		}
	}
	return nil
}

// beginToSay says that opens fail from now on.
func beginToSay() error {
	// The pipe may be full if nobody reads: then this must not wait.
	if err := unix.SetNonblock(1, true); err != nil {
		return err
	}
	say("listening")
	return nil
}

func say(line string) { _, _ = unix.Write(1, []byte(line+"\n")) }

// answer decides about one open. Whatever goes wrong, it is let go on.
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

// meant tells whether an open is one of the target, below the paths.
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

// namespaceOf names the mount namespace of a process, empty if that is not known.
func namespaceOf(proc string, pid int) string {
	name, _ := os.Readlink(proc + "/" + strconv.Itoa(pid) + "/ns/mnt")
	return name
}
