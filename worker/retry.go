package main

import (
	"context"
	"time"

	"go.uber.org/zap"
)

// tryPause is between two tries to reach Temporal or the cluster.
const tryPause = 2 * time.Second

// retryUntilReachable tries until it succeeds, fails in a way that only a person can
// mend, or ctx ends. A worker that ended instead while somebody is away would
// be started again ever more rarely, and be late when they are back.
func retryUntilReachable(ctx context.Context, logger *zap.Logger, try func() error, away func(error) bool) error {
	for {
		err := try()
		if err == nil || !away(err) {
			return err
		}
		logger.Warn("trying again", zap.Error(err))
		select {
		case <-ctx.Done():
			return err
		case <-time.After(tryPause):
		}
	}
}
