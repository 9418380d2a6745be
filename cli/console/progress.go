package console

import (
	"fmt"
	"io"
)

// Progress is one line that changes: a terminal overwrites it, elsewhere each change is a
// line of its own.
type Progress struct {
	out      io.Writer
	terminal bool
	// width returns the columns of the terminal, 0 if they are unknown. May be nil.
	width func() int
	last  string
}

// Progress starts a line on Err.
func (s Streams) Progress() *Progress {
	return &Progress{out: s.Err, terminal: s.ErrTerminal, width: s.Width}
}

// Show prints the current state. Without a terminal a new key prints a new line. text may
// have more than key, such as a clock. A terminal shows as much of text as fits into one
// line: \r returns to the start of the last line only, so each rewrite of a wrapped line
// would leave a part of it behind.
func (p *Progress) Show(key, text string) {
	switch {
	case p.terminal:
		_, _ = fmt.Fprintf(p.out, "\r\x1b[K%s", p.cut(text))
	case key != p.last:
		_, _ = fmt.Fprintln(p.out, key)
	}
	p.last = key
}

// cut shortens a text to one column less than the terminal has: some terminals wrap as soon
// as the last column is written.
func (p *Progress) cut(text string) string {
	if p.width == nil {
		return text
	}
	columns, runes := p.width()-1, []rune(text)
	if columns < 1 || len(runes) <= columns {
		return text
	}
	return string(runes[:columns-1]) + "…"
}

// End leaves the last line as it is.
func (p *Progress) End() {
	if p.terminal && p.last != "" {
		_, _ = fmt.Fprintln(p.out)
	}
	p.last = ""
}

// Clear removes the line from a terminal.
func (p *Progress) Clear() {
	if p.terminal && p.last != "" {
		_, _ = fmt.Fprint(p.out, "\r\x1b[K")
	}
	p.last = ""
}

// Note writes a line that stays, above the line that changes.
func (p *Progress) Note(text string) {
	if p.terminal {
		_, _ = fmt.Fprint(p.out, "\r\x1b[K")
	}
	_, _ = fmt.Fprintln(p.out, text)
}
