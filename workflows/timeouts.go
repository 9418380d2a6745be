package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

const (
	// safetyPeriod is how long a holding disruption trusts that it is told of
	// every change. Four events an hour would be too many; a bridge that comes
	// back tells everything again anyway.
	safetyPeriod = 6 * time.Hour
	// retryPeriod is how often a stuck disruption tries by itself, so that a
	// healed node clears itself.
	retryPeriod = 10 * time.Minute
	// cleanerTries is how often a fresh cleaner pod tries what an injector failed
	// to clean before a person is told.
	cleanerTries = 3
	// cleaningPatience is how long one activity waits for chaos pods to end:
	// their grace period.
	cleaningPatience = 60 * time.Second
	// cleaningRounds bounds how often a chaos pod that does not end is waited
	// for before a person is asked.
	cleaningRounds = 3
	// moment is how long the cleaning of a deleted disruption takes before status
	// says so.
	moment = time.Second
	// window is how many shards are worked on at once. More only queue at the
	// API server.
	window = 6
	// promptly is how long a few API calls may take within the workflow's task.
	promptly = 8 * time.Second
	// few targets are injected within the workflow's task.
	few = 20
	// heartbeat is when a silent worker is given up, and another one goes on.
	// The worker itself sees to it that every activity beats.
	heartbeat = 10 * time.Second
)

// cleanerPauses are the waits before the next try of a cleaner, by tries so far.
var cleanerPauses = [cleanerTries]time.Duration{0, 2 * time.Second, 10 * time.Second}

// retries suit calls to an API server that may be away for a while.
var retries = temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second}

// short is for a few API calls. It is tried for as long as it takes: nothing
// can go on without it.
func short(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 30 * time.Second,
		HeartbeatTimeout:    heartbeat,
		RetryPolicy:         &retries,
		Summary:             summary,
	})
}

// prompt is for the one attempt at an activity within the workflow's own task,
// which Temporal gives 10 s.
func prompt(ctx, visibly workflow.Context) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: promptly,
		RetryPolicy:            &temporal.RetryPolicy{MaximumAttempts: 1},
		Summary:                workflow.GetActivityOptions(visibly).Summary,
	})
}

// telling is for what a user should see, and cleaning must not wait for: after
// two minutes it goes on without.
func telling(ctx workflow.Context, phase v1beta1.Phase) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ScheduleToCloseTimeout: 2 * time.Minute,
		StartToCloseTimeout:    30 * time.Second,
		HeartbeatTimeout:       heartbeat,
		RetryPolicy:            &retries,
		Summary:                "tell in status: " + string(phase),
	})
}

// untilEnd is for what injects: it is tried until the disruption ends, and
// waited for when it is cancelled, so that nothing is injected after cleaning
// has begun.
func (d *disruption) untilEnd(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ScheduleToCloseTimeout: d.remaining(ctx),
		StartToCloseTimeout:    5 * time.Minute,
		HeartbeatTimeout:       heartbeat,
		RetryPolicy:            &retries,
		WaitForCancellation:    true,
		Summary:                summary,
	})
}

// choosing is for a few seconds' work that injects nothing but leaves records:
// it is waited for, too.
func (d *disruption) choosing(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ScheduleToCloseTimeout: d.remaining(ctx),
		StartToCloseTimeout:    time.Minute,
		HeartbeatTimeout:       heartbeat,
		RetryPolicy:            &retries,
		WaitForCancellation:    true,
		Summary:                summary,
	})
}

// watcher is for what only looks: a worker that dies is replaced within
// seconds, and nobody waits for its end.
func (d *disruption) watcher(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           contract.WatcherTaskQueue,
		StartToCloseTimeout: d.remaining(ctx),
		HeartbeatTimeout:    heartbeat,
		RetryPolicy:         &retries,
		Summary:             summary,
	})
}

// cleaning is for taking away chaos pods. At the end of a disruption it is
// tried for 15 minutes before a person is told that it cannot be done.
func cleaning(ctx workflow.Context, onlyEnded bool) workflow.Context {
	summary := "take everything off"
	if onlyEnded {
		summary = "clear away what has ended"
	}
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ScheduleToCloseTimeout: 15 * time.Minute,
		StartToCloseTimeout:    cleaningPatience + 2*time.Minute,
		HeartbeatTimeout:       heartbeat,
		RetryPolicy:            &retries,
		WaitForCancellation:    true,
		Summary:                summary,
	})
}

// searching is for looking through nodes, a minute and a half each, several at
// once: 200 that all let it wait take seven minutes. What cannot be looked at
// for half an hour is told as such, or is the next sweep's.
func searching(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ScheduleToCloseTimeout: 30 * time.Minute,
		StartToCloseTimeout:    20 * time.Minute,
		HeartbeatTimeout:       heartbeat,
		RetryPolicy:            &retries,
		Summary:                summary,
	})
}

// remaining is how long the disruption still lasts, and a minute to spare.
func (d *disruption) remaining(ctx workflow.Context) time.Duration {
	return max(d.Plan.ExpireAt.Sub(workflow.Now(ctx)), 0) + time.Minute
}
