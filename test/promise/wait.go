package promise

import (
	"context"
	"fmt"
	"time"
)

// Pause returns when a time is over, or why the context is.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// Persist tries until it succeeds or the context ends: the API server may be away for
// a while, and what is waited for may take its time.
func Persist(ctx context.Context, try func(context.Context) error) error {
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if over := Pause(ctx, 250*time.Millisecond); over != nil {
			return fmt.Errorf("%w, after %w", over, err)
		}
	}
}
