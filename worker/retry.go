package main

import (
	"context"
	"time"

	"go.uber.org/zap"
)

// retryPause is the time between two attempts to reach Temporal or the cluster.
const retryPause = 2 * time.Second

// retryUntilReachable retries until try succeeds, ctx ends, or a person has to fix the
// error: away is false. It does not end the worker while Temporal or the API server is
// unreachable: Kubernetes would restart the worker with ever longer pauses.
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
		case <-time.After(retryPause):
		}
	}
}
