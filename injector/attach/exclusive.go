//go:build linux

package attach

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/target"
)

// exclusiveWait is how long one injector waits for others at the same target.
const exclusiveWait = 2 * time.Second

// Exclusively runs f while no other injector changes filters in the namespace. The removal
// of the last filter removes the clsact, which must not happen while another injector adds
// its own filter. The lock is a bound name in the namespace, which the kernel frees when
// its owner dies. After exclusiveWait f runs without it, as the target itself could hold
// the name, and must not prevent the cleaning.
func Exclusively(netns string, f func(Conn) error) error {
	c, err := Open(netns)
	if err != nil {
		return err
	}
	defer c.Close()
	var lock int
	err = target.Do(netns, func() (err error) {
		lock, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return fmt.Errorf("make a lock in %s: %w", netns, err)
	}
	defer unix.Close(lock)
	deadline := time.Now().Add(exclusiveWait)
	for errors.Is(unix.Bind(lock, &unix.SockaddrUnix{Name: "@squall-network"}), unix.EADDRINUSE) && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	return f(c)
}
