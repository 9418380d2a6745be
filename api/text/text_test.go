package text

import (
	"testing"
	"unicode/utf8"
)

func TestShorten(t *testing.T) {
	for _, c := range []struct {
		text  string
		limit int
		want  string
	}{
		{"", 0, ""}, {"short", 5, "short"}, {"longer", 5, "lo…"}, {"äöü", 5, "ä…"}, {"äöü", 6, "äöü"}, {"longer", 3, ""}, {"longer", 0, ""},
	} {
		got := Shorten(c.text, c.limit)
		if got != c.want || !utf8.ValidString(got) {
			t.Errorf("Shorten(%q, %d) = %q, want %q", c.text, c.limit, got, c.want)
		}
	}
}

func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "",
		"one line, as it is ":            "one line, as it is ",
		"dial: refused\ndial: refused\n": "dial: refused",
		"first\r\n\n  second\nfirst":     "first; second",
	} {
		if got := Line(text); got != want {
			t.Errorf("Line(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "",
		"plain, äöü…":               "plain, äöü…",
		"a\x1b]0;title\x07\u009bb":  "a\ufffd]0;title\ufffd\ufffdb",
		"lines\nand\ttabs\r":        "lines and tabs\ufffd",
		"not UTF-8: \xff\xfe, ends": "not UTF-8: \ufffd\ufffd, ends",
	} {
		if got := Printable(text); got != want {
			t.Errorf("Printable(%q) = %q, want %q", text, got, want)
		}
	}
}
