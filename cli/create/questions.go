package create

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/cli/manifest"
)

// questions asks a person, on the error output, since the manifest may go to the standard
// one.
type questions struct {
	call
	lines func() (string, error)
}

// questions reads answers until ctx ends.
func (c call) questions(ctx context.Context) questions {
	type answer struct {
		line string
		err  error
	}
	answers := make(chan answer)
	go func() {
		in := bufio.NewReader(io.LimitReader(c.In, console.MostInput))
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
func (q questions) print(format string, args ...any) { _, _ = fmt.Fprintf(q.Err, format, args...) }

// kind asks for the fault, unless the command line has one.
func (q questions) kind(args []string) (v1beta1.Kind, error) {
	kinds, err := Kinds()
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
		q.print("%s  %s\n", q.PaintErr(console.Bold, fmt.Sprintf("%-18s", kind.Kind)), kind.About)
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
func (q questions) all(draft *Draft) error {
	for _, question := range draft.Questions() {
		if err := q.ask(draft, question); err != nil {
			return err
		}
	}
	q.print("\n%s %s\n", q.PaintErr(console.Dim, "there are also:"), strings.Join(draft.Others(), ", "))
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
		if field == "" || field == Nothing {
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
func (q questions) ask(draft *Draft, question Question) error {
	q.print("\n%s\n", question.About)
	for {
		q.print("%s [%s] ", q.PaintErr(console.Bold, strings.TrimPrefix(question.Field, "spec.")), question.Proposed)
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

func (q questions) refuse(err error) { q.print("%s\n", q.PaintErr(console.Red, "  "+err.Error())) }
