package cpupressure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// urgentNice is the priority of a burner inside a target's cgroup: before all
// that the target runs, so that the load asked for is the load had.
const urgentNice = -20

// burner is a running child that executes Burn.
type burner struct {
	cmd    *exec.Cmd
	input  *os.File // the child ends when this is closed
	words  *os.File // the child's standard output
	errors bytes.Buffer
	ended  chan struct{} // closed once the child is collected
}

// start starts a burner that waits to be released. It stays on a thread of its
// own until the child has ended, because the kernel takes the end of the thread
// that forked for the end of the parent.
func (i *Injector) start(mark string, load load, watched *os.File, urgent bool) (*burner, error) {
	childInput, input, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start a burner: %w", err)
	}
	defer childInput.Close()
	words, childWords, err := os.Pipe()
	if err != nil {
		input.Close()
		return nil, fmt.Errorf("start a burner: %w", err)
	}
	defer childWords.Close()

	b := &burner{input: input, words: words, ended: make(chan struct{})}
	b.cmd = exec.Command("/proc/self/exe", BurnCommand, mark, load.String())
	b.cmd.Env = []string{} // the injection's document is none of the target's business
	b.cmd.Stdin, b.cmd.Stdout, b.cmd.Stderr = childInput, childWords, &b.errors
	b.cmd.ExtraFiles = []*os.File{watched}
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}

	started := make(chan error)
	i.reapers.Go(func() { b.run(started, urgent) })
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start a burner: %w", err)
	}
	return b, nil
}

// run is the life of the child as its parent thread sees it.
func (b *burner) run(started chan<- error, urgent bool) {
	// Never unlocked: the thread has a priority that nobody else should get.
	runtime.LockOSThread()
	defer close(b.ended)
	defer b.input.Close()
	defer b.words.Close()
	if urgent {
		// The child inherits it for all its threads. Without the right to it,
		// the burner competes as an equal.
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, urgentNice)
	}
	err := b.cmd.Start()
	started <- err
	if err == nil {
		_ = b.cmd.Wait() // killed is how it should end
	}
}

func (b *burner) pid() int { return b.cmd.Process.Pid }

// release lets the child burn and waits for its word that it does.
func (b *burner) release(ctx context.Context) error {
	if _, err := b.input.Write([]byte{'\n'}); err != nil {
		return fmt.Errorf("release the burner: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = b.words.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	_, err := b.words.Read(make([]byte, 1))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("wait for the burner to start, which it cannot in a frozen cgroup: %w", context.Cause(ctx))
	}
	if err != nil {
		return errors.New("the burner ended before it burned")
	}
	return nil
}

// abandon ends the child and adds to err what it had to say.
func (b *burner) abandon(err error) error {
	_ = b.cmd.Process.Kill() // it may have ended by itself
	<-b.ended
	if said := strings.TrimSpace(b.errors.String()); said != "" {
		return fmt.Errorf("%w: %s", err, said)
	}
	return err
}
