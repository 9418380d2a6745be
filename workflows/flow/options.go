// Package flow has what all workflows share: the options of their activities, waits,
// messages, versions, and the text of the pages that people read in Temporal. It knows no
// workflow.
package flow

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Heartbeat is how long a worker may be silent before another one takes over its
// activity. The worker itself sends heartbeats for every activity.
const Heartbeat = 10 * time.Second

// Retries suit calls to an API server that may be away for a while. The policy is a copy:
// options keep a pointer to theirs.
func Retries() *temporal.RetryPolicy {
	return &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second}
}

// RequiredOptions are for a few API calls without which nothing can continue: they are
// tried for as long as it takes.
func RequiredOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 30 * time.Second,
		HeartbeatTimeout:    Heartbeat,
		RetryPolicy:         Retries(),
		Summary:             summary,
	})
}

// SearchOptions are for searching nodes, several at once. Each node has a minute until it
// is ready and a minute and a half from then on, unless the worker's node-timeout gives
// it more: 200 nodes that do not answer take seven minutes. Nodes that cannot be searched
// for half an hour are reported, or left to the next sweep.
func SearchOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ScheduleToCloseTimeout: 30 * time.Minute,
		StartToCloseTimeout:    20 * time.Minute,
		HeartbeatTimeout:       Heartbeat,
		RetryPolicy:            Retries(),
		Summary:                summary,
	})
}
