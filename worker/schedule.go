package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/start"
)

const (
	// scheduleRetry is the pause after a try to write the schedule failed.
	scheduleRetry = 30 * time.Second
	// scheduleLook is how often somebody looks that it is still there.
	scheduleLook = time.Hour
)

// scheduleKeeper keeps the schedule of the sweep in line with the settings.
type scheduleKeeper struct {
	schedules client.ScheduleClient
	// every is how often it sweeps, look how often the schedule is looked at.
	every, look time.Duration
	cluster     types.UID
	logger      *zap.Logger
}

// keep tries until the schedule is as it should be, and looks now and then whether it
// still is: whoever may write to Temporal could take this net away. Disruptions are
// carried out without it. The error says that the schedule is another cluster's, which
// no try will change.
func (k scheduleKeeper) keep(ctx context.Context) error {
	for {
		call, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := ensureSchedule(call, k.schedules, k.every, k.cluster)
		cancel()
		pause := k.look
		switch {
		case ctx.Err() != nil, err == nil && k.every == 0:
			return nil
		case errors.Is(err, start.ErrOtherCluster):
			return err
		case err != nil:
			pause = scheduleRetry
			k.logger.Warn("the sweep for orphans may not be scheduled", zap.Duration("again in", pause), zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// keepOr is keep, whose error is fatal.
func (k scheduleKeeper) keepOr(ctx context.Context, fatal func(error)) {
	if err := k.keep(ctx); err != nil {
		fatal(err)
	}
}

// ensureSchedule makes the sweep run that often; 0 means not at all. Several
// workers may do it at once, and again at each start. That somebody paused the
// schedule, and why, stays as it is. The schedule says which cluster's it is, so
// that a second one with the same Temporal namespace is noticed: start.ErrOtherCluster.
func ensureSchedule(ctx context.Context, schedules client.ScheduleClient, every time.Duration, cluster types.UID) error {
	handle := schedules.GetHandle(ctx, contract.SweepSchedule)
	if every == 0 {
		owner, err := start.Owner(ctx, schedules)
		if err = cmp.Or(err, start.OtherCluster(owner, cluster)); err != nil {
			return err
		}
		err = handle.Delete(ctx)
		if _, gone := errors.AsType[*serviceerror.NotFound](err); gone || err == nil {
			return nil
		}
		return fmt.Errorf("delete schedule %s: %w", contract.SweepSchedule, err)
	}
	spec := client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: every}}}
	action := &client.ScheduleWorkflowAction{
		ID: contract.SweepSchedule, Workflow: contract.SweepWorkflowType, TaskQueue: contract.TaskQueue,
		StaticSummary: "looks for chaos pods, records and marks on nodes that no live disruption owns, and cleans them",
		Memo:          map[string]any{start.MemoCluster: string(cluster)},
	}
	_, err := schedules.Create(ctx, client.ScheduleOptions{
		ID: contract.SweepSchedule, Spec: spec,
		Action:  action,
		Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP,
		// A sweep that was missed is made up for by the next one.
		CatchupWindow: time.Minute,
	})
	if !errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
		if err != nil {
			return fmt.Errorf("create schedule %s: %w", contract.SweepSchedule, err)
		}
		return nil
	}
	err = handle.Update(ctx, client.ScheduleUpdateOptions{DoUpdate: func(in client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
		schedule := in.Description.Schedule
		owner := start.OwnerOf(schedule.Action)
		if err := start.OtherCluster(owner, cluster); err != nil {
			return nil, err
		}
		if now := schedule.Spec.Intervals; len(now) == 1 && now[0].Every == every && (owner == cluster || cluster == "") {
			return nil, temporal.ErrSkipScheduleUpdate
		}
		schedule.Spec = &spec
		if cluster != "" {
			schedule.Action = action
		}
		return &client.ScheduleUpdate{Schedule: &schedule}, nil
	}})
	if err != nil {
		return fmt.Errorf("update schedule %s: %w", contract.SweepSchedule, err)
	}
	return nil
}
