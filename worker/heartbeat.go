package main

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
)

// heartbeats lets every activity show that its worker lives, for as long as it
// runs: by that it also learns that it is cancelled. How long an activity that
// hangs may take is bounded by its other timeouts. slots, if there are any, bound how
// many are carried out at once beside those that watch, which only wait.
type heartbeats struct {
	interceptor.WorkerInterceptorBase
	gap   time.Duration
	slots chan struct{}
}

// watcher is the activity that watches, and may do so for days; watcherGap its gap.
const (
	watcher    = "AwaitInjection"
	watcherGap = 4 * time.Second
)

// InterceptActivity is called for each activity that is carried out.
func (h *heartbeats) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &beating{interceptor.ActivityInboundInterceptorBase{Next: next}, h}
}

type beating struct {
	interceptor.ActivityInboundInterceptorBase
	*heartbeats
}

func (b *beating) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	beating, stop := context.WithCancel(ctx)
	defer stop()
	info, gap := activity.GetInfo(ctx), b.gap
	watches := info.ActivityType.Name == watcher
	if watches {
		gap = watcherGap
	}
	go func() {
		tick := time.NewTicker(gap)
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
	if b.slots != nil && !watches && !info.IsLocalActivity {
		select {
		case b.slots <- struct{}{}:
			defer func() { <-b.slots }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return b.Next.ExecuteActivity(ctx, in)
}
