package crons

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/start"
)

// Reasons of the condition LastRun, and why a run of a cron that is no more did not
// begin, which is told nobody.
const (
	Began         = "Began"
	TooLate       = "TooLate"
	Overlap       = "Overlap"
	Paused        = "Paused"
	EmergencyStop = "EmergencyStop"
	TargetMissing = "TargetMissing"
	NameTaken     = "NameTaken"
	Refused       = "Refused"
	Gone          = "Gone"
)

// BeginInput is a run that is due.
type BeginInput struct {
	Cron contract.CronRef `json:"cron"`
	// ScheduledAt is the time of the schedule, in whole seconds.
	ScheduledAt time.Time `json:"scheduledAt"`
}

// Begun says what became of a run that was due.
type Begun struct {
	// Reason is Began, or why it did not begin.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// UID of the Disruption that began.
	UID types.UID `json:"uid,omitempty"`
}

// BeginRun creates the Disruption of a run and tells so, or why not, in the status
// of its cron. Called again for the same time it finds what it created. A
// schedule whose cron is gone is deleted.
func (a *Activities) BeginRun(ctx context.Context, in BeginInput) (Begun, error) {
	in.ScheduledAt = in.ScheduledAt.UTC().Truncate(time.Second)
	c, err := a.get(ctx, in.Cron)
	if apierrors.IsNotFound(err) {
		gone := Begun{Reason: Gone, Message: "there is no such DisruptionCron any more; its schedule is deleted"}
		return gone, start.DeleteSchedule(ctx, a.Temporal.ScheduleClient(), in.Cron)
	}
	if err != nil {
		return Begun{}, err
	}
	if c.DeletionTimestamp != nil {
		return Begun{Reason: Gone, Message: "the DisruptionCron is being deleted"}, nil
	}
	d, begun, err := a.begin(ctx, c, in)
	if err != nil {
		return Begun{}, err
	}
	activity.GetLogger(ctx).Info("run of a cron", "cron", in.Cron.String(), "scheduled", in.ScheduledAt, "reason", begun.Reason, "message", begun.Message)
	return begun, a.updateStatus(ctx, in.Cron, func(c *v1beta1.DisruptionCron) { show(c, in.ScheduledAt, d, begun) })
}

// begin creates the Disruption unless something is against it.
func (a *Activities) begin(ctx context.Context, c *v1beta1.DisruptionCron, in BeginInput) (*v1beta1.Disruption, Begun, error) {
	have, err := a.child(ctx, in.Cron)
	if err != nil {
		return nil, Begun{}, err
	}
	if have != nil && c.Owns(have) && have.Annotations[v1beta1.AnnotationScheduledAt] == in.ScheduledAt.Format(time.RFC3339) {
		return have, began(have.UID), nil
	}
	for _, run := range c.Status.History {
		if run.ScheduledAt != nil && run.ScheduledAt.Time.Equal(in.ScheduledAt) {
			return nil, began(run.UID), nil // somebody deleted it since
		}
	}
	if refusal := against(c, in.ScheduledAt, time.Now(), have); refusal.Reason != "" {
		return nil, refusal, nil
	}
	stop, err := a.Stops.EmergencyStop(ctx)
	if err != nil {
		return nil, Begun{}, err
	}
	if stop != "" {
		return nil, Begun{Reason: EmergencyStop, Message: stop}, nil
	}
	selector, err := a.selector(ctx, c)
	if apierrors.IsNotFound(err) {
		return nil, Begun{Reason: TargetMissing, Message: fmt.Sprintf("there is no %s in %s", c.Spec.TargetResource, c.Namespace)}, nil
	}
	if err != nil {
		return nil, Begun{}, fmt.Errorf("read %s in %s: %w", c.Spec.TargetResource, c.Namespace, err)
	}
	if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		return nil, Begun{Reason: Refused, Message: fmt.Sprintf("%s selects no pods", c.Spec.TargetResource)}, nil
	}
	if have != nil { // it is over: the next one has its name
		// Whoever waited for it may have been terminated.
		if _, err := a.record(ctx, AwaitInput{Cron: in.Cron, UID: have.UID}, endOf(have), endedAt(have)); err != nil {
			return nil, Begun{}, err
		}
		if err := a.remove(ctx, have); err != nil {
			return nil, Begun{}, err
		}
	}
	return a.create(ctx, disruptionOf(c, *selector, in.ScheduledAt))
}

// create makes the disruption. What the API server refuses is refused for good:
// the next time another run is due.
func (a *Activities) create(ctx context.Context, d *v1beta1.Disruption) (*v1beta1.Disruption, Begun, error) {
	made := &v1beta1.Disruption{}
	err := a.Client.Post().Namespace(d.Namespace).Resource(disruptions).Body(d).Do(ctx).Into(made)
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil, Begun{Reason: Overlap, Message: fmt.Sprintf("Disruption %s is not gone yet", d.Name)}, nil
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return nil, Begun{Reason: Refused, Message: fmt.Sprintf("%.1000s", err)}, nil
	case err != nil:
		return nil, Begun{}, fmt.Errorf("create Disruption %s/%s: %w", d.Namespace, d.Name, err)
	}
	return made, began(made.UID), nil
}

func began(uid types.UID) Begun {
	return Begun{Reason: Began, Message: "its disruption was created", UID: uid}
}

// selector is how the workload selects its pods.
func (a *Activities) selector(ctx context.Context, c *v1beta1.DisruptionCron) (*metav1.LabelSelector, error) {
	var found *metav1.LabelSelector
	if c.Spec.TargetResource.Kind == v1beta1.TargetStatefulSet {
		set, err := a.Kube.AppsV1().StatefulSets(c.Namespace).Get(ctx, c.Spec.TargetResource.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		found = set.Spec.Selector
	} else {
		deployment, err := a.Kube.AppsV1().Deployments(c.Namespace).Get(ctx, c.Spec.TargetResource.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		found = deployment.Spec.Selector
	}
	if found == nil {
		found = &metav1.LabelSelector{}
	}
	return found, nil
}

// show writes what became of a run into the status of its cron.
func show(c *v1beta1.DisruptionCron, at time.Time, d *v1beta1.Disruption, b Begun) {
	condition := metav1.Condition{
		Type: v1beta1.ConditionLastRun, Status: metav1.ConditionFalse, Reason: b.Reason, ObservedGeneration: c.Generation,
		Message: fmt.Sprintf("the run of %s: %s", at.Format(time.RFC3339), b.Message),
	}
	if b.Reason == Began {
		condition.Status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&c.Status.Conditions, condition)
	since := &c.Status.TargetResourcePreviouslyMissing
	switch {
	case b.Reason == TargetMissing && *since == nil:
		now := metav1.Now().Rfc3339Copy()
		*since = &now
	case b.Reason == Began:
		*since = nil
	}
	if d == nil {
		return
	}
	if scheduled := metav1.NewTime(at); c.Status.LastScheduleTime == nil || c.Status.LastScheduleTime.Before(&scheduled) {
		c.Status.LastScheduleTime = &scheduled
	}
	remember(&c.Status, d, at)
}

// remember adds the run to the history, once.
func remember(s *v1beta1.DisruptionCronStatus, d *v1beta1.Disruption, at time.Time) {
	for _, run := range s.History {
		if run.UID == d.UID {
			return
		}
	}
	scheduled := metav1.NewTime(at)
	s.History = append(s.History, v1beta1.DisruptionRun{
		Name: d.Name, Kind: "Disruption", UID: d.UID, ScheduledAt: &scheduled, CreatedAt: d.CreationTimestamp,
	})
	s.History = s.History[max(0, len(s.History)-v1beta1.MostRuns):]
}
