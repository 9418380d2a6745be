package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.uber.org/zap"

	"github.com/squall-chaos/squall/workflows/contract"
)

// scheduleRetry is the pause after a try to write the schedule failed.
const scheduleRetry = 30 * time.Second

// keepSchedule brings the schedule of the sweep in line with the settings. It
// tries until it has, or ctx ends: disruptions are carried out without it.
func keepSchedule(ctx context.Context, schedules client.ScheduleClient, every time.Duration, logger *zap.Logger) {
	for {
		call, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := ensureSchedule(call, schedules, every)
		cancel()
		if err == nil || ctx.Err() != nil {
			return
		}
		logger.Warn("no sweep for orphans is scheduled yet", zap.Duration("again in", scheduleRetry), zap.Error(err))
		select {
		case <-ctx.Done():
			return
		case <-time.After(scheduleRetry):
		}
	}
}

// ensureSchedule makes the sweep run that often; 0 means not at all. Several
// workers may do it at once, and again at each start. That somebody paused the
// schedule, and why, stays as it is.
func ensureSchedule(ctx context.Context, schedules client.ScheduleClient, every time.Duration) error {
	handle := schedules.GetHandle(ctx, contract.SweepSchedule)
	if every == 0 {
		err := handle.Delete(ctx)
		if _, gone := errors.AsType[*serviceerror.NotFound](err); gone || err == nil {
			return nil
		}
		return fmt.Errorf("delete schedule %s: %w", contract.SweepSchedule, err)
	}
	spec := client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: every}}}
	_, err := schedules.Create(ctx, client.ScheduleOptions{
		ID: contract.SweepSchedule, Spec: spec,
		Action: &client.ScheduleWorkflowAction{
			ID: contract.SweepSchedule, Workflow: contract.SweepWorkflowType, TaskQueue: contract.TaskQueue,
			StaticSummary: "looks for chaos pods, records and marks on nodes that no live disruption owns, and cleans them",
		},
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
		if now := schedule.Spec.Intervals; len(now) == 1 && now[0].Every == every {
			return nil, temporal.ErrSkipScheduleUpdate
		}
		schedule.Spec = &spec
		return &client.ScheduleUpdate{Schedule: &schedule}, nil
	}})
	if err != nil {
		return fmt.Errorf("update schedule %s: %w", contract.SweepSchedule, err)
	}
	return nil
}
