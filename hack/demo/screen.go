package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// screen prints the story, each line with the seconds since the start. It uses
// colours on a terminal only.
type screen struct {
	out            *os.File
	began          time.Time
	colours        bool
	checked, wrong int
}

func newScreen(out *os.File) *screen {
	info, err := out.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return &screen{out: out, began: time.Now(), colours: terminal && os.Getenv("NO_COLOR") == ""}
}

const (
	bold  = "\x1b[1m"
	green = "\x1b[32m"
	red   = "\x1b[31m"
	dim   = "\x1b[2m"
)

func (s *screen) line(colour, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if s.colours && colour != "" {
		text = colour + text + "\x1b[0m"
	}
	fmt.Fprintf(s.out, "%6.1f s  %s\n", time.Since(s.began).Seconds(), text)
}

func (s *screen) chapter(format string, args ...any) {
	fmt.Fprintln(s.out)
	s.line(bold, format, args...)
}

func (s *screen) logf(format string, args ...any) { s.line("", format, args...) }
func (s *screen) good(format string, args ...any) { s.line(green, format, args...) }

// quote shows a program's output, or a command that a user would type.
func (s *screen) quote(text string) {
	for line := range strings.Lines(strings.TrimSpace(text)) { // none if empty
		s.line(dim, "  %s", strings.TrimRight(line, "\n"))
	}
}

// check prints a figure and remembers whether it is as it should be.
func (s *screen) check(ok bool, format string, args ...any) {
	s.checked++
	if ok {
		s.line(green, "  ok     "+format, args...)
		return
	}
	s.wrong++
	s.line(red, "  WRONG  "+format, args...)
}
