package crons

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// recordBegin records an event that a run began, or why it did not. It records nothing
// that status has already: BeginRun runs every few seconds while a run waits.
func (a *Activities) recordBegin(ctx context.Context, c *parent, at time.Time, b Begun) {
	message := ofRun(at, b.Message)
	if last := meta.FindStatusCondition(*c.conditions, v1beta1.ConditionLastRun); last != nil && last.Reason == b.Reason && last.Message == message {
		return
	}
	eventType := corev1.EventTypeWarning
	if b.Reason == Began || b.Reason == Paused || b.Reason == Waiting {
		eventType = corev1.EventTypeNormal
	}
	a.Events.Of(ctx, c.kind, c.meta, eventType, "Run"+b.Reason, message, message)
}

// recordEnd records an event on how a run ended.
func (a *Activities) recordEnd(ctx context.Context, c *parent, run v1beta1.DisruptionRun, ended Ended) {
	eventType, message := corev1.EventTypeNormal, "its disruption is over: "+ended.Ending
	if ended.Verdict != "" {
		message += ", " + string(ended.Verdict)
	}
	if ended.Verdict != "" && ended.Verdict != v1beta1.VerdictPassed {
		eventType = corev1.EventTypeWarning
	}
	if run.ScheduledAt != nil {
		message = ofRun(run.ScheduledAt.UTC(), message)
	}
	a.Events.Of(ctx, c.kind, c.meta, eventType, "RunEnded", message, string(run.UID))
}

// ofRun prefixes a message with its run.
func ofRun(at time.Time, message string) string {
	return fmt.Sprintf("the run of %s: %s", at.Format(time.RFC3339), message)
}
