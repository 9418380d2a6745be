//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/cli/console"
)

// terminal is a program in a terminal of its own, with a simulated person.
type terminal struct {
	t      *testing.T
	person *os.File
	end    chan error

	mu     sync.Mutex
	screen bytes.Buffer
}

// inTerminal starts squall in a new terminal (pty(7)).
func inTerminal(t *testing.T, env []string, args ...string) *terminal {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err := errors.Join(err, unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0)); err != nil {
		t.Fatal(err)
	}
	program, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), append(env, asProgram+"=1", "TERM=xterm")...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = program.Close() // the last one to close it is the program
	on := &terminal{t: t, person: person, end: make(chan error, 1)}
	go func() {
		defer cancel()
		page := make([]byte, 4096)
		for {
			n, err := person.Read(page)
			on.mu.Lock()
			on.screen.Write(page[:n])
			on.mu.Unlock()
			if err != nil { // EIO: the program has ended
				on.end <- cmd.Wait()
				return
			}
		}
	}()
	t.Cleanup(func() { _ = person.Close() })
	return on
}

func (on *terminal) shows() string {
	on.mu.Lock()
	defer on.mu.Unlock()
	return on.screen.String()
}

// types waits for a question, then answers it.
func (on *terminal) types(after, keys string) {
	on.t.Helper()
	for deadline := time.Now().Add(time.Minute); !strings.HasSuffix(strings.TrimSpace(on.shows()), after); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			on.t.Fatalf("no %q on the screen:\n%s", after, on.shows())
		}
	}
	if _, err := on.person.WriteString(keys); err != nil {
		on.t.Fatal(err)
	}
}

// exits waits for the end of the program and returns its exit code.
func (on *terminal) exits() int {
	on.t.Helper()
	err := <-on.end
	if exited, ok := errors.AsType[*exec.ExitError](err); ok {
		return exited.ExitCode()
	}
	if err != nil {
		on.t.Fatal(err)
	}
	return 0
}

func TestCreateInATerminal(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lossy.yaml")
	on := inTerminal(t, nil, "create", "network", "-f", file)
	on.types("[network-disruption]", "lossy\r")
	on.types("namespace\x1b[0m [-]", "\r")
	on.types("[app=demo]", "\r")
	on.types("[100%]", "\r")
	on.types("[5m]", "\r")
	on.types("[20]", "200\r")
	on.types("network.drop\x1b[0m [20]", "2\r")
	on.types("[5432]", "\r")
	on.types("[tcp]", "\r")
	on.types("[none]", "\r")
	if code := on.exits(); code != console.ExitOK || !strings.Contains(on.shows(), "\x1b[31m") || !strings.Contains(on.shows(), "squall plan "+file) {
		t.Errorf("exit code %d, want the refusal in red, and how to go on:\n%s", code, on.shows())
	}
	if checked := do(t.Context(), "", "explain", file); !strings.Contains(checked.out, "drops 2% of the packets") {
		t.Errorf("squall explain = %+v", checked)
	}
}

func TestCtrlCEndsTheQuestions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lossy.yaml")
	on := inTerminal(t, []string{"NO_COLOR=1"}, "create", "network", "-f", file)
	on.types("[network-disruption]", "\x03")
	if code := on.exits(); code != console.ExitError || !strings.Contains(on.shows(), "interrupted; nothing is written") {
		t.Errorf("exit code %d, want an error that says so:\n%s", code, on.shows())
	}
	if strings.Contains(on.shows(), "\x1b[") {
		t.Errorf("colours, against NO_COLOR:\n%q", on.shows())
	}
	if _, err := os.Stat(file); err == nil {
		t.Errorf("%s is written", file)
	}
}
