package main

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
)

// heartbeats lets every activity show that its worker lives, for as long as it
// runs: by that it also learns that it is cancelled. How long an activity that
// hangs may take is bounded by its other timeouts.
type heartbeats struct {
	interceptor.WorkerInterceptorBase
	gap time.Duration
}

// InterceptActivity is called for each activity that is carried out.
func (h *heartbeats) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &beating{interceptor.ActivityInboundInterceptorBase{Next: next}, h.gap}
}

type beating struct {
	interceptor.ActivityInboundInterceptorBase
	gap time.Duration
}

func (b *beating) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	beating, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		tick := time.NewTicker(b.gap)
		defer tick.Stop()
		for {
			select {
			case <-beating.Done():
				return
			case <-tick.C:
				activity.RecordHeartbeat(ctx)
			}
		}
	}()
	return b.Next.ExecuteActivity(ctx, in)
}
