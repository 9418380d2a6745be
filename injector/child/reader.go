//go:build linux

package child

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/api/text"
	"github.com/squall-chaos/squall/injector/target"
)

const (
	// maxComplaint is how much of a reader's standard error an error quotes, in bytes.
	maxComplaint = 500
	// pipeTime is how long the pipes of a killed reader may stay open. A process
	// that the reader started could keep them open.
	pipeTime = time.Second
)

// Reader is a process that reads the bytes of a target. The injector has all rights on the
// node, so a target could exploit a flaw in the code that reads them.
type Reader struct {
	// Command is the hidden subcommand of the injector that the process executes.
	// The subcommand calls Reply.
	Command string
	// Netns is the path of the network namespace in which the process lives.
	Netns string
	// MaxAnswer is the size of the largest answer that Ask accepts, in bytes.
	MaxAnswer int
	// Files are the descriptors 3 and higher of the process.
	Files []*os.File
}

// Ask starts the process, sends question to it and decodes the reply into answer.
// The process has no capabilities and an empty environment. It ends when ctx ends
// and when the injector ends. The error is target.ErrGone if Netns is gone.
func (r Reader) Ask(ctx context.Context, question, answer any) error {
	document, err := json.Marshal(question)
	if err != nil {
		return err
	}
	netns, err := target.OpenNetns(r.Netns)
	if err != nil {
		return err
	}
	defer netns.Close()
	output, complaint := bounded{max: r.MaxAnswer}, bounded{max: maxComplaint}
	command := exec.CommandContext(ctx, "/proc/self/exe", r.Command)
	command.Env = []string{}
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(document), &output, &complaint
	command.ExtraFiles = r.Files
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	command.WaitDelay = pipeTime
	err = target.OnThrowawayThread(func() error {
		if err := unix.Setns(int(netns.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter %s: %w", r.Netns, err)
		}
		if err := GiveUpRights(); err != nil {
			return err
		}
		return command.Run()
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == nil {
		err = json.Unmarshal(output.kept.Bytes(), answer)
	}
	if err != nil && complaint.kept.Len() > 0 {
		return fmt.Errorf("%w: %s", err, text.Printable(text.Line(complaint.kept.String())))
	}
	return err
}

// Reply reads the question of Ask from standard input and writes the result of
// reply to standard output.
func Reply[Q, A any](reply func(Q) A) error {
	var question Q
	if err := json.NewDecoder(os.Stdin).Decode(&question); err != nil {
		return fmt.Errorf("read the question on standard input, which only the injector writes: %w", err)
	}
	return json.NewEncoder(os.Stdout).Encode(reply(question))
}

// bounded keeps the first max bytes and refuses the rest. It does not embed the
// buffer: io.Copy would prefer the ReadFrom of a bytes.Buffer, which has no bound.
type bounded struct {
	kept bytes.Buffer
	max  int
}

func (b *bounded) Write(p []byte) (int, error) {
	fits := min(len(p), b.max-b.kept.Len())
	n, err := b.kept.Write(p[:fits])
	if err == nil && fits < len(p) {
		err = errors.New("the process writes too much")
	}
	return n, err
}
