package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/cluster"
	"github.com/squall-chaos/squall/cli/report"
	"github.com/squall-chaos/squall/cli/story"
	"github.com/squall-chaos/squall/workflows/contract"
)

// reportFormats write a report by the name of their format.
var reportFormats = map[string]func(report.Report) ([]byte, error){
	"json": func(r report.Report) ([]byte, error) {
		var text bytes.Buffer
		err := asJSON.write(&text, r)
		return text.Bytes(), err
	},
	"junit": report.Report.JUnit,
	"html":  report.Report.HTML,
}

// reports are the files of --report and the run that they describe.
type reports struct {
	named []string
	files []reportFile
	began time.Time
	// manifest is the file of the run, of its object.
	manifest string
	of       reported
	// created is true once the object of the run exists.
	created bool
}

type reportFile struct {
	*os.File
	format string
}

// reported is an object that a report describes. It sets the outcome if the object has
// ended.
type reported interface {
	reportInto(ctx context.Context, r *report.Report)
}

func (r *reports) flag(to *cobra.Command) {
	formats := slices.Sorted(maps.Keys(reportFormats))
	to.Flags().StringArrayVar(&r.named, "report", nil, "write a report at the end, as FORMAT=FILE; repeatable; formats: "+strings.Join(formats, ", "))
	_ = to.RegisterFlagCompletionFunc("report", func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		var begun []string
		for _, format := range formats {
			begun = append(begun, format+"=")
		}
		return begun, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	})
}

// open creates the files before anything is created in the cluster, so that a report that
// cannot be written fails early.
func (r *reports) open() error {
	var files []reportFile
	var paths []string
	for _, named := range r.named {
		format, path, _ := strings.Cut(named, "=")
		switch _, known := reportFormats[format]; {
		case !known:
			return usage("--report %s: want FORMAT=FILE, and as FORMAT one of %s", named, strings.Join(slices.Sorted(maps.Keys(reportFormats)), ", "))
		case path == "":
			return usage("--report %s: name a file, such as %s=report.%[2]s", named, format)
		case slices.Contains(paths, path):
			return usage("--report names the file %s twice", path)
		}
		paths, files = append(paths, path), append(files, reportFile{format: format})
	}
	for i, path := range paths {
		file, err := os.Create(path)
		if err != nil {
			return fmt.Errorf("the report cannot be written, so nothing was done: %w", err)
		}
		files[i].File = file
	}
	r.files = files
	return nil
}

// writeReports writes the reports of a run that ended with an error or nil, which it
// returns. If a report cannot be written, a successful run fails.
func (c *command) writeReports(ctx context.Context, r *reports, ended error) error {
	if len(r.files) == 0 {
		return ended
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
	defer cancel()
	described := r.describe(ctx, c.now(), ended)
	var failed error
	for _, file := range r.files {
		text, err := reportFormats[file.format](described)
		if err == nil {
			_, err = file.Write(text)
		}
		if err = errors.Join(err, file.Close()); err != nil {
			failed = errors.Join(failed, fmt.Errorf("write the report %s: %w", file.Name(), err))
		}
	}
	if ended == nil || failed == nil {
		return errors.Join(ended, failed)
	}
	c.fail(failed)
	return ended
}

// describe describes a run that ended with an error or nil.
func (r *reports) describe(ctx context.Context, now time.Time, ended error) report.Report {
	d := report.Report{Format: report.Format, File: r.manifest, Began: r.began, Ended: now, Disruptions: []report.Disruption{}}
	d.ExitCode, _ = codeOf(ended)
	if r.of != nil {
		r.of.reportInto(ctx, &d)
	}
	if d.Outcome != "" {
		return d
	}
	d.Outcome = report.Error
	if r.created {
		d.Outcome = report.Unfinished
	}
	if ended != nil {
		d.Why = ended.Error()
	}
	for i := range d.Disruptions {
		if of := &d.Disruptions[i]; of.Outcome == report.Unfinished {
			of.Outcome, of.Why = d.Outcome, d.Why
		}
	}
	return d
}

// manifestOf is the object of a manifest, before it is created. One of both is nil.
type manifestOf struct {
	disruption *v1beta1.Disruption
	scenario   *v1beta1.DisruptionScenario
}

func (m manifestOf) reportInto(_ context.Context, r *report.Report) {
	if m.disruption != nil {
		r.Disruptions = append(r.Disruptions, report.Of(m.disruption, false))
		return
	}
	r.Scenario, r.Disruptions = report.OfScenario(m.scenario, nil)
}

// watching is an object during a run, with the changes that were seen.
type watching struct {
	last *v1beta1.Disruption
	gone bool
	seen []report.Moment
}

// see stores the object as it is now; nil if it is gone.
func (w *watching) see(now *v1beta1.Disruption, at time.Time) {
	if w.gone = now == nil; w.gone {
		return
	}
	w.last = now
	moment := report.MomentOf(now, at)
	if n := len(w.seen); n == 0 || !w.seen[n-1].Same(moment) {
		w.seen = append(w.seen, moment)
	}
}

func (w *watching) report() report.Disruption {
	d := report.Of(w.last, w.gone)
	d.Timeline = w.seen
	return d
}

// storedDisruption is a disruption whose story Temporal has. live is its object, nil if it
// is gone.
type storedDisruption struct {
	story.Story
	live *v1beta1.Disruption
}

func (t storedDisruption) reportInto(_ context.Context, r *report.Report) {
	var d report.Disruption
	if t.live != nil {
		d = report.Of(t.live, false)
	} else {
		d = report.OfStory(t.Story)
	}
	for _, step := range t.Steps {
		d.Steps = append(d.Steps, report.Event{Time: step.Time, Text: step.Text})
	}
	d.Answers = t.Answers
	r.Disruptions = append(r.Disruptions, d)
	r.Outcome, r.Why, r.ExitCode = d.Outcome, d.Why, codes[d.Outcome]
	if n := len(t.Steps); n > 0 {
		r.Began, r.Ended = t.Steps[0].Time, t.Steps[n-1].Time
	}
}

// reportStory writes reports about a disruption that Temporal knows.
func (c *command) reportStory(ctx context.Context, client *cluster.Client, found story.Story, written *reports) error {
	if err := written.open(); err != nil {
		return err
	}
	of := storedDisruption{Story: found}
	ref, _ := contract.ParseWorkflowID(found.Workflow)
	if client.Config != nil {
		if d, err := client.Disruption(ctx, ref.Namespace, ref.Name); err == nil && d.UID == ref.UID {
			of.live = d
		}
	}
	written.of = of
	return c.writeReports(ctx, written, nil)
}

func (d *attended) reportInto(_ context.Context, r *report.Report) {
	described := d.report()
	r.Disruptions = append(r.Disruptions, described)
	if d.ended {
		r.Outcome, r.Why = described.Outcome, described.Why
	}
}

func (s *attendedScenario) reportInto(ctx context.Context, r *report.Report) {
	if owned, err := disruptionsOf(ctx, s.client, s.last); err == nil {
		s.seeDisruptions(owned)
	}
	seen := map[string]report.Disruption{}
	for uid, one := range s.disruptions {
		seen[string(uid)] = one.report()
	}
	r.Scenario, r.Disruptions = report.OfScenario(s.last, seen)
	if s.result != nil {
		r.Outcome, r.Why = s.result.Outcome, s.result.Why
	}
}

// seeDisruptions stores the current disruptions of the scenario.
func (s *attendedScenario) seeDisruptions(owned []v1beta1.Disruption) {
	for uid, one := range s.disruptions {
		if !slices.ContainsFunc(owned, func(d v1beta1.Disruption) bool { return d.UID == uid }) {
			one.see(nil, s.now())
		}
	}
	for i := range owned {
		d := &owned[i]
		if s.disruptions[d.UID] == nil {
			s.disruptions[d.UID] = &watching{}
		}
		s.disruptions[d.UID].see(d, s.now())
	}
}
