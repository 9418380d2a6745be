//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/text"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/journal"
)

// audit lists everything on this node that carries the marks of injections: journals with
// the values they hold, and what each kind finds. It includes marks that another program
// made.
func (p program) audit(ctx context.Context, config Config, args []string) int {
	flags := flag.NewFlagSet("audit", flag.ContinueOnError)
	flags.SetOutput(p.stderr)
	var only filter
	only.flags(flags, p.kinds)
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		fmt.Fprintln(p.stderr, "usage: injector audit [--disruption UID]... [--except UID,...] [--kind KIND]...")
		return exitRefused
	}
	report := p.auditNode(ctx, config, only)
	err := p.printReport(config, report, len(report.Disruptions)+len(report.Marks), func(keep int) any { return cutAudit(report, keep) })
	switch {
	case len(report.Marks) > 0:
		return exitMarksFound
	case err != nil || report.Error != "":
		return exitNotCleaned
	}
	return exitOK
}

// auditNode finds all marks of the disruptions chosen. A mark that names no disruption
// matches every filter except one on disruptions.
func (p program) auditNode(ctx context.Context, config Config, only filter) v1beta1.Audit {
	entries, err := journal.List(config.JournalDir)
	errs := []error{err}
	known := make([]v1beta1.Injection, len(entries))
	var marks []v1beta1.Mark
	for n, entry := range entries {
		known[n] = entry.Injection
		if !only.hasKind(entry.Injection.Kind) {
			continue
		}
		errs = append(errs, entry.Err)
		marks = append(marks, marksIn(entry)...)
	}
	for _, kind := range slices.Sorted(maps.Keys(p.kinds)) {
		if p.kinds[kind].audit == nil || !only.hasKind(kind) {
			continue
		}
		found, err := auditKind(ctx, config, p.kinds[kind], known)
		marks = append(marks, found...)
		if err != nil {
			errs = append(errs, fmt.Errorf("audit %s: %w", kind, err))
		}
	}
	marks = withoutForgeries(marks)
	marks = slices.DeleteFunc(marks, func(m v1beta1.Mark) bool { return !only.has(m.Disruption.UID, m.Target, m.Kind) })
	report := v1beta1.Audit{Marks: withNames(marks, known), Disruptions: disruptionsOf(marks, known)}
	if err := errors.Join(errs...); err != nil {
		report.Error = err.Error()
	}
	return report
}

// auditKind finds the marks of one kind. It stops waiting for an audit that hangs, so that
// the report with everything else is printed within the pod's time.
func auditKind(ctx context.Context, config Config, kind entry, known []v1beta1.Injection) ([]v1beta1.Mark, error) {
	found := make(chan []v1beta1.Mark, 1)
	err := bounded(ctx, config.AuditTimeout, func(ctx context.Context) error {
		marks, err := kind.audit(ctx, config.Proc, known)
		found <- marks
		return err
	})
	select {
	case marks := <-found:
		return marks, err
	default:
		return nil, err // it hangs, or panicked
	}
}

// marksIn returns the marks of one journal: its file and the values it holds.
func marksIn(entry journal.Entry) []v1beta1.Mark {
	of := v1beta1.Mark{Kind: entry.Injection.Kind, Disruption: entry.Injection.Disruption, Target: entry.Injection.Target.UID}
	of.Object = "journal " + entry.Name
	if entry.Missing {
		of.Object = "what is left of journal " + entry.Name
	}
	marks := []v1beta1.Mark{of}
	for _, change := range entry.Changes {
		of.Object = fmt.Sprintf("value %s, changed from %q to %q", change.Object, change.Before, change.After)
		marks = append(marks, of)
	}
	return marks
}

// withNames adds the names of disruptions to marks that carry the UID only. The result is
// not nil.
func withNames(marks []v1beta1.Mark, known []v1beta1.Injection) []v1beta1.Mark {
	names := map[types.UID]v1beta1.DisruptionRef{}
	for _, injection := range known {
		if injection.Disruption.Name != "" {
			names[injection.Disruption.UID] = injection.Disruption
		}
	}
	named := []v1beta1.Mark{}
	for _, mark := range marks {
		if name, found := names[mark.Disruption.UID]; found {
			mark.Disruption = name
		}
		named = append(named, mark)
	}
	return named
}

// plainUID matches what a disruption's UID may look like. Kubernetes makes UUIDs.
var plainUID = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)

// withoutForgeries replaces all marks whose UID is malformed by one mark that counts them
// and names no disruption. A forger may have made thousands, or one as long as a report.
func withoutForgeries(marks []v1beta1.Mark) []v1beta1.Mark {
	forged, of := 0, v1beta1.Mark{}
	marks = slices.DeleteFunc(marks, func(m v1beta1.Mark) bool {
		if m.Disruption.UID == "" || plainUID.MatchString(string(m.Disruption.UID)) {
			return false
		}
		if forged++; forged == 1 {
			of = v1beta1.Mark{Kind: m.Kind, Object: fmt.Sprintf("%s, of %q", m.Object, text.Shorten(string(m.Disruption.UID), maxForged))}
		}
		return true
	})
	if forged == 0 {
		return marks
	}
	of.Object = fmt.Sprintf("marked with what is no UID, %d in all, the first: %s", forged, of.Object)
	return append(marks, of)
}

// disruptionsOf lists the disruptions that marks name, those with a journal first. Only
// root of the node can write a journal, so a report that is cut keeps the disruptions that
// are genuine.
func disruptionsOf(marks []v1beta1.Mark, known []v1beta1.Injection) []types.UID {
	uids, noted := map[types.UID]bool{}, map[types.UID]bool{}
	for _, injection := range known {
		noted[injection.Disruption.UID] = true
	}
	for _, mark := range marks {
		if mark.Disruption.UID != "" {
			uids[mark.Disruption.UID] = true
		}
	}
	sorted := slices.Sorted(maps.Keys(uids))
	with := slices.DeleteFunc(slices.Clone(sorted), func(uid types.UID) bool { return !noted[uid] })
	return append(with, slices.DeleteFunc(sorted, func(uid types.UID) bool { return noted[uid] })...)
}

// cutAudit keeps at most keep disruptions and marks. The disruptions come first: a reader
// cannot use a mark without its disruption.
func cutAudit(a v1beta1.Audit, keep int) v1beta1.Audit {
	disruptions := min(keep, len(a.Disruptions))
	if more := len(a.Disruptions) - disruptions; more > 0 {
		a.Error = fmt.Sprintf("%d disruptions did not fit here; %s", more, a.Error)
	}
	marks := keep - disruptions
	a.More = len(a.Marks) - marks
	a.Disruptions, a.Marks = a.Disruptions[:disruptions], a.Marks[:marks]
	a.Error = text.Shorten(a.Error, maxOutcome/4)
	return a
}
