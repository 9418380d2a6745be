package main

import (
	"encoding/json"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/cli/report"
	"github.com/squall-chaos/squall/cli/view"
)

const reportedRun = "apiVersion: chaos.squall.dev/v1beta1\nkind: Disruption\nmetadata: {name: NAME, finalizers: [" + v1beta1.DisruptionFinalizer + "]}\n" +
	"spec: {selector: {app: web}, count: COUNT, duration: 5m, cpuPressure: {}}\n"

// reportsIn are the options for a report in each format, in a directory of the test.
func reportsIn(t *testing.T) (dir string, options []string) {
	dir = t.TempDir()
	for _, format := range report.Formats() {
		options = append(options, "--report", format+"="+filepath.Join(dir, format))
	}
	return dir, options
}

// reportedAs wants every format to be written, and returns the one of JSON.
func (l *live) reportedAs(dir string, outcome view.Outcome, code int, why string) report.Report {
	l.t.Helper()
	var r report.Report
	for _, format := range report.Formats() {
		text, err := os.ReadFile(filepath.Join(dir, format))
		l.Must(err)
		switch format {
		case "json":
			l.Must(json.Unmarshal(text, &r))
		case "junit":
			l.Must(xml.Unmarshal(text, &struct {
				XMLName xml.Name `xml:"testsuites"`
			}{}))
		}
		if !strings.Contains(string(text), string(outcome)) && outcome != view.Passed {
			l.t.Errorf("the report %s does not have the outcome %s:\n%s", format, outcome, text)
		}
	}
	if r.Outcome != outcome || r.ExitCode != code || !strings.Contains(r.Why, why) || r.Format != report.Format || r.Ended.Before(r.Began) {
		l.t.Errorf("report = %s, exit code %d, %q, from %s to %s; want %s, %d, %q", r.Outcome, r.ExitCode, r.Why, r.Began, r.Ended, outcome, code, why)
	}
	return r
}

func TestRunIsReported(t *testing.T) {
	l := newLive(t)
	t.Run("at the end", func(t *testing.T) {
		l := l.in(t)
		dir, options := reportsIn(t)
		w := l.watch("ends", nil, options...)
		w.becomes(w.ref, holding)
		w.prints("Holding")
		w.becomes(w.ref, finished("expired"))
		w.ends(console.ExitOK, "Passed")
		r := l.reportedAs(dir, view.Passed, console.ExitOK, "it was injected and cleaned up")
		if d := r.Disruptions[0]; d.Name != "ends" || !d.Cleaned || d.InjectedAt == nil || d.Injected != 2 || len(d.Timeline) < 2 || d.Faults[0] != "cpuPressure" {
			t.Errorf("the disruption is reported as %+v", d)
		}
		w.finalize(w.ref)
	})
	t.Run("of one that a signal ended", func(t *testing.T) {
		l := l.in(t)
		dir, options := reportsIn(t)
		w := l.watch("signalled", nil, options...)
		w.interrupts <- syscall.SIGTERM
		w.deleting(w.ref)
		w.finalize(w.ref)
		w.ends(console.ExitAborted)
		l.reportedAs(dir, view.Aborted, console.ExitAborted, "it was deleted before its time was over")
	})
	t.Run("of one that goes on after two signals", func(t *testing.T) {
		l := l.in(t)
		dir, options := reportsIn(t)
		w := l.watch("twice", nil, options...)
		w.interrupts <- syscall.SIGTERM
		w.deleting(w.ref)
		w.interrupts <- syscall.SIGTERM
		w.ends(console.ExitError)
		l.reportedAs(dir, report.Unfinished, console.ExitError, "is ending but not gone yet")
		w.finalize(w.ref)
	})
	run := func(name, count string, more ...string) call {
		manifest := strings.NewReplacer("NAME", name, "COUNT", count).Replace(reportedRun)
		return do(t.Context(), manifest, append([]string{"run", "-"}, more...)...)
	}
	t.Run("of one that takes too long", func(t *testing.T) {
		l := l.in(t)
		dir, options := reportsIn(t)
		l.want(run("slow", "1", append(options, "--timeout", "1s")...), console.ExitError, "did not end within --timeout")
		l.reportedAs(dir, report.Unfinished, console.ExitError, "did not end within --timeout")
		l.want(run("slow", "1", options...), console.ExitError, "disruption "+l.Shop+"/slow exists already")
		if r := l.reportedAs(dir, report.Error, console.ExitError, "exists already"); r.Disruptions[0].Outcome != report.Error {
			t.Errorf("a disruption that exists is reported as %+v", r.Disruptions[0])
		}
		l.finalize(v1beta1.DisruptionRef{Namespace: l.Shop, Name: "slow"})
	})
	t.Run("of a manifest that is wrong", func(t *testing.T) {
		l := l.in(t)
		dir, options := reportsIn(t)
		l.want(run("wrong", "0", options...), console.ExitError, "want at least 1")
		l.reportedAs(dir, report.Error, console.ExitError, "want at least 1")
	})
	t.Run("never, and nothing is created, if that is not possible", func(t *testing.T) {
		l, dir := l.in(t), t.TempDir()
		l.want(run("none", "1", "--report", "xml=a"), console.ExitUsage, "as FORMAT one of")
		l.want(run("none", "1", "--report", "junit"), console.ExitUsage, "such as junit=report.junit")
		l.want(run("none", "1", "--report", "junit="+dir+"/a", "--report", "json="+dir+"/a"), console.ExitUsage, "twice")
		l.want(run("none", "1", "--report", "junit="+dir+"/a", "--detach"), console.ExitUsage, "--detach does not wait")
		l.want(run("none", "1", "--report", "junit="+dir+"/none/a"), console.ExitError, "so nothing was done: open "+dir)
		l.want(l.squall("status", "none"), console.ExitError, `there is no disruption "none"`)
	})
}

func TestRunOfAScenarioIsReported(t *testing.T) {
	l := newLive(t)
	dir, options := reportsIn(t)
	w := l.runs(nil, options...)
	s := w.getScenario("day")
	ref := w.child(s, 0)
	w.becomes(ref, holding)
	w.scenarioBecomes("day", `{"phase":"Running","step":"burn","steps":[{"name":"burn","phase":"Running","startedAt":"2026-11-20T12:00:00Z","disruptions":[{"name":"`+ref.Name+`","uid":"`+string(ref.UID)+`"}]}]}`)
	w.prints("step 1 of 3, burn: Running")
	w.becomes(ref, finished("expired"))
	w.scenarioBecomes("day", `{"phase":"Finished","verdict":"Passed","message":"All steps are done.","steps":[{"name":"burn","phase":"Finished","verdict":"Passed","startedAt":"2026-11-20T12:00:00Z","endedAt":"2026-11-20T12:01:00Z","disruptions":[{"name":"`+ref.Name+`","uid":"`+string(ref.UID)+`","ending":"expired","verdict":"Passed"}]}]}`)
	w.ends(console.ExitOK, "Passed")
	r := l.reportedAs(dir, view.Passed, console.ExitOK, "All steps are done.")
	if len(r.Disruptions) != 1 || r.Disruptions[0].InjectedAt == nil || r.Disruptions[0].Outcome != view.Passed || r.Scenario == nil || len(r.Scenario.Steps) != 3 {
		t.Errorf("the scenario is reported as %+v, %+v", r.Scenario, r.Disruptions)
	}
	w.finalize(ref)
	w.remove()
}

// Every option that a pipeline of deploy gives to squall run exists.
func TestOptionsOfPipelines(t *testing.T) {
	s := console.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}
	run, _, err := commands("squall", s).Find([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../deploy/pipelines/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	options := 0
	for _, file := range append(files, "../.github/actions/run/action.yml") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if !strings.Contains(line, "--report") && !strings.Contains(line, "squall run") {
				continue
			}
			_, of, _ := strings.Cut(line, "squall run") // the options before belong to another program
			if of == "" {
				of = line
			}
			for _, option := range regexp.MustCompile(`--([a-z-]+)`).FindAllStringSubmatch(of, -1) {
				options++
				if run.Flags().Lookup(option[1]) == nil {
					t.Errorf("%s: squall run has no option --%s", file, option[1])
				}
			}
			for _, named := range regexp.MustCompile(`\b([a-z]+)=\S*squall\.`).FindAllStringSubmatch(of, -1) {
				if !slices.Contains(report.Formats(), named[1]) {
					t.Errorf("%s: there is no report %s", file, named[1])
				}
			}
		}
	}
	if options < 12 {
		t.Errorf("%d options were found: the test would prove little", options)
	}
}
