//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// errDeadline is why an injection ends that nobody asked to end.
var errDeadline = errors.New("the deadline has come")

// untilDeadline is done, because of errDeadline, when the node's clock shows the
// injection's deadline, or when as much time has passed as was left when it was asked
// for, whichever comes first: a clock may be wrong, and may be set. The kernel waits for
// both, by CLOCK_REALTIME and CLOCK_BOOTTIME of timerfd_create(2), so that the time counts
// in which the machine is suspended.
func untilDeadline(ctx context.Context, i v1beta1.Injection) (context.Context, context.CancelFunc, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var timers []*os.File
	stop := func() {
		cancel(nil)
		for _, timer := range timers {
			timer.Close() // whoever reads it goes on
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
				cancel(errDeadline)
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

// tooLate says that there is no time in which to inject; nil if there is.
func tooLate(i v1beta1.Injection, now time.Time) error {
	if now.Before(i.Deadline.Time) {
		return nil
	}
	return fmt.Errorf("nothing is injected after the deadline, %s: it is %s by the clock of this node",
		i.Deadline.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
}
