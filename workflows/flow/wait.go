package flow

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// AwaitFor waits until the condition holds or the time is over, and returns whether it
// holds. It cancels its timer when it returns: a timer left behind would fire hours later
// and add useless events to the history.
func AwaitFor(ctx workflow.Context, t time.Duration, summary string, condition func() bool) (holds bool, err error) {
	ctx, cancel := workflow.WithCancel(ctx)
	defer cancel()
	return workflow.AwaitWithOptions(ctx, workflow.AwaitOptions{
		Timeout: t, TimerOptions: workflow.TimerOptions{Summary: summary},
	}, condition)
}

// HasChange is false while a history replays that is older than the change.
// docs/upgrades.md has the rules for changes.
func HasChange(ctx workflow.Context, change string) bool {
	return workflow.GetVersion(ctx, change, workflow.DefaultVersion, 1) != workflow.DefaultVersion
}

// Cause is the innermost message of an error, without Temporal's wrapping.
func Cause(err error) string {
	var timeout *temporal.TimeoutError
	if errors.As(err, &timeout) && timeout.Unwrap() != nil {
		return Cause(timeout.Unwrap())
	}
	var application *temporal.ApplicationError
	if errors.As(err, &application) {
		return application.Message()
	}
	return err.Error()
}
