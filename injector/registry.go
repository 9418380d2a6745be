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
	// Inject disrupts the target. After an error, Clean removes the part that was done.
	Inject(context.Context) error
	// Clean removes what Inject added and nothing else. It is idempotent and needs only
	// parameters, target and journal. For a target that is gone it returns nil.
	Clean(context.Context) error
	// Left lists what of this injection is still there. It reads the node, uses no state of
	// Inject and Clean, and changes nothing.
	Left(context.Context) ([]string, error)
}

// kernelProber is an injector that checks what this kernel offers to its kind. Probe
// returns it as text, or as the error of an injection. It changes nothing.
type kernelProber interface {
	Probe() (string, error)
}

// auditor lists everything on this node that carries a kind's marks. proc is the directory
// with the processes. known has the injections of the journals, for marks that name no
// disruption.
type auditor func(ctx context.Context, proc string, known []v1beta1.Injection) ([]v1beta1.Mark, error)

// construct builds an injector from raw parameters. Nil stands for the zero parameters.
type construct func(params json.RawMessage, t *target.Target, j *journal.Journal) (injector, error)

// entry is what the program knows about a kind.
type entry struct {
	construct construct
	audit     auditor // nil: the kind leaves nothing that could be found
	child     child   // zero: the kind starts no processes
	once      bool    // the kind acts in a moment, and nothing of it is held
	outlives  bool    // after a SIGKILL one of the kind's mechanisms may leave something
}

// child is a hidden subcommand that a kind's own processes execute.
type child struct {
	command string
	run     func(ctx context.Context, args []string) error
}

// readers are the hidden subcommands of processes without rights that read what targets
// send. The processes need no mark: each ends with its question.
func readers() []child {
	return []child{{resolve.Command, resolve.Child}, {grpcdisruption.Command, grpcdisruption.Child}}
}

// holder is an injector whose effect needs a running part, which may end before Clean. Lost
// sends the reason if the target still exists then.
type holder interface {
	EffectLost() <-chan error
}

// noter is an injector that may succeed only in part. Notes lists what it could not do, in
// sentences for the user.
type noter interface {
	Notes() []string
}

// registry has one line per kind.
var registry = map[v1beta1.Kind]entry{
	v1beta1.KindContainerFailure: {construct: from(containerfailure.New), once: true},
	v1beta1.KindCPUPressure:      {construct: from(cpupressure.New), audit: cpupressure.Audit, child: child{cpupressure.BurnCommand, cpupressure.Burn}},
	v1beta1.KindDiskFailure:      {construct: from(diskfailure.New), audit: diskfailure.Audit, child: child{diskfailure.ListenCommand, diskfailure.Listen}, outlives: true},
	// The journal has all it leaves.
	v1beta1.KindDiskPressure: {construct: from(diskpressure.New), outlives: true},
	v1beta1.KindDNS:          {construct: from(dnsdisruption.New), audit: dnsdisruption.Audit, outlives: true},
	// The journal has all it leaves.
	v1beta1.KindGRPC:           {construct: from(grpcdisruption.New), outlives: true},
	v1beta1.KindMemoryPressure: {construct: from(memorypressure.New), audit: memorypressure.Audit, child: child{memorypressure.HogCommand, memorypressure.Hog}},
	v1beta1.KindNetwork:        {construct: from(network.New), audit: network.Audit, outlives: true},
	v1beta1.KindNodeFailure:    {construct: from(nodefailure.New)}, // the journal has what it did
}

// from adapts the constructor of a kind. It decodes the parameters strictly: an unknown
// field is refused.
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
