package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// report prints a guest's test results as go test prints them.
type report struct {
	ctx     context.Context
	kernel  string
	json    bool
	output  io.Writer
	current *section
	ready   time.Time // the first package began

	failed   bool
	complete bool // the guest did all it had to
}

func newReport(ctx context.Context, kernel string, json bool) *report {
	return &report{ctx: ctx, kernel: kernel, json: json, output: os.Stdout}
}

// section is what a package prints.
type section struct {
	name  string
	began time.Time
	to    io.WriteCloser
	cmd   *exec.Cmd // which turns it into events
}

// read takes in what the guest prints until it ends.
func (r *report) read(from io.Reader) error {
	reader := bufio.NewReader(from)
	for {
		line, err := reader.ReadBytes('\n')
		if len(line) > 0 {
			if err := r.take(line); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the guest's results: %w", err)
		}
	}
}

// take reads one line. The guest's own lines name the package whose test printed
// the next ones.
func (r *report) take(line []byte) error {
	text := strings.TrimRight(string(line), "\r\n")
	if name, found := strings.CutPrefix(text, markBegin); found {
		return r.begin(name)
	}
	if end, found := strings.CutPrefix(text, markEnd); found {
		code, err := strconv.Atoi(end)
		if err != nil {
			return fmt.Errorf("the guest said %q: want an exit code", text)
		}
		return r.end(code)
	}
	switch {
	case text == markDone:
		r.complete = true
	case r.current != nil:
		_, err := r.current.to.Write(line)
		return err
	}
	return nil
}

func (r *report) begin(name string) error {
	if r.ready.IsZero() {
		r.ready = time.Now()
	}
	if err := r.interrupted(); err != nil {
		return err
	}
	r.current = &section{name: name, began: time.Now(), to: keepOpen{r.output}}
	if !r.json {
		_, err := fmt.Fprintf(r.output, "=== %s on %s\n", name, r.kernel)
		return err
	}
	// The kernel is part of the name: a test has an outcome on each.
	cmd := exec.CommandContext(r.ctx, "go", "tool", "test2json", "-t", "-p", modulePath+name+"@"+r.kernel)
	cmd.Stdout, cmd.Stderr = r.output, os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	r.current.to, r.current.cmd = input, cmd
	return cmd.Start()
}

// end closes the section of a package. A program that ended badly has failed even
// if its tests passed.
func (r *report) end(code int) error {
	section := r.current
	if section == nil {
		return errors.New("the guest ended a package that it had not begun")
	}
	r.current = nil
	if code != 0 {
		r.failed = true
		fmt.Fprintf(section.to, "exit code %d\n", code)
		if section.cmd != nil {
			fmt.Fprint(section.to, "\x16FAIL\n") // the line that the program itself would have printed
		}
	}
	err := section.to.Close()
	if section.cmd != nil {
		return errors.Join(err, section.cmd.Wait())
	}
	word := "ok"
	if code != 0 {
		word = "FAIL"
	}
	_, printErr := fmt.Fprintf(r.output, "%-4s %s on %s (%.1f s)\n", word, section.name, r.kernel, time.Since(section.began).Seconds())
	return errors.Join(err, printErr)
}

// interrupted fails a package whose tests the machine did not run to their end.
func (r *report) interrupted() error {
	if r.current == nil {
		return nil
	}
	return r.end(-1)
}

// modulePath is what the names of packages begin with in events.
const modulePath = "github.com/squall-chaos/squall/"

// keepOpen is not closed with a section.
type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }
