package console

import (
	"bytes"
	"testing"
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
			p := &Progress{out: &out, terminal: true, width: func() int { return test.width }}
			p.Show("key", test.text)
			if want := "\r\x1b[K" + test.want; out.String() != want {
				t.Errorf("Show(%q) at %d columns wrote %q, want %q", test.text, test.width, out.String(), want)
			}
		})
	}
}
