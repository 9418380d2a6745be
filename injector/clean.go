package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/journal"
)

// cleanReport is what the subcommand clean prints.
type cleanReport struct {
	// Cleaned are the injections of which nothing is left now.
	Cleaned []string `json:"cleaned"`
	// Audited is true when the node was searched for all that carries their
	// marks, and nothing was found.
	Audited bool `json:"audited"`
	// Left are those that could not be cleaned.
	Left []leftOver `json:"left"`
	// More is how many were cut off, those cleaned first.
	More int `json:"more,omitempty"`
	// Error says what kept some journals from being read.
	Error string `json:"error,omitempty"`
}

type leftOver struct {
	Injection string   `json:"injection"`
	Error     string   `json:"error"`
	Objects   []string `json:"objects,omitempty"`
}

// clean undoes what journals note, after the injectors that wrote them died. It
// leaves alone what belongs to an injector that lives: ending that one cleans.
func (p program) clean(ctx context.Context, config Config, args []string) int {
	flags := flag.NewFlagSet("clean", flag.ContinueOnError)
	flags.SetOutput(p.stderr)
	var only choice
	only.flags(flags)
	target := flags.String("target", "", "only what was done to the target with this `UID`")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		fmt.Fprintln(p.stderr, "usage: injector clean [--disruption UID] [--except UID,...] [--target UID]")
		return exitRefused
	}
	only.target = *target
	report := cleanReport{Cleaned: []string{}, Audited: true, Left: []leftOver{}}
	entries, err := journal.List(config.JournalDir)
	if err != nil {
		report.Error = err.Error()
	}
	if err := p.cleanEntries(ctx, config, only.of(entries), &report); err != nil {
		report.Error = err.Error()
	}
	report.Audited = report.Audited && report.Error == "" && len(report.Left) == 0
	if err := p.tell(config, report, len(report.Cleaned)+len(report.Left), report.cut); err != nil || report.Error != "" || len(report.Left) > 0 {
		return exitNotCleaned
	}
	return exitOK
}

// cleanEntries cleans what can be opened, all together, and reports the rest.
func (p program) cleanEntries(ctx context.Context, config Config, entries []journal.Entry, report *cleanReport) error {
	log, err := newLogger(config.LogLevel, p.stderr)
	if err != nil {
		return err
	}
	var subjects []*subject
	var names []string
	for _, entry := range entries {
		name := injectionName(entry.Injection)
		s, err := recoverSubject(config, p.kinds, entry.Injection)
		switch {
		case isMissing(err): // its own injector was faster, or there never was a record
			report.Cleaned = append(report.Cleaned, name)
		case errors.Is(err, journal.ErrBusy):
			report.Left = append(report.Left, leftOver{Injection: name, Error: err.Error() + ": end that one, and it cleans by itself"})
		case err != nil:
			report.Left = append(report.Left, leftOver{Injection: name, Error: err.Error(), Objects: []string{"journal " + entry.Name}})
		default:
			defer s.journal.Close()
			subjects, names = append(subjects, s), append(names, name)
		}
	}
	for n, err := range cleanAll(ctx, config, log, subjects) {
		if err != nil {
			report.Left = append(report.Left, leftOver{Injection: names[n], Error: err.Error(), Objects: subjects[n].left()})
			continue
		}
		report.Cleaned = append(report.Cleaned, names[n])
		report.Audited = report.Audited && subjects[n].blind == nil
	}
	return nil
}

// cut keeps as many injections as told, those left before those cleaned.
func (r cleanReport) cut(keep int) any {
	left := min(keep, len(r.Left))
	cleaned := keep - left
	r.More = len(r.Left) - left + len(r.Cleaned) - cleaned
	r.Left, r.Cleaned = slices.Clone(r.Left[:left]), r.Cleaned[:cleaned]
	r.Error = shorten(r.Error, maxReason)
	for n := range r.Left {
		r.Left[n].Error = shorten(r.Left[n].Error, maxReason)
		r.Left[n].Objects = r.Left[n].Objects[:min(len(r.Left[n].Objects), 5)]
	}
	return r
}

// injectionName is for people and says all that is needed to find the objects.
func injectionName(i v1beta1.Injection) string {
	return fmt.Sprintf("%s of disruption %s/%s (%s) on %s (%s)",
		i.Kind, i.Disruption.Namespace, i.Disruption.Name, i.Disruption.UID, i.Target.Name, i.Target.UID)
}
