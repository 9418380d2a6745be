package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

// counts is what became of the tests of a stage. Only tests count, not their
// packages; a test with subtests counts as well as they do.
type counts struct {
	passed, failed int
	skipped        []skip
	failures       []failure
	// excused are failures of tests in quarantine. They are not among failed.
	excused []failure
	// outcomes are "pass", "fail" or "skip", by names such as
	// "activities:_TestJudge/still_running:_wait".
	outcomes map[string]string
	packages []packageTime
	tests    []testTime
	starved  []starvation
}

// failure is a test that failed, or a package that did not even start, and what
// it printed.
type failure struct {
	name   string
	output []string
}

// packageTime is how long the tests of a package took, with what they waited
// for, as several packages run at a time.
type packageTime struct {
	name    string
	seconds float64
	tests   int
	// processor is what the tests took of the processors, with the servers that they
	// started. It is known of packages that the suite runs itself.
	processor time.Duration
}

// testTime is how long a test without parents took.
type testTime struct {
	name    string
	seconds float64
}

// add takes what another count holds.
func (c *counts) add(other counts) {
	c.passed += other.passed
	c.failed += other.failed
	c.skipped = append(c.skipped, other.skipped...)
	c.failures = append(c.failures, other.failures...)
	c.excused = append(c.excused, other.excused...)
	c.packages = append(c.packages, other.packages...)
	c.tests = append(c.tests, other.tests...)
	c.starved = append(c.starved, other.starved...)
	for name, outcome := range other.outcomes {
		c.record(name, outcome)
	}
}

// record stores how a test ended. A test that runs twice has failed if it failed
// once.
func (c *counts) record(name, outcome string) {
	if c.outcomes == nil {
		c.outcomes = map[string]string{}
	}
	name = strings.ReplaceAll(name, " ", "_")
	if before := c.outcomes[name]; before == "fail" || before == "pass" && outcome == "skip" {
		return
	}
	c.outcomes[name] = outcome
}

// silence is the longest time without output before a line lists what runs.
const silence = 30 * time.Second

// goTest runs go test with the arguments and counts, and repeats once what failed for
// want of processors.
func (s *suite) goTest(ctx context.Context, c *counts, dir string, env []string, args ...string) error {
	run := func(into *counts, first ...string) error {
		cmd := s.command(ctx, "go", slices.Concat([]string{"test", "-json", "-ldflags=-w"}, first, args)...)
		cmd.Dir, cmd.Env = dir, append(cmd.Env, env...)
		return s.counted(into, cmd)
	}
	var own counts
	err := run(&own)
	if err = own.unexcused(ctx, err); own.failed > 0 {
		err = own.retryStarved(func(_, test string, into *counts) error { return run(into, "-run", "^"+test+"$") })
	}
	c.add(own)
	if err != nil {
		return fmt.Errorf("go test %s: %w", strings.Join(args[:min(len(args), 8)], " "), err)
	}
	return nil
}

// counted runs a program that prints what go test -json prints, and counts.
func (s *suite) counted(c *counts, cmd *exec.Cmd) error {
	r := newReading(c, s.logf, s.out)
	defer r.end()
	return r.run(cmd, "")
}

// event is a line of go test -json.
type event struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Output      string
	Elapsed     float64
	FailedBuild string
}

// outcomes is how many tests of a package ended in each way.
type outcomes struct{ passed, skipped, failed, excused int }

// reading turns the events of programs that run at a time into lines for people and
// into counts. Its goroutine alone touches the counts until end returns.
type reading struct {
	counts *counts
	// seed orders the tests of the packages that are shuffled, 0 if none is.
	seed    uint64
	logf    func(string, ...any)
	out     io.Writer           // for what tests that fail have printed
	output  map[string][]string // by package and test, of those not over yet
	began   map[string]time.Time
	inside  map[string]outcomes
	printed bool // since the last tick
	lines   chan string
	spent   chan packageTime
	done    chan struct{}
}

func newReading(c *counts, logf func(string, ...any), out io.Writer) *reading {
	r := &reading{counts: c, out: out, output: map[string][]string{}, began: map[string]time.Time{}, inside: map[string]outcomes{},
		lines: make(chan string), spent: make(chan packageTime), done: make(chan struct{})}
	r.logf = func(format string, args ...any) {
		r.printed = true
		logf(format, args...)
	}
	go r.takeAll()
	return r
}

// end returns when all that was read is counted. Nothing may be run after it.
func (r *reading) end() {
	close(r.lines)
	<-r.done
}

func (r *reading) takeAll() {
	defer close(r.done)
	tick := time.NewTicker(silence)
	defer tick.Stop()
	for {
		select {
		case line, more := <-r.lines:
			if !more {
				return
			}
			r.take(line)
		case p := <-r.spent:
			r.processEnded(p)
		case <-tick.C:
			if !r.printed {
				r.logf("    running: %s", r.running())
			}
			r.printed = false
		}
	}
}

// run runs a program that prints events. Of one that tests a single package, which is
// named then, the time of the processors is counted too.
func (r *reading) run(cmd *exec.Cmd, pkg string) error {
	reader, writer := io.Pipe()
	cmd.Stdout = writer
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.read(reader)
	}()
	began := time.Now()
	err := cmd.Run()
	writer.Close()
	<-done
	if pkg != "" && cmd.ProcessState != nil {
		r.spent <- packageTime{name: short(pkg), seconds: time.Since(began).Seconds(), processor: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	}
	return err
}

// processEnded notes what the tests of a package took of the processors. A process
// that panics ends without a result of its package.
func (r *reading) processEnded(p packageTime) {
	maps.DeleteFunc(r.began, func(key string, _ time.Time) bool { return short(strings.Fields(key)[0]) == p.name })
	for i := range r.counts.packages {
		if r.counts.packages[i].name == p.name {
			r.counts.packages[i].processor = p.processor
			return
		}
	}
	r.counts.packages = append(r.counts.packages, p)
	r.logf("    FAIL %s: its process ended without a result", p.name)
	if !slices.ContainsFunc(r.counts.failures, func(f failure) bool { return strings.HasPrefix(f.name, p.name+": ") }) {
		r.counts.failed++
		r.counts.failures = append(r.counts.failures, failure{p.name, r.withOrder(p.name, []string{"the process ended without a result\n"})})
	}
}

// read takes everything in until the end of the stream.
func (r *reading) read(from io.Reader) {
	scanner := bufio.NewScanner(from)
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		r.lines <- scanner.Text()
	}
	_, _ = io.Copy(io.Discard, from) // a line too long must not block the tests
}

func (r *reading) take(line string) {
	var e event
	if json.Unmarshal([]byte(line), &e) != nil {
		r.logf("    %s", line) // not from a test: go's own message
		return
	}
	key := e.Package + " " + e.Test
	switch e.Action {
	case "run", "start", "cont":
		r.began[key] = time.Now()
	case "pause": // it waits for its turn
		delete(r.began, key)
	case "build-output":
		r.logf("    %s", strings.TrimRight(e.Output, "\n"))
	case "output":
		r.output[key] = append(r.output[key], e.Output)
	case "pass", "fail", "skip":
		r.finish(e, key)
	}
}

func (r *reading) finish(e event, key string) {
	defer delete(r.output, key)
	delete(r.began, key)
	if e.Test == "" {
		r.finishPackage(e, key)
		return
	}
	inside := r.inside[e.Package]
	name := short(e.Package) + ": " + e.Test
	r.counts.record(name, e.Action)
	if !strings.Contains(e.Test, "/") {
		r.counts.tests = append(r.counts.tests, testTime{name, e.Elapsed})
	}
	switch e.Action {
	case "pass":
		r.counts.passed++
		inside.passed++
	case "skip":
		r.counts.skipped = append(r.counts.skipped, skip{name, reason(r.output[key])})
		inside.skipped++
	case "fail":
		r.fail(e, name, r.withOrder(e.Package, r.output[key]), &inside)
	}
	r.inside[e.Package] = inside
	if strings.HasPrefix(short(e.Package), "test/") && !strings.Contains(e.Test, "/") && e.Action == "pass" {
		r.logf("    pass %s (%.1f s)", e.Test, e.Elapsed)
	}
}

// fail counts a test that failed with this output, and prints it.
func (r *reading) fail(e event, name string, output []string, inside *outcomes) {
	where := ""
	if excuses(name, output) {
		where = ", in quarantine"
		inside.excused++
		r.counts.excused = append(r.counts.excused, failure{name, output})
	} else {
		r.counts.failed++
		inside.failed++
		r.counts.failures = append(r.counts.failures, failure{name, output})
	}
	r.logf("    FAIL %s (%.1f s%s)", name, e.Elapsed, where)
	_, _ = fmt.Fprint(r.out, indent(output))
}

func (r *reading) finishPackage(e event, key string) {
	inside := r.inside[e.Package]
	r.counts.packages = append(r.counts.packages, packageTime{name: short(e.Package), seconds: e.Elapsed, tests: inside.passed})
	if e.Action == "fail" {
		// The package did not even start, or failed after its tests, or ended before the last.
		excused := inside.excused > 0 && slices.Contains(r.output[key], "FAIL\n")
		if inside.failed == 0 && !excused {
			r.counts.failed++
			r.counts.failures = append(r.counts.failures, failure{short(e.Package), r.withOrder(e.Package, r.output[key])})
		}
		r.logf("    FAIL %s (%.1f s)", short(e.Package), e.Elapsed)
		_, _ = fmt.Fprint(r.out, indent(r.output[key]))
		return
	}
	if inside != (outcomes{}) {
		r.logf("    ok   %s (%.1f s): %d passed, %d skipped", short(e.Package), e.Elapsed, inside.passed, inside.skipped)
	}
}

func (r *reading) running() string {
	var names []string
	for key, began := range r.began {
		pkg, test, _ := strings.Cut(key, " ")
		if test != "" {
			names = append(names, fmt.Sprintf("%s: %s (%.0f s)", short(pkg), test, time.Since(began).Seconds()))
		}
	}
	if len(names) == 0 {
		return "compiling"
	}
	return strings.Join(names[:min(len(names), 6)], ", ")
}

// reason is the last message of a skipped test, without its file and line.
func reason(output []string) string {
	for i := len(output) - 1; i >= 0; i-- {
		line := strings.TrimSpace(output[i])
		if line == "" || strings.HasPrefix(line, "---") || strings.HasPrefix(line, "===") {
			continue
		}
		if _, message, found := strings.Cut(line, ".go:"); found {
			_, message, _ = strings.Cut(message, ": ")
			return message
		}
		return line
	}
	return "no reason given"
}

func short(pkg string) string {
	return strings.TrimPrefix(pkg, "github.com/squall-chaos/squall/")
}

// ends are the first and last lines that a failed test printed, at most so many of
// each. Lines between them that have ", want " come too, up to the same number.
// Lines are cut at 400 bytes. The failed test's own lines come first, then those
// about leftovers.
func (f failure) ends(most int) []string {
	var lines []string
	for line := range strings.Lines(strings.Join(f.output, "")) {
		if !strings.HasPrefix(line, "=== ") {
			line = strings.TrimSuffix(line, "\n")
			lines = append(lines, line[:min(len(line), 400)]+"\n")
		}
	}
	if len(lines) <= 2*most {
		return lines
	}
	var between []string
	for _, line := range lines[most : len(lines)-most] {
		if len(between) < most && strings.Contains(line, ", want ") {
			between = append(between, line)
		}
	}
	if dropped := len(lines) - 2*most - len(between); dropped > 0 {
		between = append(between, fmt.Sprintf("... %d lines\n", dropped))
	}
	return slices.Concat(lines[:most], between, lines[len(lines)-most:])
}

// testLine matches what a test file logs or reports.
var testLine = regexp.MustCompile(`^\s*\w+_test\.go:\d+: `)

// cause is the line that most likely explains why a test failed: the first of a
// test file with ", want ", else the last of a test file. It is cut at 400 bytes,
// and empty where there is none.
func (f failure) cause() (cause string) {
	for _, line := range f.output {
		if !testLine.MatchString(line) {
			continue
		}
		cause = strings.TrimSpace(line)
		cause = cause[:min(len(cause), 400)]
		if strings.Contains(line, ", want ") {
			break
		}
	}
	return cause
}

func indent(lines []string) string {
	text := strings.TrimRight(strings.Join(lines, ""), "\n")
	if text == "" {
		return ""
	}
	return "             | " + strings.ReplaceAll(text, "\n", "\n             | ") + "\n"
}
