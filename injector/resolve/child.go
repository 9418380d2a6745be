//go:build linux

package resolve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/child"
	"github.com/squall-chaos/squall/injector/target"
)

// What a target's files and name servers say is read in a child process: the injector
// could do anything on the node, and a flaw in the reading would be the target's to use.

// Command is the hidden subcommand of the injector that runs Child.
const Command = "resolve"

// maxAnswers is far more than any answers need, in bytes.
const maxAnswers = 4 << 20

// question is what the child is asked: names, with the target's files as they are.
type question struct {
	Names       []string
	Hosts, Conf string
	NoConf      string // why Conf could not be read
}

// answer is what a name stands for, or why that is not known.
type answer struct {
	Addresses []netip.Addr
	Error     string
}

// ask has a child look up each of the names.
func (r Resolver) ask(ctx context.Context, names []string) []answer {
	answers := make([]answer, len(names))
	if len(names) == 0 {
		return answers
	}
	err := r.askChild(ctx, names, &answers)
	if err == nil && len(answers) != len(names) {
		err = errors.New("the process that resolves names answers something else")
	}
	if err != nil {
		answers = make([]answer, len(names))
		for i := range answers {
			answers[i].Error = err.Error()
		}
	}
	return answers
}

func (r Resolver) askChild(ctx context.Context, names []string, answers *[]answer) error {
	asked := question{Names: names}
	asked.Hosts, _ = readBelow(r.Root, "etc/hosts")
	conf, err := readBelow(r.Root, "etc/resolv.conf")
	if asked.Conf = conf; err != nil {
		asked.NoConf = err.Error()
	}
	document, err := json.Marshal(asked)
	if err != nil {
		return err
	}
	netns, err := target.OpenNetns(r.Netns)
	if err != nil {
		return err
	}
	defer netns.Close()
	rounds := time.Duration((len(names) + namesAtOnce - 1) / namesAtOnce)
	ctx, cancel := context.WithTimeout(ctx, (rounds+1)*nameTimeout) // whatever the child does
	defer cancel()
	said, words := bounded{}, bounded{}
	command := exec.CommandContext(ctx, "/proc/self/exe", Command)
	command.Env = []string{}
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(document), &said, &words
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err = target.OnThrowawayThread(func() error {
		if err := unix.Setns(int(netns.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter %s: %w", r.Netns, err)
		}
		if err := child.GiveUpRights(); err != nil {
			return err
		}
		return command.Run()
	})
	if ctx.Err() != nil {
		return fmt.Errorf("resolve names: %w", context.Cause(ctx))
	}
	if err == nil {
		err = json.Unmarshal(said.Bytes(), answers)
	}
	if err != nil {
		return fmt.Errorf("resolve names in a process of its own: %w %s", err, strings.TrimSpace(words.String()))
	}
	return nil
}

// Child answers a question on its standard input. It is in the target's network
// namespace and has no rights.
func Child(ctx context.Context, _ []string) error {
	var asked question
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		return fmt.Errorf("%s: it is started by the injector, not by hand: %w", Command, err)
	}
	answers := make([]answer, len(asked.Names))
	var group errgroup.Group
	group.SetLimit(namesAtOnce)
	for i, name := range asked.Names {
		group.Go(func() error {
			addresses, err := asked.lookup(ctx, name)
			if answers[i].Addresses = addresses; err != nil {
				answers[i].Error = err.Error()
			}
			return nil
		})
	}
	_ = group.Wait()
	return json.NewEncoder(os.Stdout).Encode(answers)
}

// bounded takes no more than maxAnswers.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxAnswers {
		return 0, errors.New("it says too much")
	}
	return b.Buffer.Write(p)
}
