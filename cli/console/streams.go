// Package console has what every command of squall shares: its streams, flags, exit codes and
// formats, and the connections to the cluster and to Temporal.
package console

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"
)

// Streams are what a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	// Terminal is true if Out is a terminal, and Color if it accepts colours. ErrTerminal
	// and ErrColor are the same of Err.
	Terminal, Color       bool
	ErrTerminal, ErrColor bool
	// Width returns the columns of Err's terminal, 0 if they are unknown. May be nil.
	Width func() int
	// Asks is true when a person can answer questions.
	Asks bool
	// Interrupts are the signals that a command answers instead of ending.
	Interrupts <-chan os.Signal
	// Clock is the time; nil is that of the machine.
	Clock func() time.Time
}

// Now is the time of Clock.
func (s Streams) Now() time.Time {
	if s.Clock == nil {
		return time.Now()
	}
	return s.Clock()
}

// StandardStreams are those of the process. SIGINT and SIGTERM arrive in Interrupts.
func StandardStreams() Streams {
	interrupts := make(chan os.Signal, 2)
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	terminal, errTerminal := term.IsTerminal(int(os.Stdout.Fd())), term.IsTerminal(int(os.Stderr.Fd()))
	colors := os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Terminal: terminal, Color: terminal && colors,
		ErrTerminal: errTerminal, ErrColor: errTerminal && colors, Width: widthOf(os.Stderr),
		Asks:       errTerminal && term.IsTerminal(int(os.Stdin.Fd())), // questions go to Err
		Interrupts: interrupts,
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
	Red    = "31"
	Green  = "32"
	Yellow = "33"
	Bold   = "1"
	Dim    = "2"
)

// Fail prints an error.
func (s Streams) Fail(err error) {
	_, _ = fmt.Fprintf(s.Err, "%s %v\n", s.PaintErr(Red, "error:"), err)
}

// Paint gives text for Out a colour, on a terminal only.
func (s Streams) Paint(color, text string) string { return paint(s.Color, color, text) }

// PaintErr is Paint for Err.
func (s Streams) PaintErr(color, text string) string { return paint(s.ErrColor, color, text) }

func paint(takesColors bool, color, text string) string {
	if !takesColors || text == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}
