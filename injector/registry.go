//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

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
	// Prove returns the effect measured since Inject, with the figures in a short text. It
	// changes nothing and only reads the kernel's counters.
	Prove(context.Context) (v1beta1.EffectState, string, error)
}

// capabilities are what only some kinds can do; a field is nil for a kind that cannot.
type capabilities struct {
	// probe returns what this kernel offers to the kind as text, or what it lacks as the
	// error of an injection. It changes nothing.
	probe func() (string, error)
	// effectLost is for a kind whose effect needs a running part, which may end before
	// Clean. The channel gets the reason if the target still exists then.
	effectLost func() <-chan error
	// notes lists what an injection that succeeded could not do, in sentences for the user.
	notes func() []string
	// outlasts returns true if everything that was injected acts on the renewed target. Any
	// other kind is injected again when a container restarts.
	outlasts func(renewed *target.Target) bool
	// standing lists what is on the node as long as the injection is in force. For any other
	// kind, everything that Left lists must stay.
	standing func(context.Context) ([]string, error)
	// moved is for a kind that resolves names when it injects: paths, links, mounts, devices,
	// resolver files. It describes what an injection would act on now and this one does not;
	// empty for nothing. It changes nothing and only reads files.
	moved func(context.Context) (string, error)
	// every returns the time between two turns of a kind that acts once; 0 if it has one turn.
	every func() time.Duration
	// trigger ends the node. It may or may not return. Only a kind with ends has it.
	trigger func() error
}

// fault is one kind on one target, with what it can do.
type fault struct {
	injector
	capabilities
}

// auditor lists everything on this node that carries a kind's marks. proc is the directory
// with the processes. known has the injections of the journals, for marks that name no
// disruption.
type auditor func(ctx context.Context, proc string, known []v1beta1.Injection) ([]v1beta1.Mark, error)

// construct builds an injector from raw parameters. Nil stands for the zero parameters.
type construct func(params json.RawMessage, t *target.Target, j *journal.Journal) (fault, error)

// entry is what the program knows about a kind.
type entry struct {
	construct construct
	audit     auditor // nil: the kind leaves nothing that could be found
	child     child   // zero: the kind starts no processes
	once      bool    // the kind acts in a moment, and nothing of it is held
	outlives  bool    // after a SIGKILL one of the kind's mechanisms may leave something
	// ends is true for a kind whose effect ends the node, and the injector with it. The
	// injector reports the injection before the effect, as it cannot do so afterwards. The
	// effect happens once: an earlier boot's journal with a change in it proves that it did.
	ends bool
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

// registry has one row per kind.
var registry = map[v1beta1.Kind]entry{
	v1beta1.KindContainerFailure: {
		construct: from(containerfailure.New, func(i *containerfailure.Injector) capabilities {
			return capabilities{every: i.Every}
		}),
		once: true,
	},
	v1beta1.KindCPUPressure: {
		construct: from(cpupressure.New, func(i *cpupressure.Injector) capabilities {
			return capabilities{probe: i.Probe, standing: i.Standing}
		}),
		audit: cpupressure.Audit, child: child{cpupressure.BurnCommand, cpupressure.Burn},
	},
	v1beta1.KindDiskFailure: {
		construct: from(diskfailure.New, func(i *diskfailure.Injector) capabilities {
			return capabilities{probe: i.Probe, effectLost: i.EffectLost, notes: i.Notes, moved: i.Moved}
		}),
		audit: diskfailure.Audit, child: child{diskfailure.ListenCommand, diskfailure.Listen}, outlives: true,
	},
	v1beta1.KindDiskPressure: {
		construct: from(diskpressure.New, func(i *diskpressure.Injector) capabilities {
			return capabilities{probe: i.Probe, notes: i.Notes, moved: i.Moved}
		}),
		outlives: true, // the journal has all it leaves
	},
	v1beta1.KindDNS: {
		construct: from(dnsdisruption.New, func(i *dnsdisruption.Injector) capabilities {
			return capabilities{probe: i.Probe, notes: i.Notes, outlasts: i.Outlasts, standing: i.Standing, moved: i.Moved}
		}),
		audit: dnsdisruption.Audit, outlives: true,
	},
	v1beta1.KindGRPC: {
		construct: from(grpcdisruption.New, func(i *grpcdisruption.Injector) capabilities {
			return capabilities{probe: i.Probe}
		}),
		outlives: true, // the journal has all it leaves
	},
	v1beta1.KindMemoryPressure: {
		construct: from(memorypressure.New, func(i *memorypressure.Injector) capabilities {
			return capabilities{probe: i.Probe, notes: i.Notes, standing: i.Standing}
		}),
		audit: memorypressure.Audit, child: child{memorypressure.HogCommand, memorypressure.Hog},
	},
	v1beta1.KindNetwork: {
		construct: from(network.New, func(i *network.Injector) capabilities {
			return capabilities{probe: i.Probe, notes: i.Notes, outlasts: i.Outlasts}
		}),
		audit: network.Audit, outlives: true,
	},
	v1beta1.KindNodeFailure: {
		construct: from(nodefailure.New, func(i *nodefailure.Injector) capabilities {
			return capabilities{probe: i.Probe, trigger: i.Trigger}
		}),
		ends: true, // the journal has what it did
	},
}

// from adapts the constructor of a kind, and a function that names what its injectors can
// do. It decodes the parameters strictly: an unknown field is refused.
func from[P any, I injector](newInjector func(P, *target.Target, *journal.Journal) I, can func(I) capabilities) construct {
	return func(document json.RawMessage, t *target.Target, j *journal.Journal) (fault, error) {
		var params P
		if document != nil {
			if err := decodeStrictly(document, &params); err != nil {
				return fault{}, fmt.Errorf("parameters of %s: %w", t.Injection.Kind, err)
			}
		}
		i := newInjector(params, t, j)
		return fault{i, can(i)}, nil
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
