package console

import (
	"errors"
	"fmt"

	"github.com/squall-chaos/squall/cli/view"
)

// Exit codes. docs/cli.md lists them for pipelines.
const (
	ExitOK           = 0
	ExitError        = 1
	ExitUsage        = 2
	ExitFailed       = 3
	ExitAborted      = 4
	ExitInconclusive = 5
	ExitStuck        = 6
)

// Exit is an error with a code of its own. The message of a silent one is already printed.
type Exit struct {
	Code   int
	Err    error
	Silent bool
}

func (e Exit) Error() string { return e.Err.Error() }
func (e Exit) Unwrap() error { return e.Err }

// Usage is an error in the command line.
func Usage(format string, args ...any) error {
	return Exit{Code: ExitUsage, Err: fmt.Errorf(format, args...)}
}

// Silently ends a command that has printed everything.
func Silently(code int) error {
	if code == ExitOK {
		return nil
	}
	return Exit{Code: code, Err: fmt.Errorf("exit code %d", code), Silent: true}
}

// CodeOf is the exit code of a command's error, and whether its message is already printed.
func CodeOf(err error) (code int, printed bool) {
	if err == nil {
		return ExitOK, true
	}
	if e, own := errors.AsType[Exit](err); own {
		return e.Code, e.Silent
	}
	return ExitError, false
}

// CodeOfOutcome is the exit code of a disruption or scenario that has ended.
func CodeOfOutcome(outcome view.Outcome) int {
	return map[view.Outcome]int{
		view.Passed: ExitOK, view.Failed: ExitFailed, view.Aborted: ExitAborted,
		view.Inconclusive: ExitInconclusive, view.IsStuck: ExitStuck, view.Rejected: ExitError,
	}[outcome]
}
