package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/squall-chaos/squall/hack/vm"
)

// guestDir is the kernel parameter with the directory of the guest's files. A
// kernel passes unknown parameters to the first process as its environment.
const guestDir = "kerneltest"

// Lines that the guest prints between what tests print.
const (
	markBegin = "\x16kerneltest begin " // a package
	markEnd   = "\x16kerneltest end "   // its exit code
	markDone  = "\x16kerneltest done"
)

func isGuest() bool { return os.Getpid() == 1 && os.Getenv(guestDir) != "" }

// guest is the first process of a machine: it makes a file system in which
// everything may be written, runs the tests, and turns the machine off.
func guest() {
	if err := runGuest(os.Getenv(guestDir)); err != nil {
		fmt.Println("kerneltest:", err) // on the console
	}
	syscall.Sync()
	err := syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF)
	fmt.Println("kerneltest: power off:", err)
	select {}
}

func runGuest(dir string) error {
	j, err := readJob(dir)
	if err != nil {
		return err
	}
	if err := vm.Load(j.Early); err != nil {
		return err
	}
	lower := "/"
	if j.Shared {
		if lower, err = mountShared(); err != nil {
			return err
		}
	}
	if err := makeRoot(lower); err != nil {
		return err
	}
	if err := vm.Load(j.Modules); err != nil {
		return err
	}
	results, err := openResults(j.Results)
	if err != nil {
		return err
	}
	os.Clearenv()
	for _, variable := range j.Env {
		name, value, _ := strings.Cut(variable, "=")
		os.Setenv(name, value)
	}
	if code, err := wait(exec.Command("ip", "link", "set", "lo", "up")); code != 0 || err != nil {
		return fmt.Errorf("set the loopback link up: exit code %d, %w", code, err)
	}
	for _, r := range j.Runs {
		fmt.Fprintln(results, markBegin+r.Package)
		code, err := r.do(results)
		if err != nil {
			fmt.Fprintln(results, err)
		}
		fmt.Fprintf(results, "%s%d\n", markEnd, code)
	}
	fmt.Fprintln(results, markDone)
	return nil
}

// openResults opens the serial line for results so that it prints bytes as they
// are.
func openResults(line string) (*os.File, error) {
	file, err := os.OpenFile(line, os.O_WRONLY|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	var settings syscall.Termios
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, file.Fd(), syscall.TCGETS, uintptr(unsafe.Pointer(&settings))); errno != 0 {
		return nil, fmt.Errorf("read the settings of %s: %w", file.Name(), errno)
	}
	settings.Oflag &^= syscall.OPOST
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, file.Fd(), syscall.TCSETS, uintptr(unsafe.Pointer(&settings))); errno != 0 {
		return nil, fmt.Errorf("change the settings of %s: %w", file.Name(), errno)
	}
	return file, nil
}

// do runs a test program, ends all processes that it left running, and returns its
// exit code.
func (r run) do(results io.Writer) (code int, err error) {
	output, theirs, err := os.Pipe()
	if err != nil {
		return -1, err
	}
	cmd := exec.Command(r.Binary, r.Args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.Dir, theirs, theirs
	cmd.Env = append(os.Environ(), "TMPDIR="+tempDir)
	copied := make(chan error, 1)
	whole := &lines{to: results}
	go func() {
		_, err := io.Copy(whole, output)
		copied <- err
	}()
	code, err = wait(cmd)
	theirs.Close()
	_ = syscall.Kill(-1, syscall.SIGKILL)
	reap()
	select {
	case copyErr := <-copied:
		err = errors.Join(err, copyErr)
	case <-time.After(10 * time.Second):
		err = errors.Join(err, errors.New("what the tests started does not end"))
	}
	return code, errors.Join(err, whole.end())
}

// wait starts a program and returns its exit code. As the first process it also
// reaps orphans, so no other code may wait for a process.
func wait(cmd *exec.Cmd) (code int, err error) {
	if err := cmd.Start(); err != nil {
		return -1, err
	}
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return -1, fmt.Errorf("wait for %s: %w", cmd.Path, err)
		case pid == cmd.Process.Pid && status.Signaled():
			return 128 + int(status.Signal()), nil
		case pid == cmd.Process.Pid:
			return status.ExitStatus(), nil
		}
	}
}

// reap takes away all processes that have ended, and waits for those that are about to.
func reap() {
	for {
		if _, err := syscall.Wait4(-1, nil, 0, nil); err != nil && !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

// lines passes text on and knows whether its last line has an end.
type lines struct {
	to   io.Writer
	last byte
}

func (l *lines) Write(text []byte) (int, error) {
	if len(text) > 0 {
		l.last = text[len(text)-1]
	}
	return l.to.Write(text)
}

func (l *lines) end() error {
	if l.last == 0 || l.last == '\n' {
		return nil
	}
	_, err := l.to.Write([]byte{'\n'})
	return err
}
