//go:build linux

// Package containerfailure ends containers by a signal to their first process. It promises
// to signal no other process. A signal without effect is reported and never counts as an
// injection.
package containerfailure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/injector/target"
)

const (
	// unhandledGrace is how long a process that seems not to handle SIGTERM has to end: it may
	// be about to install its handler.
	unhandledGrace = 5 * time.Second
	// handledGrace is how long a process that handles SIGTERM may take. It is
	// the time Kubernetes gives a container by default.
	handledGrace = 30 * time.Second
)

// Injector signals the containers of one target.
type Injector struct {
	params     v1beta1.ContainerFailure
	containers []target.Container
	ended      []target.Container // by Inject

	unhandledGrace, handledGrace time.Duration
}

// New returns the injector of a target. It needs no journal: an ended process cannot be
// restored, and the kubelet restarts its container.
func New(params v1beta1.ContainerFailure, t *target.Target, _ *journal.Journal) *Injector {
	return &Injector{
		params: params, containers: t.Containers,
		unhandledGrace: unhandledGrace, handledGrace: handledGrace,
	}
}

// Inject signals the first process of every container and waits for their ends. If one of
// them is gone already, it signals none: this injection did not end that one. It waits for
// a container that is being started: killed then, it would never have run, and the runtime
// would report an error of its own. It returns an error naming each container that did not
// end, with the reason as far as the kernel shows it.
func (i *Injector) Inject(ctx context.Context) error {
	if len(i.containers) == 0 {
		return errors.New("container failure needs containers: it works at level pod only")
	}
	var processes []firstProcess
	defer func() {
		for _, p := range processes {
			p.pidfd.Close()
		}
	}()
	for _, container := range i.containers {
		pidfd, err := container.Pidfd()
		if err != nil {
			return err
		}
		processes = append(processes, firstProcess{container, pidfd})
		if err := i.awaitStart(ctx, container); err != nil {
			return err
		}
	}
	var errs []error
	for _, p := range processes {
		errs = append(errs, p.signal(i.params.Forced))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, p := range processes {
		err := i.awaitEnd(ctx, p)
		if err == nil {
			i.ended = append(i.ended, p.Container)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Every is the interval at which the running containers are ended again; 0 means never.
func (i *Injector) Every() time.Duration {
	if i.params.Interval == nil {
		return 0
	}
	return i.params.Interval.Duration
}

// Clean does nothing and is safe to call at any time.
func (i *Injector) Clean(context.Context) error { return nil }

// Left is always empty: a signal leaves nothing to undo.
func (i *Injector) Left(context.Context) ([]string, error) { return nil, nil }

// firstProcess is one first process, held by a descriptor so that its number cannot be
// reused.
type firstProcess struct {
	target.Container
	pidfd *os.File
}

func (p firstProcess) signal(forced bool) error {
	number := unix.SIGTERM
	if forced {
		number = unix.SIGKILL
	}
	if err := target.Signal(p.pidfd, number); err != nil {
		return fmt.Errorf("send %s to process %d of container %s: %w", unix.SignalName(number), p.PID, p.Name, err)
	}
	return nil
}

// awaitStart returns when the application runs in a container. It waits for that as long as
// for its end.
func (i *Injector) awaitStart(ctx context.Context, c target.Container) error {
	bounded, cancel := context.WithTimeout(ctx, i.handledGrace)
	defer cancel()
	for {
		started, err := c.Started()
		if err != nil {
			return fmt.Errorf("see whether container %s (%s) runs: %w", c.Name, c.ID, err)
		}
		if started {
			return nil
		}
		select {
		case <-bounded.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("container %s was created, and does not run after %s: it was not signalled", c.Name, i.handledGrace)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (i *Injector) awaitEnd(ctx context.Context, p firstProcess) error {
	grace := i.unhandledGrace
	why, err := p.whyUnaffected(i.params.Forced)
	switch {
	case errors.Is(err, target.ErrGone):
		return nil
	case err != nil:
		return err
	case why == slow:
		grace = i.handledGrace
	}
	bounded, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	err = target.AwaitEnd(bounded, p.pidfd)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return i.explain(p, grace)
}

// explain returns why a process outlived its signal. It reads how the process treats the
// signal now, which may have changed since.
func (i *Injector) explain(p firstProcess, grace time.Duration) error {
	why, err := p.whyUnaffected(i.params.Forced)
	if errors.Is(err, target.ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("process %d of container %s still runs after %s: %s", p.PID, p.Name, grace, why)
}
