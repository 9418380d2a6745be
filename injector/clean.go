//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os/signal"
	"slices"
	"syscall"

	"github.com/squall-chaos/squall/api/text"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/journal"
)

// errAsked is the error of an injection that a cleaner had not reached when it was asked to
// end.
var errAsked = errors.New("the cleaner was asked to end before it came to this")

// clean undoes what journals hold, after the injectors that wrote them died. It leaves
// alone what belongs to a running injector, which cleans when it is ended. After a signal,
// as at the deadline of its pod, it finishes the attempt at hand, retries nothing, and
// reports what is left.
func (p program) clean(ctx context.Context, config Config, args []string) int {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	flags := flag.NewFlagSet("clean", flag.ContinueOnError)
	flags.SetOutput(p.stderr)
	var only filter
	only.flags(flags, p.kinds)
	flags.StringVar(&only.target, "target", "", "only what was done to the target with this `UID`")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		fmt.Fprintln(p.stderr, "usage: injector clean [--disruption UID]... [--except UID,...] [--target UID] [--kind KIND]...")
		return exitRefused
	}
	report := v1beta1.CleanReport{Cleaned: []string{}, Audited: true, Left: []v1beta1.LeftInjection{}}
	entries, err := journal.List(config.JournalDir)
	if err != nil {
		report.Error = err.Error()
	}
	if err := p.cleanAll(ctx, config, only.of(entries), &report); err != nil {
		report.Error = err.Error()
	}
	if len(only.disruptions) > 0 && len(report.Left) == 0 {
		addMarks(&report, p.auditNode(context.WithoutCancel(ctx), config, only))
	}
	report.Audited = report.Audited && report.Error == "" && len(report.Left) == 0
	if err := p.printReport(config, report, len(report.Cleaned)+len(report.Left), func(keep int) any { return cutCleanReport(report, keep) }); err != nil || report.Error != "" || len(report.Left) > 0 {
		return exitNotCleaned
	}
	return exitOK
}

// cleanAll cleans the injections, and retries those that failed. All share the pauses, so
// that many failures take no longer than one. A journal is locked only during its own
// attempt.
func (p program) cleanAll(ctx context.Context, config Config, pending []journal.Entry, report *v1beta1.CleanReport) error {
	log, err := newLogger(config.LogLevel, p.stderr)
	if err != nil {
		return err
	}
	var hang []v1beta1.LeftInjection
	// The report has the errors.
	_ = withRetries(ctx, config, log, func() error {
		var again []journal.Entry
		report.Left = []v1beta1.LeftInjection{}
		for _, entry := range pending {
			name := injectionName(entry.Injection)
			objects, audited, err := p.cleanOne(ctx, config, entry)
			left := v1beta1.LeftInjection{Injection: name, Objects: objects}
			switch {
			case err == nil:
				report.Cleaned = append(report.Cleaned, name)
				report.Audited = report.Audited && audited
				continue
			case errors.Is(err, errHangs):
				left.Error = err.Error()
				hang = append(hang, left)
				continue
			}
			left.Error = err.Error()
			report.Left, again = append(report.Left, left), append(again, entry)
		}
		if pending = again; len(pending) > 0 {
			return fmt.Errorf("%d injections are not cleaned; the first: %s", len(pending), report.Left[0].Error)
		}
		return nil
	})
	report.Left = append(report.Left, hang...)
	return nil
}

// cleanOne makes one attempt, which a signal does not interrupt. It returns whether the
// node was searched afterwards, or what is left after a failure.
func (p program) cleanOne(ctx context.Context, config Config, entry journal.Entry) (left []string, audited bool, err error) {
	if ctx.Err() != nil {
		return []string{"journal " + entry.Name}, false, errAsked
	}
	s, err := recoverSession(config, p.kinds, entry.Injection)
	switch {
	case isMissing(err):
		return nil, true, nil // its own injector was faster, or there never was a record
	case errors.Is(err, journal.ErrBusy):
		return nil, false, fmt.Errorf("%w: end that one; it then cleans up", err)
	case err != nil:
		return []string{"journal " + entry.Name}, false, err
	}
	err = bounded(context.WithoutCancel(ctx), config.CleanTimeout, s.clean)
	if errors.Is(err, errHangs) {
		return s.left(), false, err // it stays locked: the attempt that hangs still runs
	}
	defer s.journal.Close()
	if err != nil {
		return s.left(), false, err
	}
	return nil, s.auditErr == nil, nil
}

// addMarks adds the marks of a disruption that an audit of the whole node finds although
// all its journals were cleaned. They come from a journal that was lost.
func addMarks(r *v1beta1.CleanReport, found v1beta1.Audit) {
	for _, mark := range found.Marks {
		r.Left = append(r.Left, v1beta1.LeftInjection{
			Injection: injectionName(v1beta1.Injection{Kind: mark.Kind, Disruption: mark.Disruption, Target: v1beta1.InjectionTarget{UID: mark.Target}}),
			Error:     "no journal describes how to clean it up", Objects: []string{mark.Object},
		})
	}
	r.Audited = r.Audited && found.Error == ""
}

// cutCleanReport keeps at most keep injections, those left before those cleaned.
func cutCleanReport(r v1beta1.CleanReport, keep int) v1beta1.CleanReport {
	left := min(keep, len(r.Left))
	cleaned := keep - left
	r.More = len(r.Left) - left + len(r.Cleaned) - cleaned
	r.Left, r.Cleaned = slices.Clone(r.Left[:left]), r.Cleaned[:cleaned]
	r.Error = text.Shorten(r.Error, maxReason)
	for n := range r.Left {
		r.Left[n].Error = text.Shorten(r.Left[n].Error, maxReason)
		r.Left[n].Objects = r.Left[n].Objects[:min(len(r.Left[n].Objects), 5)]
	}
	return r
}

// injectionName describes an injection to people, with all they need to find its objects.
func injectionName(i v1beta1.Injection) string {
	return fmt.Sprintf("%s of disruption %s/%s (%s) on %s (%s)",
		i.Kind, i.Disruption.Namespace, i.Disruption.Name, i.Disruption.UID, i.Target.Name, i.Target.UID)
}
