package main

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
)

// heartbeats records heartbeats while an activity runs. They show that its worker lives,
// and report a cancellation to the activity. The activity's other timeouts end one that
// hangs. slots, if not nil, is the limit of concurrent activities, without those that only
// watch.
type heartbeats struct {
	interceptor.WorkerInterceptorBase
	gap   time.Duration
	slots chan struct{}
}

// watcher is the activity that watches, possibly for days.
const (
	watcher = "AwaitInjection"
	// watcherGap is the time between its heartbeats.
	watcherGap = 4 * time.Second
)

// InterceptActivity is called for each activity.
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
