// Package metric defines everything that the activities count, with the meaning of each
// number. A test compares it with docs/metrics.md.
package metric

import (
	"context"

	"go.temporal.io/sdk/activity"
)

// Counter is a number that only grows.
type Counter struct {
	Name, Help string
	// Label distinguishes the parts of the number; empty: there is one part.
	Label string
}

// The counters of the activities. There is no gauge of left orphans: one worker would
// set it and another would contradict it.
var (
	ChaosPodsCreated = Counter{"squall_chaos_pods_created_total", "Chaos pods that were created.", ""}
	Stuck            = Counter{"squall_stuck_total", "Times that a disruption came to wait for a person, because something could not be cleaned.", ""}
	// CleaningUnreachable grows while the API server is away and something is to be cleaned.
	CleaningUnreachable = Counter{"squall_cleaning_unreachable_total", "Attempts to clean that did not reach the API server.", ""}
	EventsLost          = Counter{"squall_events_lost_total", "Kubernetes events that could not be stored within 3 s, or were refused.", ""}
	OrphansFound        = Counter{"squall_orphans_found_total", "Orphans that sweeps found.", "what"}
	OrphansCleaned      = Counter{"squall_orphans_cleaned_total", "Orphans that sweeps cleaned.", "what"}
	OrphansLeft         = Counter{"squall_orphans_left_total", "Orphans that a sweep could not clean; the same orphan counts again with each sweep.", "what"}
	Notifications       = Counter{"squall_notifications_total", "Notifications that a recipient was sent, or was not in spite of all attempts.", "result"}
	ProbeAnswers        = Counter{"squall_probe_answers_total", "Answers to probes, and probes without an answer.", "result"}
	ProbeWaits          = Counter{"squall_probe_waits_total", "Probe requests that waited for the rate limit of the worker.", ""}
	SweepNodesSkipped   = Counter{"squall_sweep_nodes_skipped_total", "Nodes that a sweep could not look at, because they were not ready.", ""}
	InjectorInjected    = Counter{"squall_injector_injected_total", "Tries to inject that succeeded or failed.", "result"}
	InjectorCleaned     = Counter{"squall_injector_cleaned_total", "Ends of injectors that cleaned, or could not.", "result"}
)

// All returns all counters.
func All() []Counter {
	return []Counter{ChaosPodsCreated, Stuck, CleaningUnreachable, EventsLost, OrphansFound, OrphansCleaned, OrphansLeft, Notifications, ProbeAnswers, ProbeWaits, SweepNodesSkipped, InjectorInjected, InjectorCleaned}
}

// Parts are the values of the label of c. Prometheus misses the first count of a number
// that did not exist before, so all parts exist from the start.
func (c Counter) Parts() []string {
	switch c {
	case OrphansFound, OrphansCleaned, OrphansLeft:
		return []string{"chaos-pod", "record", "mark"}
	case Notifications:
		return []string{"sent", "given-up"}
	case ProbeAnswers:
		return []string{"success", "failure", "error"}
	case InjectorInjected, InjectorCleaned:
		return []string{"succeeded", "failed"}
	}
	return nil
}

// Add counts n within an activity. Elsewhere, as in a test of a part of one, it does
// nothing. part is the value of the label, if c has one.
func (c Counter) Add(ctx context.Context, n int, part string) {
	if !activity.IsActivity(ctx) {
		return
	}
	handler := activity.GetMetricsHandler(ctx)
	if c.Label != "" {
		handler = handler.WithTags(map[string]string{c.Label: part})
	}
	handler.Counter(c.Name).Inc(int64(n))
}
