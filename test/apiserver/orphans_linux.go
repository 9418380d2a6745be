package apiserver

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// processesVariable names the processes that the test program, run once more, ends
// when the program that runs the tests is gone.
const processesVariable = "SQUALL_TEST_PROCESSES"

// endOrphans is the whole work of a test program that runs with processesVariable: it
// waits until the writing end of its standard input is closed, which the kernel does
// however the other program ends, and kills what is left of the processes.
func endOrphans(processes string) int {
	var handles []int
	for field := range strings.FieldsSeq(processes) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return 2
		}
		// By a handle: the number may belong to another process by then.
		if handle, err := unix.PidfdOpen(pid, 0); err == nil {
			handles = append(handles, handle)
		}
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	for _, handle := range handles {
		_ = unix.PidfdSendSignal(handle, unix.SIGKILL, nil, 0)
	}
	return 0
}

// leaveNoOrphans starts such a program for the servers that this one has started:
// envtest gives them no parent-death signal. It ends after this one.
func leaveNoOrphans() error {
	var mine []string
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return err
	}
	for _, file := range all {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		name, rest, _ := strings.Cut(string(stat[strings.IndexByte(string(stat), '(')+1:]), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) &&
			(name == etcdBinary || name == apiserverBinary) {
			mine = append(mine, filepath.Base(filepath.Dir(file)))
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	defer reader.Close()
	shared.alive = writer // open as long as this program runs
	watcher := exec.Command(self)
	watcher.Env = []string{processesVariable + "=" + strings.Join(mine, " ")}
	watcher.Stdin = reader
	watcher.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what ends the tests' group must not end it
	if err := watcher.Start(); err != nil {
		return err
	}
	return watcher.Process.Release()
}
