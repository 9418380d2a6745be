package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/create"
	"github.com/squall-chaos/squall/cli/explain"
	"github.com/squall-chaos/squall/cli/manifest"
)

func (c *command) create() *cobra.Command {
	var file, chaosNamespace string
	command := &cobra.Command{
		Use:   "create [KIND]",
		Short: "Create a manifest interactively",
		Long: "Ask for the fields of a fault and propose the values of its sample. An empty\n" +
			"line accepts the proposal, " + create.Nothing + " leaves the field out. Each answer is checked by the\n" +
			"rules of squall validate. The command creates nothing in a cluster, and writes\n" +
			"the manifest only if it is valid.",
		Example: "  squall create\n  squall create network-disruption -f lossy.yaml",
		Args:    cobra.MaximumNArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return v1beta1.AllKinds().Names(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := os.Stat(file); file != "" && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("file %s is there already: name another one by -f, or remove it", file)
			}
			asks := c.questions(cmd.Context())
			kind, err := asks.kind(args)
			if err != nil {
				return err
			}
			draft, err := create.New(kind, time.Now(), chaosNamespace)
			if err != nil {
				return err
			}
			if err := asks.all(draft); err != nil {
				asks.print("\n")
				return fmt.Errorf("%w; nothing is written", err)
			}
			return c.showCreated(draft, file)
		},
	}
	command.Flags().StringVarP(&file, "file", "f", "", "file to write, which must not be there yet; nothing: the standard output")
	chaosNamespaceFlag(command, &chaosNamespace)
	return command
}

func (c *command) showCreated(draft *create.Draft, file string) error {
	if file == "" {
		_, err := c.out.Write(draft.YAML())
		return err
	}
	if err := writeNew(file, draft.YAML()); err != nil {
		return err
	}
	d := draft.Disruption()
	if err := c.showExplained([]explained{{"Disruption " + d.Name, explain.Disruption(d)}}, ""); err != nil {
		return err
	}
	_, err := fmt.Fprintf(c.out, "\nwrote %s. See its targets: squall plan %s\n", file, file)
	return err
}

// writeNew writes a file, which must not exist.
func writeNew(name string, content []byte) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}

// questions asks a person, on the error output, since the manifest may go to the standard
// one.
type questions struct {
	*command
	lines func() (string, error)
}

// questions reads answers until ctx ends.
func (c *command) questions(ctx context.Context) questions {
	type answer struct {
		line string
		err  error
	}
	answers := make(chan answer)
	go func() {
		in := bufio.NewReader(io.LimitReader(c.in, mostInput))
		for {
			line, err := in.ReadString('\n')
			if line != "" {
				err = nil
			}
			select {
			case answers <- answer{line, err}:
			case <-ctx.Done():
			}
			if err != nil || ctx.Err() != nil {
				return
			}
		}
	}()
	return questions{c, func() (string, error) {
		select {
		case a := <-answers:
			if errors.Is(a.err, io.EOF) {
				return "", errors.New("the input ended before the last question")
			}
			return strings.TrimSpace(a.line), a.err
		case <-ctx.Done():
			return "", errors.New("interrupted")
		}
	}}
}

// print writes to the person.
func (q questions) print(format string, args ...any) { _, _ = fmt.Fprintf(q.err, format, args...) }

// kind asks for the fault, unless the command line has one.
func (q questions) kind(args []string) (v1beta1.Kind, error) {
	kinds, err := create.Kinds()
	if err != nil {
		return "", err
	}
	known := func(name string) (v1beta1.Kind, error) {
		for _, kind := range kinds {
			if string(kind.Kind) == name || kind.Field == name {
				return kind.Kind, nil
			}
		}
		var names []string
		for _, kind := range kinds {
			names = append(names, kind.Field)
		}
		if near := manifest.Nearest(name, append(names, v1beta1.AllKinds().Names()...)); near != "" {
			return "", fmt.Errorf("there is no fault %q: did you mean %s?", name, near)
		}
		return "", fmt.Errorf("there is no fault %q; choose one of %s", name, strings.Join(names, ", "))
	}
	if len(args) > 0 {
		return known(args[0])
	}
	for _, kind := range kinds {
		q.print("%s  %s\n", q.paintErr(bold, fmt.Sprintf("%-18s", kind.Kind)), kind.About)
	}
	for {
		q.print("What is to be done? [%s] ", v1beta1.KindNetwork)
		line, err := q.lines()
		if err != nil {
			return "", err
		}
		kind, err := known(line)
		if line == "" {
			return v1beta1.KindNetwork, nil
		}
		if err == nil {
			return kind, nil
		}
		q.refuse(err)
	}
}

// all asks the questions of a draft, and then for other fields until it is valid and the
// person wants no more.
func (q questions) all(draft *create.Draft) error {
	for _, question := range draft.Questions() {
		if err := q.ask(draft, question); err != nil {
			return err
		}
	}
	q.print("\n%s %s\n", q.paintErr(dim, "there are also:"), strings.Join(draft.Others(), ", "))
	for {
		problems := draft.Problems()
		for _, problem := range problems {
			q.refuse(errors.New(problem))
		}
		q.print("Another field? [none] ")
		field, err := q.lines()
		if err != nil {
			return err
		}
		if field == "" || field == create.Nothing {
			if len(problems) == 0 {
				return nil
			}
			continue
		}
		question, err := draft.Ask(field)
		if err != nil {
			q.refuse(err)
			continue
		}
		if err := q.ask(draft, question); err != nil {
			return err
		}
	}
}

// ask repeats a question until its answer is accepted.
func (q questions) ask(draft *create.Draft, question create.Question) error {
	q.print("\n%s\n", question.About)
	for {
		q.print("%s [%s] ", q.paintErr(bold, strings.TrimPrefix(question.Field, "spec.")), question.Proposed)
		answer, err := q.lines()
		if err != nil {
			return err
		}
		if answer == "" {
			answer = question.Proposed
		}
		if err := draft.Answer(question.Field, answer); err != nil {
			q.refuse(err)
			continue
		}
		return nil
	}
}

func (q questions) refuse(err error) { q.print("%s\n", q.paintErr(red, "  "+err.Error())) }
