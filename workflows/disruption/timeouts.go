package disruption

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/flow"
)

const (
	// safetyPeriod is how long a holding disruption waits for an observation before it
	// checks the cluster anyway. A shorter one would fill the history; a bridge that
	// restarts sends its observations again.
	safetyPeriod = 6 * time.Hour
	// retryPeriod is how often a stuck disruption retries automatically, so that a recovered
	// node is cleaned.
	retryPeriod = 10 * time.Minute
	// cleanerTries is how often fresh cleaner pods try what an injector failed to clean
	// before Squall reports it as stuck.
	cleanerTries = 3
	// cleaningPatience is how long one activity waits for chaos pods to end:
	// their grace period.
	cleaningPatience = 60 * time.Second
	// cleaningRounds bounds how often Squall waits for a chaos pod that does not end before
	// it asks a person.
	cleaningRounds = 3
	// cleaningStatusDelay saves a write: a deleted disruption that is clean within
	// this time never shows phase Cleaning. A kubelet ends a pod in some three seconds.
	cleaningStatusDelay = 5 * time.Second
	// parallelShards is how many shards are worked on at once. More only queue at
	// the API server.
	parallelShards = 6
	// shardsPerRun is how many shards a round cleans even if the history is long enough for
	// a new run: some 2,000 events, of the 51,200 that Temporal allows.
	shardsPerRun = 200
	// askAgainPeriod is when Squall repeats a refused request for an operation on a pod: the
	// webhook of its driver is down, and nothing signals when it is back.
	askAgainPeriod = 15 * time.Second
	// lastTries is how often Squall retries to end an operation when availableTimeout is
	// over and the pod refuses the patch. lastTryPause is the pause before each retry: one
	// failed call must not leave the target to the bridge.
	lastTries    = 3
	lastTryPause = 2 * time.Second
	// churnRuns is after how many choices of targets a disruption is one whose targets come
	// and go, and lingering how long its watch of the injection waits for further ones.
	churnRuns = 3
	lingering = time.Minute
	// localPatience is how long a cleaning within the workflow's task waits for chaos pods
	// to end, and localEndedLimit for how many: a kubelet ends a pod in some three seconds.
	localPatience   = 4 * time.Second
	localEndedLimit = 5
	// localTimeout bounds a local activity: Temporal gives a workflow task 10 s.
	localTimeout = 8 * time.Second
	// localTargetLimit is up to how many targets a local activity creates their chaos pods.
	localTargetLimit = 20
)

// cleanerPauses are the waits before the next attempt of a cleaner, by attempts so far.
var cleanerPauses = [cleanerTries]time.Duration{0, 2 * time.Second, 10 * time.Second}

// localOptions are for the one attempt as a local activity, with the summary of the
// activity that replaces it if it fails.
func localOptions(ctx, options workflow.Context) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: localTimeout,
		RetryPolicy:            &temporal.RetryPolicy{MaximumAttempts: 1},
		Summary:                workflow.GetActivityOptions(options).Summary,
	})
}

// statusOptions are for writes that a user should see but the cleaning must not wait for:
// after two minutes it continues without them.
func statusOptions(ctx workflow.Context, phase v1beta1.Phase) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ScheduleToCloseTimeout: 2 * time.Minute,
		StartToCloseTimeout:    30 * time.Second,
		HeartbeatTimeout:       flow.Heartbeat,
		RetryPolicy:            flow.Retries(),
		Summary:                "show in status: " + string(phase),
	})
}

// interimOptions are for steps that run again later if they do not succeed in two
// minutes, and must not block the rest.
func interimOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ScheduleToCloseTimeout: 2 * time.Minute,
		StartToCloseTimeout:    30 * time.Second,
		HeartbeatTimeout:       flow.Heartbeat,
		RetryPolicy:            flow.Retries(),
		WaitForCancellation:    true,
		Summary:                summary,
	})
}

// creationOptions are for an activity that injects. Temporal tries it until the
// disruption ends, and the workflow waits for it when it is cancelled, so that nothing is
// injected after the cleaning has begun.
func (s *State) creationOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ScheduleToCloseTimeout: s.remaining(ctx),
		StartToCloseTimeout:    5 * time.Minute,
		HeartbeatTimeout:       flow.Heartbeat,
		RetryPolicy:            flow.Retries(),
		WaitForCancellation:    true,
		Summary:                summary,
	})
}

// replacementOptions are for replacing pods, which takes as long as the pods take to end.
// Another worker takes over within seconds. The workflow waits for the activity when it
// is cancelled, so that no node is cordoned after the cleaning has begun.
func (s *State) replacementOptions(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ScheduleToCloseTimeout: s.remaining(ctx),
		HeartbeatTimeout:       flow.Heartbeat,
		RetryPolicy:            flow.Retries(),
		WaitForCancellation:    true,
		Summary:                "replace pods",
	})
}

// selectionOptions are for a few seconds' work that injects nothing but writes records:
// the workflow waits for it too when it is cancelled.
func (s *State) selectionOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ScheduleToCloseTimeout: s.remaining(ctx),
		StartToCloseTimeout:    time.Minute,
		HeartbeatTimeout:       flow.Heartbeat,
		RetryPolicy:            flow.Retries(),
		WaitForCancellation:    true,
		Summary:                summary,
	})
}

// watchOptions are for an activity that only reads and reports. Another worker takes over
// within seconds, and the workflow does not wait for it when it is cancelled. On the
// queue of the workflow itself, Temporal hands it out with the answer to the task that
// asks for it.
func (s *State) watchOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: s.remaining(ctx),
		HeartbeatTimeout:    flow.Heartbeat,
		RetryPolicy:         flow.Retries(),
		Summary:             summary,
	})
}

// effectOptions are for reading effects, again and again. The activity returns when the
// next read is due, until all effects act.
func (s *State) effectOptions(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              contract.WatcherTaskQueue,
		ScheduleToCloseTimeout: s.remaining(ctx),
		StartToCloseTimeout:    time.Minute,
		HeartbeatTimeout:       flow.Heartbeat,
		RetryPolicy:            flow.Retries(),
		Summary:                "check whether the faults act; each attempt is one check",
	})
}

// cleaningOptions are for removing chaos pods. Temporal tries for 15 minutes before the
// workflow reports a failure.
func cleaningOptions(ctx workflow.Context, onlyEnded bool) workflow.Context {
	summary := "clean up targets"
	if onlyEnded {
		summary = "remove ended chaos pods"
	}
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ScheduleToCloseTimeout: 15 * time.Minute,
		StartToCloseTimeout:    cleaningPatience + 2*time.Minute,
		HeartbeatTimeout:       flow.Heartbeat,
		RetryPolicy:            flow.Retries(),
		WaitForCancellation:    true,
		Summary:                summary,
	})
}

// remaining is how long the disruption still lasts, plus a minute.
func (s *State) remaining(ctx workflow.Context) time.Duration {
	return max(s.Plan.ExpireAt.Sub(workflow.Now(ctx)), 0) + time.Minute
}
