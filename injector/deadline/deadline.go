//go:build linux

// Package deadline ends an injection at its deadline, whatever happens to the node's clock.
package deadline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// ErrPassed is the cause of an injection that ends at its deadline.
var ErrPassed = errors.New("the deadline has come")

// Until is done, because of ErrPassed, in either of two cases: the node's clock
// shows the deadline, or as much time has passed as was left at the call. A clock may be
// wrong, and may be set. The kernel waits for both, by CLOCK_REALTIME and CLOCK_BOOTTIME of
// timerfd_create(2), so that the time counts in which the machine is suspended.
func Until(ctx context.Context, i v1beta1.Injection) (context.Context, context.CancelFunc, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var timers []*os.File
	stop := func() {
		cancel(nil)
		for _, timer := range timers {
			timer.Close() // ends the read below
		}
	}
	start := func(clock, flags int, at int64) error {
		fd, err := unix.TimerfdCreate(clock, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
		if err != nil {
			return fmt.Errorf("timerfd_create: %w", err)
		}
		timer := os.NewFile(uintptr(fd), "timer")
		timers = append(timers, timer)
		if err := unix.TimerfdSettime(fd, flags, &unix.ItimerSpec{Value: unix.NsecToTimespec(at)}, nil); err != nil {
			return fmt.Errorf("timerfd_settime: %w", err)
		}
		go func() {
			if _, err := timer.Read(make([]byte, 8)); err == nil {
				cancel(ErrPassed)
			}
		}()
		return nil
	}
	err := start(unix.CLOCK_REALTIME, unix.TFD_TIMER_ABSTIME, i.Deadline.UnixNano())
	if err == nil && i.Remaining.Duration > 0 {
		err = start(unix.CLOCK_BOOTTIME, 0, int64(i.Remaining.Duration))
	}
	return ctx, stop, err
}

// Check returns an error if the deadline has passed, nil if there is time to inject.
func Check(i v1beta1.Injection, now time.Time) error {
	if now.Before(i.Deadline.Time) {
		return nil
	}
	return fmt.Errorf("nothing is injected after the deadline, %s: it is %s by the clock of this node",
		i.Deadline.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
}
