package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"
)

// streams are what a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
	// terminal is true if out is a terminal, and color if it accepts colours. errTerminal
	// and errColor are the same of err.
	terminal, color       bool
	errTerminal, errColor bool
	// width returns the columns of err's terminal, 0 if they are unknown. May be nil.
	width func() int
	// asks is true when a person can answer questions.
	asks bool
	// interrupts are the signals that a command answers instead of ending.
	interrupts <-chan os.Signal
	// clock is the time; nil is that of the machine.
	clock func() time.Time
}

func (s streams) now() time.Time {
	if s.clock == nil {
		return time.Now()
	}
	return s.clock()
}

func standardStreams() streams {
	interrupts := make(chan os.Signal, 2)
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	terminal, errTerminal := term.IsTerminal(int(os.Stdout.Fd())), term.IsTerminal(int(os.Stderr.Fd()))
	colors := os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return streams{
		in: os.Stdin, out: os.Stdout, err: os.Stderr,
		terminal: terminal, color: terminal && colors,
		errTerminal: errTerminal, errColor: errTerminal && colors, width: widthOf(os.Stderr),
		asks:       errTerminal && term.IsTerminal(int(os.Stdin.Fd())), // questions go to err
		interrupts: interrupts,
	}
}

// widthOf asks a terminal each time, because a person may change its size.
func widthOf(file *os.File) func() int {
	return func() int {
		columns, _, err := term.GetSize(int(file.Fd()))
		if err != nil {
			return 0
		}
		return columns
	}
}

// Colours, as the numbers of a terminal.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
	bold   = "1"
	dim    = "2"
)

// fail prints an error.
func (s streams) fail(err error) {
	_, _ = fmt.Fprintf(s.err, "%s %v\n", s.paintErr(red, "error:"), err)
}

// paint gives text for out a colour, on a terminal only.
func (s streams) paint(color, text string) string { return paint(s.color, color, text) }

// paintErr is paint for err.
func (s streams) paintErr(color, text string) string { return paint(s.errColor, color, text) }

func paint(takesColors bool, color, text string) string {
	if !takesColors || text == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}
