package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestProgressFitsTheTerminal(t *testing.T) {
	for _, test := range []struct {
		name, text string
		width      int
		want       string
	}{
		{"shorter than the terminal", "Holding", 9, "Holding"},
		{"one column stays free", "Holding", 8, "Holding"},
		{"as wide as the terminal", "Holding", 7, "Holdi…"},
		{"runes count, not bytes", "éééé", 5, "éééé"},
		{"a terminal of two columns", "Holding", 2, "…"},
		{"an unknown width", "Holding", 0, "Holding"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			p := &progress{out: &out, terminal: true, width: func() int { return test.width }}
			p.show("key", test.text)
			if want := "\r\x1b[K" + test.want; out.String() != want {
				t.Errorf("show(%q) at %d columns wrote %q, want %q", test.text, test.width, out.String(), want)
			}
		})
	}
}

// On a terminal of 80 columns the line of a run never wraps, and shows when it ends.
func TestRunAt80Columns(t *testing.T) {
	w := newLive(t).watch("a-disruption-with-a-name-of-thirty-eight-chars", func(s *streams) {
		s.terminal, s.errTerminal, s.width = true, true, func() int { return 80 }
	})
	w.becomes(w.ref, holding)
	w.prints("…")
	w.becomes(w.ref, finished("expired"))
	w.ends(exitOK, "Passed")
	for _, line := range strings.Split(w.out.String(), "\r\x1b[K")[1:] { // warnings come before
		if line, _, _ = strings.Cut(line, "\n"); utf8.RuneCountInString(line) > 79 && !strings.HasPrefix(line, "Passed") {
			t.Errorf("a line of %d columns: %q", utf8.RuneCountInString(line), line)
		}
	}
	w.finalize(w.ref)
}
