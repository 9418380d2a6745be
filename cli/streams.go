package main

import (
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
	// terminal is true when a person reads out, and color when that person wants it.
	terminal, color bool
	// asks is true when a person can answer questions.
	asks bool
	// interrupts are the signals that a command answers which does not simply end.
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
	terminal := term.IsTerminal(int(os.Stdout.Fd()))
	return streams{
		in: os.Stdin, out: os.Stdout, err: os.Stderr,
		terminal:   terminal,
		color:      terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
		asks:       terminal && term.IsTerminal(int(os.Stdin.Fd())),
		interrupts: interrupts,
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

// paint gives text a colour, on a terminal only.
func (s streams) paint(color, text string) string {
	if !s.color || text == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}
