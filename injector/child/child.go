//go:build linux

// Package child runs processes of the injector's own program, such as those that use up a
// resource inside a target's cgroups. It promises that each of them ends with the injector
// and with the process that it watches, however either ends. Each carries the mark of its
// injection on its command line, so that another process can find and end it.
package child

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/target"
)

// urgentNice is the priority of an urgent child: above everything the target runs, so that
// the child reaches its load.
const urgentNice = -20

// Family has the properties that all children of a kind share.
type Family struct {
	Kind v1beta1.Kind
	// Command is the hidden subcommand of the injector that they execute.
	Command string
	// Prefix begins their marks, which are the argument after the command.
	Prefix string
	// Noun is the name of one child in messages, such as "burner".
	Noun string
	// Powerless children have no capabilities, and can get none.
	Powerless bool
}

// Children are those of one injection.
type Children struct {
	Family
	mark, proc string
	reapers    sync.WaitGroup

	starting sync.Mutex
	started  []int
}

// Of returns the children of an injection, before any start.
func (f Family) Of(t *target.Target) *Children {
	return &Children{Family: f, mark: f.markOf(t.Injection), proc: t.ProcDir()}
}

// Probe returns an error if no child can be watched here.
func (f Family) Probe() error {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return fmt.Errorf("%s needs process descriptors (Linux 5.3): %w", f.Kind, err)
	}
	return unix.Close(fd)
}

// Child is one running child.
type Child struct {
	Family
	cmd    *exec.Cmd
	input  *os.File // the child ends when this is closed
	output *os.File // the child's standard output
	lines  *bufio.Reader
	errors bytes.Buffer
	ended  chan struct{} // closed once the child was waited for
}

// Start starts a child that waits to be released; argument is for its command. It ends with
// the process of the pidfd watched. An urgent child has priority over everything the target
// runs. The child's parent is a thread of its own until the child has ended: to the kernel,
// the end of the thread that forked is the end of the parent.
func (c *Children) Start(argument string, watched *os.File, urgent bool) (*Child, error) {
	childInput, input, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start a %s: %w", c.Noun, err)
	}
	defer childInput.Close()
	output, childOutput, err := os.Pipe()
	if err != nil {
		input.Close()
		return nil, fmt.Errorf("start a %s: %w", c.Noun, err)
	}
	defer childOutput.Close()

	made := &Child{Family: c.Family, input: input, output: output, lines: bufio.NewReader(output), ended: make(chan struct{})}
	made.cmd = exec.Command("/proc/self/exe", c.Command, c.mark, argument)
	made.cmd.Env = []string{} // the target must not see the injection's document
	made.cmd.Stdin, made.cmd.Stdout, made.cmd.Stderr = childInput, childOutput, &made.errors
	made.cmd.ExtraFiles = []*os.File{watched}
	made.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}

	started := make(chan error)
	// The thread is discarded: it gets a priority, and loses rights, which must not reach
	// other goroutines.
	c.reapers.Go(func() {
		_ = target.OnThrowawayThread(func() error { made.run(started, urgent); return nil })
	})
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start a %s: %w", c.Noun, err)
	}
	c.starting.Lock()
	defer c.starting.Unlock()
	c.started = append(c.started, made.PID())
	return made, nil
}

// run starts the child and waits for its end, on its parent thread.
func (c *Child) run(started chan<- error, urgent bool) {
	defer close(c.ended)
	defer c.input.Close()
	defer c.output.Close()
	if urgent {
		// The child inherits it for all its threads. Without the right to it, the child competes
		// as an equal.
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, urgentNice)
	}
	err := c.start()
	started <- err
	if err == nil {
		_ = c.cmd.Wait() // a killed process is the expected end
	}
}

func (c *Child) start() error {
	if c.Powerless {
		if err := GiveUpRights(); err != nil {
			return err
		}
	}
	return c.cmd.Start()
}

// PID is the number of the child as this process sees it.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// startTimeout bounds the time until a child's first line. Much of it is spare, for a
// target whose processor quota is used up. On a busy node a chaos pod, which requests a
// thousandth of a processor, took more than 20 s.
const startTimeout = time.Minute

// Release lets the child begin and waits for its first line, at most for startTimeout.
func (c *Child) Release(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("no word from it for %s", startTimeout))
	defer cancel()
	if _, err := c.input.Write([]byte{'\n'}); err != nil {
		return fmt.Errorf("release the %s: %w", c.Noun, err)
	}
	return c.Await(ctx)
}

// Await waits for the next line of the child.
func (c *Child) Await(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = c.output.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	_, err := c.lines.ReadString('\n')
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("wait for the %s, which a frozen cgroup or a busy machine may keep from running: %w", c.Noun, context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("the %s ended before it was ready", c.Noun)
	}
	return nil
}

// Guard reads the lines that a released child writes as signs of life, until it has ended,
// and returns the reason. It kills a child that writes nothing for longer than silence. It
// passes each line to handle.
func (c *Child) Guard(silence time.Duration, handle func(line string)) error {
	for late := false; ; {
		wait := silence
		if late {
			// The injector may have been the one that was delayed: then there is a line to read.
			wait = silence / 10
		}
		_ = c.output.SetReadDeadline(time.Now().Add(wait)) // or the child has ended
		line, err := c.lines.ReadString('\n')              // a line is written at once
		switch {
		case err == nil:
			late = false
			handle(line)
		case errors.Is(err, os.ErrDeadlineExceeded) && !late:
			late = true
		case errors.Is(err, os.ErrDeadlineExceeded):
			return c.Abandon(fmt.Errorf("the %s did not answer for %s and was killed", c.Noun, silence))
		default:
			return c.Abandon(fmt.Errorf("the %s has ended", c.Noun))
		}
	}
}

// Abandon ends the child and adds its error output to err.
func (c *Child) Abandon(err error) error {
	_ = c.cmd.Process.Kill() // it may have ended already
	<-c.ended
	if text := strings.TrimSpace(c.errors.String()); text != "" {
		return fmt.Errorf("%w: %s", err, text)
	}
	return err
}
