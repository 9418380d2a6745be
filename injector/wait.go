//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/injector/target"
)

const (
	// releaseSignal asks a container that holds a pod back to end.
	releaseSignal = unix.SIGUSR1
	// waitTimeout is the default for how long such a container waits.
	waitTimeout = time.Minute
	// The injector sends releaseSignal every releaseEvery, for releasePatience: a container
	// that has just begun does not handle it yet.
	releaseEvery    = 100 * time.Millisecond
	releasePatience = 5 * time.Second
)

// wait is the command of the init container that holds back a pod for a disruption. It ends
// when an injector signals it, and after a timeout in any case: the pod must start,
// disrupted or not.
func (p program) wait(ctx context.Context, _ Config, args []string) int {
	ctx, stop := signal.NotifyContext(ctx, releaseSignal, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	flags := flag.NewFlagSet(v1beta1.OnInitCommand, flag.ContinueOnError)
	flags.SetOutput(p.stderr)
	timeout := flags.Duration("timeout", waitTimeout, "how long to wait at most")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		fmt.Fprintln(p.stderr, "usage: injector wait [--timeout DURATION]")
		return exitRefused
	}
	fmt.Fprintf(p.stdout, "the pod waits until it is disrupted, for at most %s\n", *timeout)
	if sleep(ctx, *timeout) {
		fmt.Fprintf(p.stdout, "no disruption within %s: the pod starts\n", *timeout)
		return exitOK
	}
	fmt.Fprintln(p.stdout, "the pod is released: it starts")
	return exitOK
}

// releasePod releases a pod that waits for this injection, once all kinds of its disruption
// are in force. Each kind's injector notes its own injection before it reads the others'
// notes, so the last one sees all of them.
func (l *lifecycle) releasePod(ctx context.Context) error {
	if len(l.injection.OnInit) == 0 {
		return nil
	}
	waiting, err := l.current.Waiting()
	if errors.Is(err, target.ErrGone) {
		return nil // it was released before, or its time was over
	}
	if err != nil {
		return err
	}
	if err := l.session.journal.NoteInjectedFor(waiting.ID); err != nil {
		return err
	}
	missing, err := notInForce(l.config.JournalDir, l.injection, waiting.ID)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		l.log.Info("the pod is held back for other kinds", zap.Any("kinds", missing))
		return nil
	}
	// A pod that was not released starts after its own timeout, so the injection stays in
	// force.
	if err := release(ctx, waiting, l.config.Proc); err != nil {
		l.log.Warn("the pod was not released", zap.String("reason", err.Error()))
		return nil
	}
	l.log.Info("the pod was released")
	return nil
}

// notInForce returns the kinds the container waits for that are not in force yet.
func notInForce(dir string, injection v1beta1.Injection, id string) ([]v1beta1.Kind, error) {
	entries, err := journal.List(dir)
	if err != nil {
		return nil, err
	}
	missing := slices.Clone(injection.OnInit)
	for _, entry := range entries {
		if entry.InjectedFor == id && entry.Injection.Disruption.UID == injection.Disruption.UID {
			missing = slices.DeleteFunc(missing, func(kind v1beta1.Kind) bool { return kind == entry.Injection.Kind })
		}
	}
	return missing, nil
}

// release signals the first process of a waiting container until it has ended. It signals
// no foreign process, and none without a handler: the signal would kill it.
func release(ctx context.Context, c target.Container, proc string) error {
	first, err := c.Pidfd()
	if err != nil {
		return err
	}
	defer first.Close()
	if err := isWait(c, proc); err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, releasePatience)
	defer stop()
	for ctx.Err() == nil {
		if listens(c) {
			if err := target.Signal(first, releaseSignal); err != nil {
				return err
			}
		}
		look, stop := context.WithTimeout(ctx, releaseEvery)
		err := target.AwaitEnd(look, first)
		stop()
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("container %s (%s) has not ended for %s after SIGTERM", c.Name, c.ID, releasePatience)
}

// isWait returns an error unless a container runs the subcommand wait of an injector.
func isWait(c target.Container, proc string) error {
	if proc == "" {
		proc = target.DefaultProc
	}
	line, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(c.PID), "cmdline"))
	if err != nil {
		return err
	}
	args := strings.Split(string(line), "\x00")
	if len(args) < 2 || filepath.Base(args[0]) != "injector" || args[1] != v1beta1.OnInitCommand {
		return fmt.Errorf("container %s (%s) runs %q, which is not ours", c.Name, c.ID, args[0])
	}
	return nil
}

// listens is true if the first process has a handler for the signal.
func listens(c target.Container) bool {
	caught, err := c.Status("SigCgt")
	if err != nil {
		return false
	}
	mask, err := strconv.ParseUint(caught, 16, 64)
	return err == nil && mask&(1<<(releaseSignal-1)) != 0
}

// refusedOnInit adds the advice to an error about a pod that did not wait long enough.
func refusedOnInit(injection v1beta1.Injection, err error) error {
	if len(injection.OnInit) == 0 || !errors.Is(err, target.ErrGone) {
		return err
	}
	return fmt.Errorf("the pod started before it could be disrupted; set a longer time in its annotation %s: %w", v1beta1.AnnotationOnInitTimeout, err)
}

// refuseNodeNetwork refuses a waiting pod in the node's network. The disruption would act
// on packets of containers that have not started, and those look like the node's own.
func refuseNodeNetwork(t *target.Target) error {
	if len(t.Injection.OnInit) == 0 {
		return nil
	}
	for _, container := range t.Containers {
		shared, err := t.SharesNodeNetwork(container.Netns.NetnsID)
		if err != nil {
			return err
		}
		if shared {
			return fmt.Errorf("pod %s/%s shares the network of node %s, so its start cannot be disrupted: choose pods without hostNetwork, or leave out onInit",
				t.Injection.Target.Namespace, t.Injection.Target.Name, t.Injection.Target.NodeName)
		}
	}
	return nil
}

// refuseStarted refuses to disrupt the start of a pod that has started. A trigger or a
// pulse may have delayed the injection for longer than the pod waits.
func (l *lifecycle) refuseStarted() error {
	if len(l.injection.OnInit) == 0 {
		return nil
	}
	_, err := l.current.Waiting()
	return refusedOnInit(l.injection, err)
}
