package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrWorkerStops has Temporal start the activity again at another worker.
var ErrWorkerStops = errors.New("worker stops; another one goes on")

// Pause waits for d, or until the context ends.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// FirstOf is the first of the errors, with the number of them; of describes all of them.
func FirstOf(errs []error, of string) error {
	failed := slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(failed) < 2 {
		return errors.Join(failed...)
	}
	return fmt.Errorf("%d %s; the first: %w", len(failed), of, failed[0])
}
