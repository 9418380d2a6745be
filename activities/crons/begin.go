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
	"github.com/squall-chaos/squall/kube"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/start"
)

// Reasons of the condition LastRun. The last two are never reported: the DisruptionCron
// is gone, or a later release has a run of its own.
const (
	Began         = "Began"
	TooLate       = "TooLate"
	Overlap       = "Overlap"
	Paused        = "Paused"
	EmergencyStop = "EmergencyStop"
	TargetMissing = "TargetMissing"
	NameTaken     = "NameTaken"
	Refused       = "Refused"
	Waiting       = "Waiting"
	Gone          = "Gone"
	Superseded    = "Superseded"
)

// BeginInput is a run that is due.
type BeginInput struct {
	Cron contract.CronRef `json:"cron"`
	// ScheduledAt is the time of the schedule, in whole seconds.
	ScheduledAt time.Time `json:"scheduledAt"`
	// Release is the release that a DisruptionRollout's run is for; it was seen at
	// ScheduledAt.
	Release *contract.Release `json:"release,omitempty"`
}

// Begun is the result for a run that was due.
type Begun struct {
	// Reason is Began, or why it did not begin.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// UID of the Disruption that began.
	UID types.UID `json:"uid,omitempty"`
}

// BeginRun creates the Disruption of a run. It reports that, or why not, in the status
// of its DisruptionCron or DisruptionRollout. A retry for the same time finds the
// created Disruption. BeginRun deletes a schedule whose DisruptionCron is gone. It
// fails while the run for a release has to wait: a retry costs no event of history.
func (a *Activities) BeginRun(ctx context.Context, in BeginInput) (Begun, error) {
	in.ScheduledAt = in.ScheduledAt.UTC().Truncate(time.Second)
	// The Disruption is read before the status: if it is gone by then, the status has its
	// run.
	have, err := a.child(ctx, in.Cron)
	if err != nil {
		return Begun{}, err
	}
	c, err := a.get(ctx, in.Cron)
	if apierrors.IsNotFound(err) {
		if in.Cron.Rollout() {
			return Begun{Reason: Gone, Message: "there is no such DisruptionRollout any more"}, nil
		}
		gone := Begun{Reason: Gone, Message: "there is no such DisruptionCron any more; its schedule is deleted"}
		return gone, start.DeleteSchedule(ctx, a.Temporal.ScheduleClient(), in.Cron)
	}
	if err != nil {
		return Begun{}, err
	}
	d, begun, err := a.begin(ctx, c, in, have)
	if err != nil {
		return Begun{}, err
	}
	if begun.Reason == Superseded || begun.Reason == Gone {
		return begun, nil
	}
	a.recordBegin(ctx, c, in.ScheduledAt, begun)
	err = a.updateStatus(ctx, in.Cron, func(c *parent) {
		if in.Release == nil || c.releases <= in.Release.Number || begun.Reason == Began {
			show(c, in.ScheduledAt, d, begun)
		}
	})
	if begun.Reason == Waiting && err == nil {
		return Begun{}, a.goesOn(begun.Message)
	}
	activity.GetLogger(ctx).Info("run", "kind", c.kind, "name", in.Cron.String(), "scheduled", in.ScheduledAt, "reason", begun.Reason, "message", begun.Message)
	return begun, err
}

// begin creates the Disruption unless there is a reason against it. have is the
// existing Disruption of its name.
func (a *Activities) begin(ctx context.Context, c *parent, in BeginInput, have *v1beta1.Disruption) (*v1beta1.Disruption, Begun, error) {
	if have != nil && c.owns(have) && have.Annotations[v1beta1.AnnotationScheduledAt] == in.ScheduledAt.Format(time.RFC3339) {
		return have, began(have.UID), nil
	}
	for _, run := range *c.history {
		if run.ScheduledAt != nil && run.ScheduledAt.Time.Equal(in.ScheduledAt) {
			return nil, began(run.UID), nil // it was deleted since
		}
	}
	if c.meta.DeletionTimestamp != nil {
		return nil, Begun{Reason: Gone, Message: "the " + c.kind + " is being deleted"}, nil
	}
	selector, refusal, err := a.mayBegin(ctx, c, in, have)
	if err != nil || refusal.Reason != "" {
		return nil, refusal, err
	}
	if have != nil { // it is over: the next run has its name
		// The workflow that waited for it may have been terminated.
		if _, err := a.record(ctx, AwaitInput{Cron: in.Cron, UID: have.UID}, endOf(have), endedAt(have)); err != nil {
			return nil, Begun{}, err
		}
		if err := a.remove(ctx, have); err != nil {
			return nil, Begun{}, err
		}
	}
	return a.create(ctx, disruptionOf(c, *selector, in.ScheduledAt))
}

// mayBegin returns why a run must not begin, and otherwise the selector of the
// workload's pods.
func (a *Activities) mayBegin(ctx context.Context, c *parent, in BeginInput, have *v1beta1.Disruption) (*metav1.LabelSelector, Begun, error) {
	if in.Release != nil && c.releases > in.Release.Number {
		return nil, Begun{Reason: Superseded, Message: "there was a later release"}, nil
	}
	stop, err := a.stop(ctx, c, in)
	if err != nil || stop != "" {
		return nil, Begun{Reason: EmergencyStop, Message: stop}, err
	}
	if in.Release == nil || c.paused {
		if refusal := against(c, in.ScheduledAt, time.Now(), have); refusal.Reason != "" {
			return nil, refusal, nil
		}
	}
	workload, err := a.workload(ctx, c)
	if apierrors.IsNotFound(err) {
		return nil, Begun{Reason: TargetMissing, Message: fmt.Sprintf("there is no %s in %s", c.target, c.meta.Namespace)}, nil
	}
	if err != nil {
		return nil, Begun{}, fmt.Errorf("read %s in %s: %w", c.target, c.meta.Namespace, err)
	}
	if in.Release != nil {
		if why := waits(c, *in.Release, have, workload); why != "" {
			return nil, held(c, in.ScheduledAt, time.Now(), why), nil
		}
		if refusal := against(c, in.ScheduledAt, time.Now(), have); refusal.Reason != "" {
			return nil, refusal, nil
		}
	}
	if workload.Selector == nil || len(workload.Selector.MatchLabels)+len(workload.Selector.MatchExpressions) == 0 {
		return nil, Begun{Reason: Refused, Message: fmt.Sprintf("%s selects no pods", c.target)}, nil
	}
	return workload.Selector, Begun{}, nil
}

// stop is the emergency stop that is in force, or that was in force while the run
// waited.
func (a *Activities) stop(ctx context.Context, c *parent, in BeginInput) (why string, err error) {
	if at, why := v1beta1.MetStop(c.meta); why != "" && !at.Before(in.ScheduledAt) {
		return why, nil
	}
	return a.Stops.EmergencyStop(ctx)
}

// create creates the disruption. A refusal by the API server is final for this run; the
// next scheduled run may succeed.
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

// workload reads the target, live.
func (a *Activities) workload(ctx context.Context, c *parent) (kube.Workload, error) {
	apps, namespace := a.Kube.AppsV1(), c.meta.Namespace
	if c.target.Kind == v1beta1.TargetStatefulSet {
		set, err := apps.StatefulSets(namespace).Get(ctx, c.target.Name, metav1.GetOptions{})
		if err != nil {
			return kube.Workload{}, err
		}
		return kube.StatefulSetWorkload(set), nil
	}
	deployment, err := apps.Deployments(namespace).Get(ctx, c.target.Name, metav1.GetOptions{})
	if err != nil {
		return kube.Workload{}, err
	}
	return kube.DeploymentWorkload(deployment), nil
}

// show writes the result for a run into the status of its DisruptionCron or
// DisruptionRollout.
func show(c *parent, at time.Time, d *v1beta1.Disruption, b Begun) {
	condition := metav1.Condition{
		Type: v1beta1.ConditionLastRun, Status: metav1.ConditionFalse, Reason: b.Reason, ObservedGeneration: c.meta.Generation,
		Message: ofRun(at, b.Message),
	}
	if b.Reason == Began {
		condition.Status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(c.conditions, condition)
	since := c.missing
	switch {
	case since == nil:
	case b.Reason == TargetMissing && *since == nil:
		now := metav1.Now().Rfc3339Copy()
		*since = &now
	case b.Reason == Began:
		*since = nil
	}
	if d == nil {
		return
	}
	if scheduled := metav1.NewTime(at); c.lastTime != nil && (*c.lastTime == nil || (*c.lastTime).Before(&scheduled)) {
		*c.lastTime = &scheduled
	}
	remember(c.history, d, at)
}

// remember adds the run to the history, once.
func remember(history *[]v1beta1.DisruptionRun, d *v1beta1.Disruption, at time.Time) {
	for _, run := range *history {
		if run.UID == d.UID {
			return
		}
	}
	scheduled := metav1.NewTime(at)
	*history = append(*history, v1beta1.DisruptionRun{
		Name: d.Name, Kind: "Disruption", UID: d.UID, ScheduledAt: &scheduled, CreatedAt: d.CreationTimestamp,
	})
	*history = (*history)[max(0, len(*history)-v1beta1.MostRuns):]
}
