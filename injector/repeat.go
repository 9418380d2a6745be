//go:build linux

package main

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/squall-chaos/squall/injector/target"
)

// repeat has a kind that acts once act again at every turn, as often as it may,
// until ctx is done. A container that restarts is left alone until the next turn;
// a turn at which one is away is passed over, and does not count.
func (l *lifecycle) repeat(ctx context.Context) error {
	if every := l.session.fault.every; every != nil && every() > 0 {
		turn := time.NewTicker(every())
		defer turn.Stop()
		for runs := 1; l.injection.MaxRuns == 0 || runs < l.injection.MaxRuns; {
			select {
			case <-ctx.Done():
				return nil
			case <-turn.C:
			}
			err := l.actAgain(ctx)
			switch {
			case err == nil:
				runs++
			case errors.Is(err, target.ErrGone):
				l.log.Info("passed over", zap.String("reason", err.Error()))
			default:
				return err
			}
		}
	}
	<-ctx.Done()
	return nil
}

// actAgain injects into the containers that the target has now.
func (l *lifecycle) actAgain(ctx context.Context) error {
	renewed, err := l.current.Renewed()
	if err != nil {
		return err
	}
	l.current = renewed
	if err := l.cleanCurrent(ctx); err != nil {
		return err
	}
	return l.injectAgain(ctx)
}
