//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
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
	// guardCommand is the hidden subcommand of a guard.
	guardCommand = "guard"
	// guardedFD is the pidfd of the injector, which it passes to its guard.
	guardedFD = 3
	// guardEnds is how long an injector waits for a killed guard to end.
	guardEnds = 5 * time.Second
)

// lastToKill makes the kernel spare a guard as long as it can when memory runs out.
const lastToKill = "-998"

// guard is the process that cleans in place of an injector that was killed.
type guard struct {
	command *exec.Cmd
	cgroups []string
	ended   chan struct{}
}

// guard starts the guard of an injection, before anything is changed. It returns nil for a
// kind whose effects end with its process, for a dry run, and if the start fails. Without a
// guard, or after a guard was killed, only a cleaner cleans; no guard is started again.
func (l *lifecycle) guard() *guard {
	if !l.config.Guard || !l.kinds[l.injection.Kind].outlives || l.injection.DryRun {
		return nil
	}
	made, err := startGuard(l.config, l.injection)
	switch {
	case made == nil:
		l.log.Warn("no guard: if this process is killed, only a cleaner pod can clean up", zap.String("reason", err.Error()))
	case err != nil:
		l.log.Warn("the guard may be ended together with this process", zap.String("reason", err.Error()))
	}
	return made
}

// startGuard returns a running guard, also with an error.
func startGuard(config Config, injection v1beta1.Injection) (*guard, error) {
	watched, err := target.Self()
	if err != nil {
		return nil, err
	}
	defer watched.Close()
	g := &guard{ended: make(chan struct{})}
	g.command = exec.Command("/proc/self/exe", guardCommand, "--disruption", string(injection.Disruption.UID),
		"--target", string(injection.Target.UID), "--kind", string(injection.Kind))
	g.command.Args[0] = v1beta1.GuardName
	// The guard finds its injection in the journal. A session of its own shields it from
	// signals to the injector. Without standard files it keeps no log open.
	g.command.Env = slices.DeleteFunc(os.Environ(), func(line string) bool { return strings.HasPrefix(line, v1beta1.InjectionEnv+"=") })
	g.command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	g.command.ExtraFiles = []*os.File{watched}
	if err := g.command.Start(); err != nil {
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	go func() {
		_ = g.command.Wait() // a killed process is the expected end
		close(g.ended)
	}()
	g.cgroups, err = target.LeaveContainer(config.Proc, g.command.Process.Pid, v1beta1.GuardName)
	return g, err
}

// end stops the guard of an injector that has cleaned.
func (g *guard) end() {
	if g == nil {
		return
	}
	_ = g.command.Process.Kill() // or it was killed before
	select {
	case <-g.ended:
	case <-time.After(guardEnds):
	}
	for _, dir := range g.cgroups {
		_ = os.Remove(dir) // the kubelet removes it with the chaos pod's
	}
}

// keepGuard is the guard's program. It waits for the end of its injector and then does what
// `injector clean` does for this injection. An injector that cleaned has ended its guard
// before.
func (p program) keepGuard(ctx context.Context, config Config, args []string) int {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	// On an error it keeps the injector's value.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte(lastToKill), 0)
	flags := flag.NewFlagSet(guardCommand, flag.ContinueOnError)
	flags.SetOutput(p.stderr)
	var only filter
	only.flags(flags, p.kinds)
	flags.StringVar(&only.target, "target", "", "the `UID` of the target")
	if err := flags.Parse(args); err != nil || len(only.disruptions) != 1 || only.target == "" || len(only.kinds) != 1 {
		fmt.Fprintln(p.stderr, "an injector starts its guard itself")
		return exitRefused
	}
	if err := awaitEndOf(guardedFD); err != nil {
		fmt.Fprintln(p.stderr, err)
		return exitRefused
	}
	entries, err := journal.List(config.JournalDir)
	report := v1beta1.CleanReport{}
	if err := errors.Join(err, p.cleanAll(ctx, config, only.of(entries), &report)); err != nil || len(report.Left) > 0 {
		return exitNotCleaned
	}
	return exitOK
}

// awaitEndOf waits until the process of a pidfd has ended. Its locks are free then.
func awaitEndOf(pidfd int) error {
	for {
		end := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
		count, err := unix.Poll(end, -1)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("wait for the end of the injector: %w", err)
		case count > 0 && end[0].Revents&unix.POLLIN == 0:
			return errors.New("wait for the end of the injector: there is no descriptor of it")
		case count > 0:
			return nil
		}
	}
}
