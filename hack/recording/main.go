// Command recording runs a program in a terminal of its own, and draws what the terminal
// showed as an animated SVG. Pauses without output are shortened.
//
//	go run . -o demo.svg [-columns 88] [-rows 18] [-as "squall demo"] PROGRAM [ARGUMENT...]
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
)

const (
	// longestPause is the longest time that nothing changes in the picture.
	longestPause = time.Second
	// shortestFrame joins changes that follow each other faster than a person sees.
	shortestFrame = 100 * time.Millisecond
	// lastFrame is how long the end is shown before the picture begins again.
	lastFrame = 5 * time.Second
)

func main() {
	file := flag.String("o", "", "`file` of the picture")
	columns := flag.Int("columns", 88, "width of the terminal")
	rows := flag.Int("rows", 18, "height of the terminal")
	as := flag.String("as", "", "the `command` that the picture shows, if not that which runs")
	flag.Parse()
	if *file == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	command := exec.Command(flag.Arg(0), flag.Args()[1:]...)
	if *as == "" {
		*as = strings.Join(flag.Args(), " ")
	}
	if err := draw(command, *as, *columns, *rows, *file); err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

// draw records the command and writes the picture.
func draw(command *exec.Cmd, shown string, columns, rows int, file string) error {
	film, err := record(command, shown, columns, rows)
	if err != nil {
		return err
	}
	commit, err := exec.Command("git", "rev-parse", "--short=10", "HEAD").Output()
	if err != nil {
		return fmt.Errorf("find the commit: %w", err)
	}
	film.origin = fmt.Sprintf("Measured on %s at commit %s, with shortened pauses, on two processors.", time.Now().Format("2 January 2006"), strings.TrimSpace(string(commit)))
	if err := os.WriteFile(file, film.svg(), 0o644); err != nil {
		return err
	}
	fmt.Printf("%s: %s long, of a run of %s\n", file, film.length().Round(time.Second), film.took.Round(time.Second))
	return nil
}

// film is what a terminal showed.
type film struct {
	columns, rows int
	frames        []frame
	took          time.Duration // of the run
	origin        string        // when and of what the picture is
}

// frame is the screen from at until the next frame.
type frame struct {
	at    time.Duration
	lines []line // one for each row
}

// length is the time until the picture begins again.
func (f *film) length() time.Duration { return f.frames[len(f.frames)-1].at + lastFrame }

// record runs the command until it ends, below a prompt with the command line to show.
func record(command *exec.Cmd, shown string, columns, rows int) (*film, error) {
	terminal := vt.NewEmulator(columns, rows)
	f := &film{columns: columns, rows: rows}
	if _, err := terminal.WriteString("\x1b[1m$ " + shown + "\x1b[0m\r\n"); err != nil {
		return nil, err
	}
	f.add(0, screen(terminal))
	command.Env = append(os.Environ(), "TERM=xterm-256color")
	own, err := pty.StartWithSize(command, &pty.Winsize{Cols: uint16(columns), Rows: uint16(rows)})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", command.Path, err)
	}
	defer own.Close()
	began := time.Now()
	output := make([]byte, 4096)
	for {
		n, err := own.Read(output)
		if _, failed := terminal.Write(output[:n]); failed != nil {
			return nil, failed
		}
		f.add(time.Since(began), screen(terminal))
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.EIO) { // Linux: the program has closed its side
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read what %s shows: %w", command.Path, err)
		}
	}
	f.took = time.Since(began)
	if err := command.Wait(); err != nil {
		return nil, fmt.Errorf("%s: %w; its last screen: %q", command.Path, err, terminal.String())
	}
	f.shorten()
	return f, nil
}

// add appends the screen at a time of the run, if it changed. A change that follows soon
// replaces the frame before it.
func (f *film) add(at time.Duration, lines []line) {
	if n := len(f.frames); n > 0 {
		last := &f.frames[n-1]
		if same(last.lines, lines) {
			return
		}
		if n > 1 && at-last.at < shortestFrame {
			last.lines = lines
			return
		}
	}
	f.frames = append(f.frames, frame{at, lines})
}

// shorten cuts every pause to longestPause.
func (f *film) shorten() {
	cut, before := time.Duration(0), time.Duration(0)
	for i := range f.frames {
		at := f.frames[i].at
		cut += max(at-before-longestPause, 0)
		before = at
		f.frames[i].at = at - cut
	}
}
