package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

const (
	// safetyPeriod is how long a holding disruption waits for an observation
	// before it looks at the cluster anyway. A shorter one would fill the history;
	// a bridge that restarts sends its observations again.
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
	// cleaningStatusDelay saves a write: a deleted disruption that is clean within
	// this time never shows phase Cleaning. A kubelet ends a pod in some three seconds.
	cleaningStatusDelay = 5 * time.Second
	// parallelShards is how many shards are worked on at once. More only queue at
	// the API server.
	parallelShards = 6
	// shardsPerRun is how many shards a round cleans though the history is long enough
	// for a new run: some 2,000 events, of the 51,200 that Temporal allows.
	shardsPerRun = 200
	// askAgainPeriod is when a pod is asked for again whose patch was refused: the
	// webhook of its driver is away, and nothing tells when it is back.
	askAgainPeriod = 15 * time.Second
	// lastTries is how often Squall tries again to give a target back that it cannot write
	// to when the time for that is over, and lastTryPause how long it waits before each:
	// one failed call must not leave the target to the bridge.
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
	// localTargetLimit is up to how many targets their chaos pods are created by a
	// local activity.
	localTargetLimit = 20
	// heartbeat is after which silence of a worker another one takes its activity
	// over. The worker itself heartbeats for every activity.
	heartbeat = 10 * time.Second
)

// cleanerPauses are the waits before the next try of a cleaner, by tries so far.
var cleanerPauses = [cleanerTries]time.Duration{0, 2 * time.Second, 10 * time.Second}

// retries suit calls to an API server that may be away for a while.
var retries = temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second}

// requiredOptions are for a few API calls without which nothing can go on: they
// are tried for as long as it takes.
func requiredOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 30 * time.Second,
		HeartbeatTimeout:    heartbeat,
		RetryPolicy:         &retries,
		Summary:             summary,
	})
}

// awaitRunOptions are for looks at a run of a cron, one after the other for as long
// as it goes on. Each that finds it going on says when the next one is due.
func awaitRunOptions(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 30 * time.Second,
		HeartbeatTimeout:    heartbeat,
		RetryPolicy:         &retries,
		Summary:             "wait until the run is over",
	})
}

// localOptions are for the one attempt as a local activity, with the summary of
// the activity that takes its place if it fails.
func localOptions(ctx, options workflow.Context) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: localTimeout,
		RetryPolicy:            &temporal.RetryPolicy{MaximumAttempts: 1},
		Summary:                workflow.GetActivityOptions(options).Summary,
	})
}

// statusOptions are for what a user should see but the cleaning must not wait
// for: after two minutes it goes on without it.
func statusOptions(ctx workflow.Context, phase v1beta1.Phase) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ScheduleToCloseTimeout: 2 * time.Minute,
		StartToCloseTimeout:    30 * time.Second,
		HeartbeatTimeout:       heartbeat,
		RetryPolicy:            &retries,
		Summary:                "show in status: " + string(phase),
	})
}

// interimOptions are for what is done again later if it does not succeed in two
// minutes, and must not keep the rest from going on.
func interimOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ScheduleToCloseTimeout: 2 * time.Minute,
		StartToCloseTimeout:    30 * time.Second,
		HeartbeatTimeout:       heartbeat,
		RetryPolicy:            &retries,
		WaitForCancellation:    true,
		Summary:                summary,
	})
}

// creationOptions are for what injects: it is tried until the disruption ends,
// and waited for when it is cancelled, so that nothing is injected after the
// cleaning has begun.
func (d *disruption) creationOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ScheduleToCloseTimeout: d.remaining(ctx),
		StartToCloseTimeout:    5 * time.Minute,
		HeartbeatTimeout:       heartbeat,
		RetryPolicy:            &retries,
		WaitForCancellation:    true,
		Summary:                summary,
	})
}

// replacementOptions are for replacing pods, which takes as long as these take to
// end: it goes on on another worker within seconds, and is waited for when it is
// cancelled, so that no node is cordoned after the cleaning has begun.
func (d *disruption) replacementOptions(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ScheduleToCloseTimeout: d.remaining(ctx),
		HeartbeatTimeout:       heartbeat,
		RetryPolicy:            &retries,
		WaitForCancellation:    true,
		Summary:                "replace pods",
	})
}

// selectionOptions are for a few seconds' work that injects nothing but writes
// records: it is waited for when it is cancelled, too.
func (d *disruption) selectionOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ScheduleToCloseTimeout: d.remaining(ctx),
		StartToCloseTimeout:    time.Minute,
		HeartbeatTimeout:       heartbeat,
		RetryPolicy:            &retries,
		WaitForCancellation:    true,
		Summary:                summary,
	})
}

// watchOptions are for an activity that only reads and reports: it goes on on
// another worker within seconds, and nobody waits for it when it is cancelled. On the
// queue of the workflow itself Temporal hands it out with the answer to the task
// that asks for it.
func (d *disruption) watchOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: d.remaining(ctx),
		HeartbeatTimeout:    heartbeat,
		RetryPolicy:         &retries,
		Summary:             summary,
	})
}

// effectOptions are for one look at effects after the other. Each that has not seen
// all of them act says when the next one is due.
func (d *disruption) effectOptions(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              contract.WatcherTaskQueue,
		ScheduleToCloseTimeout: d.remaining(ctx),
		StartToCloseTimeout:    time.Minute,
		HeartbeatTimeout:       heartbeat,
		RetryPolicy:            &retries,
		Summary:                "see whether the faults act",
	})
}

// probeOptions are for asking the probes of a phase, once: whoever goes on is told
// what was left, and nobody waits for one that is cancelled, unless it is to have
// the last word.
func probeOptions(ctx workflow.Context, phase v1beta1.ProbePhase, lasts time.Duration, lastWord bool) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              contract.ProbeTaskQueue,
		ScheduleToCloseTimeout: lasts,
		HeartbeatTimeout:       contract.ProbeHeartbeatTimeout,
		WaitForCancellation:    lastWord,
		RetryPolicy:            &temporal.RetryPolicy{MaximumAttempts: 1},
		Summary:                "ask the probes of phase " + string(phase),
	})
}

// probePause is how long nobody is told to ask after so many in a row that said
// nothing: each costs events of history.
func probePause(unheard int) time.Duration {
	return min(time.Second<<min(unheard-1, 9), 5*time.Minute)
}

// cleaningOptions are for taking away chaos pods: that is tried for 15 minutes
// before a person is told that it cannot be done.
func cleaningOptions(ctx workflow.Context, onlyEnded bool) workflow.Context {
	summary := "clean up targets"
	if onlyEnded {
		summary = "remove ended chaos pods"
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

// searchOptions are for searching nodes, several at once, each for at most a minute
// until it is ready, and a minute and a half from there on, unless the worker's
// node-timeout gives them more: 200 nodes that do not answer take seven minutes.
// Nodes that cannot be searched for half an hour are reported, or left to the next
// sweep.
func searchOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ScheduleToCloseTimeout: 30 * time.Minute,
		StartToCloseTimeout:    20 * time.Minute,
		HeartbeatTimeout:       heartbeat,
		RetryPolicy:            &retries,
		Summary:                summary,
	})
}

// remaining is how long the disruption still lasts, plus a minute.
func (d *disruption) remaining(ctx workflow.Context) time.Duration {
	return max(d.Plan.ExpireAt.Sub(workflow.Now(ctx)), 0) + time.Minute
}
