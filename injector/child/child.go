//go:build linux

// Package child runs processes of the injector's own program, such as those that
// use up a resource inside a target's cgroups. It promises that each of them ends
// with the injector and with the process that it watches, however either ends, and
// that each carries the mark of its injection on its command line, so that another
// process can find and end it.
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

// urgentNice is the priority of an urgent child: before all that the target runs,
// so that the load asked for is the load had.
const urgentNice = -20

// Family is what all children of a kind have in common.
type Family struct {
	Kind v1beta1.Kind
	// Command is the hidden subcommand of the injector that they execute.
	Command string
	// Prefix begins their marks, which are the argument after the command.
	Prefix string
	// Noun is what people call one, such as "burner".
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

// Of are the children of an injection. None is started yet.
func (f Family) Of(t *target.Target) *Children {
	return &Children{Family: f, mark: f.markOf(t.Injection), proc: t.ProcDir()}
}

// Probe says why no child could be watched here.
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
	words  *os.File // the child's standard output
	lines  *bufio.Reader
	errors bytes.Buffer
	ended  chan struct{} // closed once the child is collected
}

// Start starts a child that waits to be released; argument is for its command. It
// ends with the process of the pidfd watched. An urgent one comes before all that
// the target runs. It stays on a thread of its own until the child has ended,
// because the kernel takes the end of the thread that forked for the end of the
// parent.
func (c *Children) Start(argument string, watched *os.File, urgent bool) (*Child, error) {
	childInput, input, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start a %s: %w", c.Noun, err)
	}
	defer childInput.Close()
	words, childWords, err := os.Pipe()
	if err != nil {
		input.Close()
		return nil, fmt.Errorf("start a %s: %w", c.Noun, err)
	}
	defer childWords.Close()

	made := &Child{Family: c.Family, input: input, words: words, lines: bufio.NewReader(words), ended: make(chan struct{})}
	made.cmd = exec.Command("/proc/self/exe", c.Command, c.mark, argument)
	made.cmd.Env = []string{} // the injection's document is none of the target's business
	made.cmd.Stdin, made.cmd.Stdout, made.cmd.Stderr = childInput, childWords, &made.errors
	made.cmd.ExtraFiles = []*os.File{watched}
	made.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}

	started := make(chan error)
	// Thrown away: the thread gets a priority, and loses rights, as nobody else should.
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

// run is the life of the child as its parent thread sees it.
func (c *Child) run(started chan<- error, urgent bool) {
	defer close(c.ended)
	defer c.input.Close()
	defer c.words.Close()
	if urgent {
		// The child inherits it for all its threads. Without the right to it,
		// the child competes as an equal.
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, urgentNice)
	}
	err := c.start()
	started <- err
	if err == nil {
		_ = c.cmd.Wait() // killed is how it should end
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

// startTimeout bounds the time until a child's first word. Much of it is spare: for a
// target whose processor quota is used up, and for a chaos pod, which asks for a
// thousandth of a processor, on a node that is busy (more than 20 s were seen).
const startTimeout = time.Minute

// Release lets the child begin and waits for its word that it has, at most for
// startTimeout.
func (c *Child) Release(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("no word from it for %s", startTimeout))
	defer cancel()
	if _, err := c.input.Write([]byte{'\n'}); err != nil {
		return fmt.Errorf("release the %s: %w", c.Noun, err)
	}
	return c.Await(ctx)
}

// Await waits for the next line that the child says.
func (c *Child) Await(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = c.words.SetReadDeadline(time.Unix(1, 0)) })
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

// Guard reads the lines that a released child writes as signs of life, until it has
// ended, and returns why it has. It kills one that writes nothing for longer than
// silence. hear is given each line.
func (c *Child) Guard(silence time.Duration, hear func(line string)) error {
	for late := false; ; {
		wait := silence
		if late {
			// This process may have been the one that was held up: then something
			// is there to read.
			wait = silence / 10
		}
		_ = c.words.SetReadDeadline(time.Now().Add(wait)) // or the child has ended
		line, err := c.lines.ReadString('\n')             // a line is written at once
		switch {
		case err == nil:
			late = false
			hear(line)
		case errors.Is(err, os.ErrDeadlineExceeded) && !late:
			late = true
		case errors.Is(err, os.ErrDeadlineExceeded):
			return c.Abandon(fmt.Errorf("the %s did not answer for %s and was killed", c.Noun, silence))
		default:
			return c.Abandon(fmt.Errorf("the %s has ended", c.Noun))
		}
	}
}

// Abandon ends the child and adds to err what it had to say.
func (c *Child) Abandon(err error) error {
	_ = c.cmd.Process.Kill() // it may have ended by itself
	<-c.ended
	if said := strings.TrimSpace(c.errors.String()); said != "" {
		return fmt.Errorf("%w: %s", err, said)
	}
	return err
}
