//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/containerfailure"
	"github.com/squall-chaos/squall/injector/cpupressure"
	"github.com/squall-chaos/squall/injector/diskfailure"
	"github.com/squall-chaos/squall/injector/diskpressure"
	"github.com/squall-chaos/squall/injector/dnsdisruption"
	"github.com/squall-chaos/squall/injector/grpcdisruption"
	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/injector/memorypressure"
	"github.com/squall-chaos/squall/injector/network"
	"github.com/squall-chaos/squall/injector/nodefailure"
	"github.com/squall-chaos/squall/injector/resolve"
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
	// Left lists what of this injection is still there. It looks at the node,
	// remembers nothing of Inject and Clean, and changes nothing.
	Left(context.Context) ([]string, error)
}

// prober is an injector that can say what this kernel offers to its kind: in
// words, or as the error that an injection would meet. It changes nothing.
type prober interface {
	Probe() (string, error)
}

// auditor lists what on this node carries a kind's marks, whoever left it,
// looking at the processes below proc. Known are the injections that journals
// tell of, for marks that do not say whose they are.
type auditor func(ctx context.Context, proc string, known []v1beta1.Injection) ([]v1beta1.Mark, error)

// construct builds an injector out of undecoded parameters. Nil parameters are
// the zero ones.
type construct func(params json.RawMessage, t *target.Target, j *journal.Journal) (injector, error)

// entry is what the program knows about a kind.
type entry struct {
	construct construct
	audit     auditor // nil: the kind leaves nothing that could be found
	child     child   // zero: the kind starts no processes
	once      bool    // the kind acts in a moment, and nothing of it is held
	outlives  bool    // something of the kind may outlive a process that is killed, by one of its mechanisms
}

// child is a hidden subcommand, which a kind's own processes execute.
type child struct {
	command string
	run     func(ctx context.Context, args []string) error
}

// readers are the hidden subcommands, of processes without rights, that read what
// targets send. The processes need no mark: each ends with its question.
func readers() []child {
	return []child{{resolve.Command, resolve.Child}, {grpcdisruption.Command, grpcdisruption.Child}}
}

// holder is an injector whose effect needs something to keep it up, which may end
// before Clean: why it did comes out of Lost while the target is still there.
type holder interface {
	Lost() <-chan error
}

// noter is an injector that can say what an injection could not do although it
// succeeded, in sentences for the user.
type noter interface {
	Notes() []string
}

// registry has one line per kind.
var registry = map[v1beta1.Kind]entry{
	v1beta1.KindContainerFailure: {construct: from(containerfailure.New), once: true},
	v1beta1.KindCPUPressure:      {construct: from(cpupressure.New), audit: cpupressure.Audit, child: child{cpupressure.BurnCommand, cpupressure.Burn}},
	v1beta1.KindDiskFailure:      {construct: from(diskfailure.New), audit: diskfailure.Audit, child: child{diskfailure.ListenCommand, diskfailure.Listen}, outlives: true},
	v1beta1.KindDiskPressure:     {construct: from(diskpressure.New), outlives: true}, // all it leaves is in the journal
	v1beta1.KindDNS:              {construct: from(dnsdisruption.New), audit: dnsdisruption.Audit, outlives: true},
	v1beta1.KindGRPC:             {construct: from(grpcdisruption.New), outlives: true}, // all it leaves is in the journal
	v1beta1.KindMemoryPressure:   {construct: from(memorypressure.New), audit: memorypressure.Audit, child: child{memorypressure.HogCommand, memorypressure.Hog}},
	v1beta1.KindNetwork:          {construct: from(network.New), audit: network.Audit, outlives: true},
	v1beta1.KindNodeFailure:      {construct: from(nodefailure.New)}, // what it did is in the journal
}

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
