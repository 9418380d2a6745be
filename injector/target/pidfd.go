//go:build linux

package target

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Pidfd opens a descriptor of the container's first process. It becomes
// readable when that process ends, and signals through it never reach another
// process. It returns ErrGone, wrapped, if the process has ended; the caller
// closes the file.
func (c Container) Pidfd() (*os.File, error) {
	if c.PID == 0 {
		return nil, c.Check()
	}
	fd, err := unix.PidfdOpen(c.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil, fmt.Errorf("container %s (%s), process %d: %w", c.Name, c.ID, c.PID, ErrGone)
	}
	if err != nil {
		return nil, fmt.Errorf("open a descriptor of process %d of container %s: %w", c.PID, c.Name, err)
	}
	// AwaitEnd needs it. As a flag of pidfd_open it would need Linux 5.10.
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("open a descriptor of process %d of container %s: %w", c.PID, c.Name, err)
	}
	file := os.NewFile(uintptr(fd), "pidfd:"+strconv.Itoa(c.PID))
	// The number is fixed to a process only now, so check that the process is ours.
	if err := c.Check(); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// Self opens a descriptor of this process. At level node its end replaces that of the
// target, which is watched elsewhere. The caller closes the file.
func Self() (*os.File, error) {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return nil, fmt.Errorf("open a descriptor of the injector: %w", err)
	}
	return os.NewFile(uintptr(fd), "pidfd"), nil
}

// Signal sends a signal through a descriptor that Pidfd opened. It returns
// ErrGone, wrapped, if the process has ended.
func Signal(pidfd *os.File, signal unix.Signal) error {
	connection, err := pidfd.SyscallConn()
	if err != nil {
		return err
	}
	var sendErr error
	err = connection.Control(func(fd uintptr) {
		sendErr = unix.PidfdSendSignal(int(fd), signal, nil, 0)
	})
	return errors.Join(err, goneIfMissing(sendErr))
}

// AwaitEnd waits until the process of a Pidfd descriptor has ended, and then returns nil.
// It returns the context's error if that is done before.
func AwaitEnd(ctx context.Context, pidfd *os.File) error {
	connection, err := pidfd.SyscallConn()
	if err != nil {
		return err
	}
	if err := pidfd.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("await the end of %s: %w", pidfd.Name(), err)
	}
	stop := context.AfterFunc(ctx, func() { pidfd.SetReadDeadline(time.Now()) })
	defer stop()
	var pollErr error
	err = connection.Read(func(fd uintptr) (done bool) {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		ready, err := unix.Poll(poll, 0)
		if err != nil && !errors.Is(err, unix.EINTR) {
			pollErr = err
			return true
		}
		return ready == 1
	})
	if ctx.Err() != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		return ctx.Err()
	}
	if err := errors.Join(err, pollErr); err != nil {
		return fmt.Errorf("await the end of %s: %w", pidfd.Name(), err)
	}
	return nil
}
