package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/injector/target"
)

// auditReport is what the subcommand audit prints.
type auditReport struct {
	// Marks lists what carries our marks, one object each; empty when clean.
	Marks []string `json:"marks"`
	// Error says what could not be looked at, so that an empty list is no proof.
	Error string `json:"error,omitempty"`
}

// audit lists what on this node carries the marks of injections, whoever left
// it: journals with the values they note, and what each kind can find.
func (p program) audit(ctx context.Context, config Config, _ []string) int {
	marks := []string{}
	records, err := journal.List(config.JournalDir)
	errs := []error{err}
	for _, record := range records {
		marks = append(marks, "journal: "+injectionName(record.Injection))
		for _, change := range record.Changes {
			marks = append(marks, fmt.Sprintf("value: %s changed from %q to %q by %s",
				change.Object, change.Before, change.After, injectionName(record.Injection)))
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(p.kinds)) {
		if p.kinds[kind].audit == nil {
			continue
		}
		found, err := p.kinds[kind].audit(ctx, config.Proc)
		marks = append(marks, found...)
		if err != nil {
			errs = append(errs, fmt.Errorf("audit %s: %w", kind, err))
		}
	}
	report := auditReport{Marks: marks}
	if err := errors.Join(errs...); err != nil {
		report.Error = err.Error()
	}
	err = p.print(report)
	switch {
	case len(marks) > 0:
		return exitMarksFound
	case err != nil || report.Error != "":
		return exitNotCleaned
	}
	return exitOK
}

// kernelReport is what the subcommand probe-kernel prints.
type kernelReport struct {
	Kernel string                `json:"kernel"`
	Kinds  map[string]kindReport `json:"kinds"`
}

// kindReport has one of both: what the kernel offers, or what it lacks.
type kindReport struct {
	Offers string `json:"offers,omitempty"`
	Error  string `json:"error,omitempty"`
}

// probeKernel tells what an injection of each kind would find. It changes
// nothing and succeeds also where the kernel offers little.
func (p program) probeKernel(context.Context, Config, []string) int {
	report := kernelReport{Kernel: kernelRelease(), Kinds: map[string]kindReport{}}
	for kind, entry := range p.kinds {
		report.Kinds[string(kind)] = probeKind(entry)
	}
	if err := p.print(report); err != nil {
		return exitNotCleaned
	}
	return exitOK
}

func probeKind(kind entry) kindReport {
	made, err := kind.construct(nil, &target.Target{}, nil)
	if err != nil {
		return kindReport{Error: err.Error()}
	}
	able, ok := made.(prober)
	if !ok {
		return kindReport{Offers: "needs nothing special"}
	}
	offers, err := able.Probe()
	if err != nil {
		return kindReport{Offers: offers, Error: err.Error()}
	}
	return kindReport{Offers: offers}
}

func kernelRelease() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(name.Release[:])
}
