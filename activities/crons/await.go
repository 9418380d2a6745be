package crons

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

const (
	// defaultGap is the time between two reads of a run. Each costs two API calls and a
	// write of Temporal's, and no event of history.
	defaultGap = 10 * time.Second
	// resultPatience is how long AwaitRun waits for the result of a workflow that should
	// have ended.
	resultPatience = 5 * time.Second
)

// GoesOn is the type of the error by which AwaitRun asks for a retry.
const GoesOn = "GoesOn"

// AwaitInput is a run that began.
type AwaitInput struct {
	Cron contract.CronRef `json:"cron"`
	// UID of the Disruption.
	UID types.UID `json:"uid"`
}

// Ended describes how a run ended.
type Ended struct {
	Ending  string          `json:"ending"`
	Verdict v1beta1.Verdict `json:"verdict,omitempty"`
}

// AwaitRun checks whether a run has ended, and fails until then: a retry costs no event
// of history. Then it writes into the status of its DisruptionCron or DisruptionRollout
// how the run ended. If that object is gone or being deleted, AwaitRun deletes the run,
// whose own workflow cleans up.
func (a *Activities) AwaitRun(ctx context.Context, in AwaitInput) (Ended, error) {
	c, err := a.get(ctx, in.Cron)
	if err != nil && !apierrors.IsNotFound(err) {
		return Ended{}, err
	}
	orphan := err != nil || c.meta.DeletionTimestamp != nil
	d, err := a.child(ctx, in.Cron)
	if err != nil {
		return Ended{}, err
	}
	if d == nil || d.UID != in.UID {
		ended, over, err := a.result(ctx, in)
		if err == nil && !over {
			err = a.goesOn("its disruption is gone, and its workflow still cleans")
		}
		if err != nil {
			return Ended{}, err
		}
		return a.record(ctx, in, ended, time.Now())
	}
	if orphan && d.DeletionTimestamp == nil {
		if err := a.remove(ctx, d); err != nil {
			return Ended{}, err
		}
		return Ended{}, a.goesOn("its DisruptionCron or DisruptionRollout is gone, and it is being deleted")
	}
	if !d.Settled() {
		return Ended{}, a.goesOn("it is not over")
	}
	return a.record(ctx, in, endOf(d), endedAt(d))
}

// record writes how a run ended and records an event, unless that was written before.
func (a *Activities) record(ctx context.Context, in AwaitInput, ended Ended, at time.Time) (Ended, error) {
	return ended, a.updateStatus(ctx, in.Cron, func(c *parent) {
		for i := range *c.history {
			run := &(*c.history)[i]
			if run.UID != in.UID || run.EndedAt != nil {
				continue
			}
			a.recordEnd(ctx, c, *run, ended)
			when := metav1.NewTime(at).Rfc3339Copy()
			run.EndedAt, run.Ending, run.Verdict = &when, ended.Ending, ended.Verdict
		}
	})
}

func (a *Activities) goesOn(why string) error {
	return temporal.NewApplicationErrorWithOptions(why, GoesOn, temporal.ApplicationErrorOptions{
		NextRetryDelay: cmp.Or(a.Gap, defaultGap), Category: temporal.ApplicationErrorCategoryBenign,
	})
}

// endOf describes the end of a disruption that is over.
func endOf(d *v1beta1.Disruption) Ended {
	ended := Ended{Ending: d.EndingOfRun()}
	if d.Status.SteadyState != nil {
		ended.Verdict = d.Status.SteadyState.Verdict
	}
	return ended
}

// endedAt is when the disruption was clean, or now if that is unknown.
func endedAt(d *v1beta1.Disruption) time.Time {
	if d.Status.CleanedAt != nil {
		return d.Status.CleanedAt.Time
	}
	return time.Now()
}

// result is the end of a disruption that no longer exists, as its workflow reports it.
// Without a workflow the run never began: the controller removed the finalizer. over is
// false while the workflow still cleans up.
func (a *Activities) result(ctx context.Context, in AwaitInput) (ended Ended, over bool, err error) {
	call, cancel := context.WithTimeout(ctx, resultPatience)
	defer cancel()
	ref := v1beta1.DisruptionRef{Namespace: in.Cron.Namespace, Name: childName(in.Cron), UID: in.UID}
	err = a.Temporal.GetWorkflow(call, contract.WorkflowID(ref), "").Get(call, &ended)
	_, none := errors.AsType[*serviceerror.NotFound](err)
	_, failed := errors.AsType[*temporal.WorkflowExecutionError](err)
	_, late := errors.AsType[*serviceerror.DeadlineExceeded](err) // may come before call has ended
	switch {
	case late, errors.Is(err, context.DeadlineExceeded), err != nil && call.Err() != nil:
		return Ended{}, false, nil
	case none:
		return Ended{Ending: v1beta1.EndingNeverBegan}, true, nil
	case failed:
		return Ended{Ending: v1beta1.EndingDeleted}, true, nil
	case err != nil:
		return ended, false, fmt.Errorf("read the result of workflow %s: %w", contract.WorkflowID(ref), err)
	}
	return ended, true, nil
}
