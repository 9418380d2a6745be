//go:build linux

package resolve

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/squall-chaos/squall/injector/child"
)

// A child process reads a target's files and the answers of name servers. The injector has
// all rights on the node, and a target could exploit a flaw in the code that reads them.

// Command is the hidden subcommand of the injector that runs Child.
const Command = "resolve"

// maxAnswers bounds all answers, in bytes; far more than any need.
const maxAnswers = 4 << 20

// question is the input of the child: names, with the target's files unchanged.
type question struct {
	Names       []string
	Hosts, Conf string
	NoConf      string // why Conf could not be read
}

// answer has the addresses of a name, or why they are unknown.
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
	rounds := time.Duration((len(names) + namesAtOnce - 1) / namesAtOnce)
	ctx, cancel := context.WithTimeout(ctx, (rounds+1)*nameTimeout) // whatever the child does
	defer cancel()
	if err := (child.Reader{Command: Command, Netns: r.Netns, MaxAnswer: maxAnswers}).Ask(ctx, asked, answers); err != nil {
		return fmt.Errorf("resolve names in a process of its own: %w", err)
	}
	return nil
}

// Child answers a question on its standard input. It is in the target's network namespace
// and has no rights.
func Child(ctx context.Context, _ []string) error {
	return child.Reply(func(asked question) []answer {
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
		return answers
	})
}
