package main

import (
	"fmt"
	"io"
)

// progress is one line that changes: on a terminal it is overwritten, elsewhere
// each change is a line of its own.
type progress struct {
	out      io.Writer
	terminal bool
	last     string
}

func (c *command) progress() *progress { return &progress{out: c.err, terminal: c.errTerminal} }

// say shows what is so now. key is what makes a new line where nobody sits at a
// terminal; text may have more, such as a clock.
func (p *progress) say(key, text string) {
	switch {
	case p.terminal:
		_, _ = fmt.Fprintf(p.out, "\r\x1b[K%s", text)
	case key != p.last:
		_, _ = fmt.Fprintln(p.out, key)
	}
	p.last = key
}

// end leaves the last line as it is.
func (p *progress) end() {
	if p.terminal && p.last != "" {
		_, _ = fmt.Fprintln(p.out)
	}
	p.last = ""
}

// clear removes the line from a terminal.
func (p *progress) clear() {
	if p.terminal && p.last != "" {
		_, _ = fmt.Fprint(p.out, "\r\x1b[K")
	}
	p.last = ""
}

// note writes a line that stays, above the one that changes.
func (p *progress) note(text string) {
	if p.terminal {
		_, _ = fmt.Fprint(p.out, "\r\x1b[K")
	}
	_, _ = fmt.Fprintln(p.out, text)
}
