package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// guestFiles is what a machine is started from.
type guestFiles struct {
	kernel string // directory of the unpacked package
	dir    string // with the guest's program and its job
	job    job
	needed []string // modules by name
}

// guestProgram is this program, as the guest finds it.
const guestProgram = "init"

// boot runs the job in the machine and reports what it prints. An error means
// that the machine did not do all of it.
func (m machine) boot(ctx context.Context, kernel, dir string, j job, to *report) error {
	command, env, err := m.start(guestFiles{kernel: kernel, dir: dir, job: j, needed: m.modules})
	if err != nil {
		return fmt.Errorf("prepare %s: %w", m.name, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, m.limit, fmt.Errorf("not at the end after %s", m.limit))
	defer cancel()
	console, err := os.CreateTemp("", "kerneltest-"+m.name+"-*.log")
	if err != nil {
		return err
	}
	defer console.Close()
	err = m.attend(ctx, command, env, console, to)
	if err == nil && !to.failed {
		return os.Remove(console.Name())
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: the last that the console of %s says:\n%s\n", console.Name(), m.name, tail(console, 8<<10))
	}
	return err
}

// attend starts the machine and reads what it prints until it ends, or is ended
// because its time is over.
func (m machine) attend(ctx context.Context, command, env []string, console *os.File, to *report) error {
	results, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer results.Close()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = console, console, []*os.File{theirs}
	// User-Mode Linux is many processes: all of them are to end.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		return errors.Join(fmt.Errorf("start %s: %w", m.name, err), theirs.Close())
	}
	theirs.Close()
	read := make(chan error, 1)
	go func() { read <- to.read(results) }()
	err = cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what the first of them left
	readErr := <-read
	if to.complete {
		return readErr // the end of a machine that was ordered to end proves nothing
	}
	why := errors.Join(context.Cause(ctx), err)
	if why == nil {
		why = errors.New("it ended before it had run all tests")
	}
	return errors.Join(fmt.Errorf("%s failed, not a test: %w", m.name, why), to.interrupted(), readErr)
}

// tail is the end of a file.
func tail(file *os.File, most int64) []byte {
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil
	}
	text := make([]byte, min(size, most))
	n, _ := file.ReadAt(text, size-int64(len(text)))
	return text[:n]
}
