package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// results reads what go test -json writes. It prints the output of failed tests
// and counts the others.
type results struct {
	out             io.Writer
	rest            []byte              // a line that is not complete yet
	printed         map[string][]string // by package and test, until the test ends
	passed, skipped int
	reasons         map[string]int // why tests were skipped
}

func newResults(out io.Writer) *results {
	return &results{out: out, printed: map[string][]string{}, reasons: map[string]int{}}
}

// Write takes a part of the stream; lines may be split between two calls.
func (r *results) Write(p []byte) (int, error) {
	r.rest = append(r.rest, p...)
	for {
		line, rest, complete := bytes.Cut(r.rest, []byte("\n"))
		if !complete {
			return len(p), nil
		}
		r.take(line)
		r.rest = bytes.Clone(rest)
	}
}

func (r *results) take(line []byte) {
	var event struct{ Action, Package, Test, Output string }
	if json.Unmarshal(line, &event) != nil {
		_, _ = fmt.Fprintf(r.out, "%s\n", line)
		return
	}
	key := event.Package + " " + event.Test
	switch event.Action {
	case "build-output":
		_, _ = io.WriteString(r.out, event.Output)
	case "output":
		r.printed[key] = append(r.printed[key], event.Output)
		return
	case "fail":
		_, _ = io.WriteString(r.out, strings.Join(r.printed[key], ""))
	case "pass":
		if event.Test != "" {
			r.passed++
		}
	case "skip":
		if event.Test != "" {
			r.skipped++
			r.reasons[reason(r.printed[key])]++
		}
	default:
		return
	}
	delete(r.printed, key)
}

// reason is the last line that a skipped test printed itself, without its place.
func reason(printed []string) string {
	for _, line := range slices.Backward(printed) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "---") || strings.HasPrefix(line, "===") {
			continue
		}
		if _, after, found := strings.Cut(line, ".go:"); found {
			_, line, _ = strings.Cut(after, ": ")
		}
		return line
	}
	return "no reason given"
}

// summary is one line: what ran, which tests were skipped and why, and which
// packages are not plain.
func (r *results) summary(packages int, needing map[string]int) string {
	text := fmt.Sprintf("%d tests in %d plain packages passed, %d skipped", r.passed, packages, r.skipped)
	if r.skipped > 0 {
		text += " (" + counted(r.reasons) + ")"
	}
	return text + "; not run: packages that need " + counted(needing) + " (make test-unit, as root)"
}

// counted is for example "an API server: 34, root: 12".
func counted(by map[string]int) string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, fmt.Sprintf("%s: %d", what, by[what]))
	}
	return strings.Join(parts, ", ")
}
