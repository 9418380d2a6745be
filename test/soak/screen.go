package main

import (
	"fmt"
	"os"
	"time"
)

// screen prints lines, each with the seconds since the start. It uses colours
// on a terminal only.
type screen struct {
	out     *os.File
	began   time.Time
	colours bool
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
)

func (s *screen) line(colour, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if s.colours && colour != "" {
		text = colour + text + "\x1b[0m"
	}
	fmt.Fprintf(s.out, "%7.1f s  %s\n", time.Since(s.began).Seconds(), text)
}

func (s *screen) logf(format string, args ...any)    { s.line("", format, args...) }
func (s *screen) chapter(format string, args ...any) { s.line(bold, format, args...) }

// check prints whether a line is kept.
func (s *screen) check(kept bool, format string, args ...any) {
	if kept {
		s.line(green, "  kept    "+format, args...)
		return
	}
	s.line(red, "  MISSED  "+format, args...)
}
