//go:build linux

package child

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// watchedFD is the pidfd of the process that a child must not outlive; the parent
// passes it as the first file after the standard ones.
const watchedFD = 3

// AwaitRelease is the first call of a child. It returns false when the child must end
// instead, because the injector is gone.
func AwaitRelease() bool {
	_, err := os.Stdin.Read(make([]byte, 1))
	return err == nil
}

// Ended waits, in a child, for the end of the injector or of the watched process,
// but no longer than wait.
func Ended(wait time.Duration) bool {
	ends := []unix.PollFd{{Fd: 0, Events: unix.POLLIN}, {Fd: watchedFD, Events: unix.POLLIN}}
	count, err := unix.Poll(ends, int(wait.Milliseconds()))
	if errors.Is(err, unix.EINTR) {
		return false
	}
	return err != nil || count > 0
}

// Sacrifice makes the kernel end this child before any process of the target when memory
// runs out. Without the right to it, nothing changes.
func Sacrifice() {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
}
