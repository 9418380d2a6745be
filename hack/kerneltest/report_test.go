package main

import (
	"bytes"
	"strings"
	"testing"
)

// printed is a guest's output, with line ends as on a terminal.
func printed(lines ...string) string { return strings.Join(lines, "\r\n") + "\r\n" }

func TestReport(t *testing.T) {
	begin, end, done := markBegin+"injector/network", markEnd+"0", markDone
	for name, c := range map[string]struct {
		printed          string
		failed, complete bool
		want             []string // events, in order
	}{
		"all passed": {
			printed(begin, "\x16=== RUN   TestA", "\x16--- PASS: TestA (0.10s)", "\x16PASS", end, done), false, true,
			[]string{`"run","Package":"github.com/squall-chaos/squall/injector/network@uml","Test":"TestA"`, `"pass"`},
		},
		"a test failed": {
			printed(begin, "\x16=== RUN   TestA", "\x16--- FAIL: TestA (0.10s)", "\x16FAIL", markEnd+"1", done), true, true,
			[]string{`"fail","Package":"github.com/squall-chaos/squall/injector/network@uml","Test":"TestA"`},
		},
		"the program died after its tests": {
			printed(begin, "\x16PASS", markEnd+"2", done), true, true, []string{`exit code 2`, `"fail"`},
		},
		"the machine died": {
			printed(begin, "\x16=== RUN   TestA", "the last wor"), true, false, []string{`"run"`, `"fail"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			r := newReport(t.Context(), "uml", true)
			r.output = &out
			if err := r.read(strings.NewReader(c.printed)); err != nil {
				t.Fatal(err)
			}
			if err := r.interrupted(); err != nil {
				t.Fatal(err)
			}
			if r.failed != c.failed || r.complete != c.complete {
				t.Errorf("failed %t, complete %t; want %t, %t", r.failed, r.complete, c.failed, c.complete)
			}
			rest := out.String()
			for _, want := range c.want {
				_, after, found := strings.Cut(rest, want)
				if !found {
					t.Errorf("events are %s\nwant %s after what came before", out.String(), want)
				}
				rest = after
			}
		})
	}
}
