package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/injector/target"
)

// injector is one kind of disruption on one target.
type injector interface {
	// Inject disturbs the target. After an error, Clean removes the part that
	// was done.
	Inject(context.Context) error
	// Clean removes what Inject added and nothing else. It is idempotent, needs
	// only parameters, target and journal, and treats a target that is gone as
	// cleaned.
	Clean(context.Context) error
}

// prober is an injector that can say what this kernel offers to its kind: in
// words, or as the error that an injection would meet. It changes nothing.
type prober interface {
	Probe() (string, error)
}

// auditor lists what on this node carries a kind's marks, whoever left it,
// looking at the processes below proc.
type auditor func(ctx context.Context, proc string) ([]string, error)

// construct builds an injector out of undecoded parameters. Nil parameters are
// the zero ones.
type construct func(params json.RawMessage, t *target.Target, j *journal.Journal) (injector, error)

// entry is what the program knows about a kind.
type entry struct {
	construct construct
	audit     auditor // nil: the kind leaves nothing that could be found
}

// registry has one line per kind. From hands the whole target to one injector,
// each makes an injector per container.
var registry = map[v1beta1.Kind]entry{}

// from adapts the constructor of a kind: its parameters are decoded strictly,
// an unknown field is refused.
func from[P any, I injector](newInjector func(P, *target.Target, *journal.Journal) I) construct {
	return func(document json.RawMessage, t *target.Target, j *journal.Journal) (injector, error) {
		var params P
		if document != nil {
			if err := decodeStrictly(document, &params); err != nil {
				return nil, fmt.Errorf("parameters of %s: %w", t.Injection.Kind, err)
			}
		}
		return newInjector(params, t, j), nil
	}
}

// each adapts the constructor of a kind that treats every container alone. At
// node level there is one injector, without a container.
func each[P any, I injector](newInjector func(P, *target.Target, *journal.Journal) I) construct {
	whole := from(newInjector)
	return func(document json.RawMessage, t *target.Target, j *journal.Journal) (injector, error) {
		if len(t.Containers) <= 1 {
			return whole(document, t, j)
		}
		var all several
		for i := range t.Containers {
			part := *t
			part.Containers = t.Containers[i : i+1]
			one, err := whole(document, &part, j)
			if err != nil {
				return nil, err
			}
			all = append(all, one)
		}
		return all, nil
	}
}

// several are the injectors of one target, one per container.
type several []injector

// Inject stops at the first failure; Clean then removes what was done.
func (s several) Inject(ctx context.Context) error {
	for _, one := range s {
		if err := one.Inject(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Clean goes on after a failure.
func (s several) Clean(ctx context.Context) error {
	var errs []error
	for _, one := range s {
		errs = append(errs, one.Clean(ctx))
	}
	return errors.Join(errs...)
}

// decodeStrictly reads exactly one JSON document and refuses unknown fields.
func decodeStrictly(document []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON document")
	}
	return nil
}
