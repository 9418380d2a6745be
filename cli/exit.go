package main

import (
	"errors"
	"fmt"
)

// Exit codes. docs/cli.md lists them for pipelines.
const (
	exitOK           = 0
	exitError        = 1
	exitUsage        = 2
	exitFailed       = 3
	exitAborted      = 4
	exitInconclusive = 5
	exitStuck        = 6
)

// exit is an error with a code of its own. The message of a silent one is already printed.
type exit struct {
	code   int
	err    error
	silent bool
}

func (e exit) Error() string { return e.err.Error() }
func (e exit) Unwrap() error { return e.err }

// usage is an error in the command line.
func usage(format string, args ...any) error {
	return exit{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// silently ends a command that has printed everything.
func silently(code int) error {
	if code == exitOK {
		return nil
	}
	return exit{code: code, err: fmt.Errorf("exit code %d", code), silent: true}
}

// codeOf is the exit code of a command's error, and whether its message is already printed.
func codeOf(err error) (code int, printed bool) {
	if err == nil {
		return exitOK, true
	}
	if e, own := errors.AsType[exit](err); own {
		return e.code, e.silent
	}
	return exitError, false
}
