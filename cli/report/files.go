package report

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

	"github.com/squall-chaos/squall/cli/console"
)

// reportTimeout bounds the last read of the disruptions of a scenario, for a report.
const reportTimeout = 10 * time.Second

// formats write a report by the name of their format.
var formats = map[string]func(Report) ([]byte, error){
	"json": func(r Report) ([]byte, error) {
		var text bytes.Buffer
		err := console.JSON.Write(&text, r)
		return text.Bytes(), err
	},
	"junit": Report.JUnit,
	"html":  Report.HTML,
}

// Formats are the names of the formats, in order.
func Formats() []string { return slices.Sorted(maps.Keys(formats)) }

// Files are the files of --report and the run that they describe.
type Files struct {
	// Began is when the run began, and Manifest the file of its object.
	Began    time.Time
	Manifest string
	// Subject is the object of the run; nil if it is unknown.
	Subject Subject
	// Created is true once the object of the run exists.
	Created bool

	named []string
	files []file
}

type file struct {
	*os.File
	format string
}

// Subject is an object that a report describes. It sets the outcome if the object has
// ended.
type Subject interface {
	ReportInto(ctx context.Context, r *Report)
}

// Flag adds --report.
func (f *Files) Flag(to *cobra.Command) {
	to.Flags().StringArrayVar(&f.named, "report", nil, "write a report at the end, as FORMAT=FILE; repeatable; formats: "+strings.Join(Formats(), ", "))
	_ = to.RegisterFlagCompletionFunc("report", func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		var begun []string
		for _, format := range Formats() {
			begun = append(begun, format+"=")
		}
		return begun, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	})
}

// Wanted is true if the command line has --report.
func (f *Files) Wanted() bool { return len(f.named) > 0 }

// Open creates the files before anything is created in the cluster, so that a report that
// cannot be written fails early.
func (f *Files) Open() error {
	var files []file
	var paths []string
	for _, named := range f.named {
		format, path, _ := strings.Cut(named, "=")
		switch _, known := formats[format]; {
		case !known:
			return console.Usage("--report %s: want FORMAT=FILE, and as FORMAT one of %s", named, strings.Join(Formats(), ", "))
		case path == "":
			return console.Usage("--report %s: name a file, such as %s=report.%[2]s", named, format)
		case slices.Contains(paths, path):
			return console.Usage("--report names the file %s twice", path)
		}
		paths, files = append(paths, path), append(files, file{format: format})
	}
	for i, path := range paths {
		file, err := os.Create(path)
		if err != nil {
			return fmt.Errorf("the report cannot be written, so nothing was done: %w", err)
		}
		files[i].File = file
	}
	f.files = files
	return nil
}

// Write writes the reports of a run that ended with an error or nil, which it
// returns. If a report cannot be written, a successful run fails.
func (f *Files) Write(ctx context.Context, s console.Streams, ended error) error {
	if len(f.files) == 0 {
		return ended
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
	defer cancel()
	described := f.describe(ctx, s.Now(), ended)
	var failed error
	for _, file := range f.files {
		text, err := formats[file.format](described)
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
	s.Fail(failed)
	return ended
}

// describe describes a run that ended with an error or nil.
func (f *Files) describe(ctx context.Context, now time.Time, ended error) Report {
	r := Report{Format: Format, File: f.Manifest, Began: f.Began, Ended: now, Disruptions: []Disruption{}}
	r.ExitCode, _ = console.CodeOf(ended)
	if f.Subject != nil {
		f.Subject.ReportInto(ctx, &r)
	}
	if r.Outcome != "" {
		return r
	}
	r.Outcome = Error
	if f.Created {
		r.Outcome = Unfinished
	}
	if ended != nil {
		r.Why = ended.Error()
	}
	for i := range r.Disruptions {
		if d := &r.Disruptions[i]; d.Outcome == Unfinished {
			d.Outcome, d.Why = r.Outcome, r.Why
		}
	}
	return r
}
