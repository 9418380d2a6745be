// Package text fits what programs report into fields that people read.
package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// mark stands for what was cut off.
const mark = "…"

// Shorten returns at most limit bytes of a text, cut between characters. A text that is
// cut ends with "…"; it is empty if limit has no room for that.
func Shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	if limit <= len(mark) {
		return ""
	}
	cut := limit - len(mark)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + mark
}

// Line joins the lines of a text by "; ", each line once and without blanks around it.
func Line(text string) string {
	if !strings.ContainsAny(text, "\r\n") {
		return text
	}
	var lines []string
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !seen[line] {
			lines, seen[line] = append(lines, line), true
		}
	}
	return strings.Join(lines, "; ")
}

// Printable replaces control characters. The text of a target or of another program
// then cannot move the cursor of a terminal or set its title.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsControl(r):
			return utf8.RuneError
		}
		return r
	}, text)
}
