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
	// scheduleRetry is the pause after a failed write of the schedule.
	scheduleRetry = 30 * time.Second
	// scheduleLook is the time between two checks that the schedule exists.
	scheduleLook = time.Hour
)

// scheduleKeeper keeps the schedule of the sweep in line with the settings.
type scheduleKeeper struct {
	schedules client.ScheduleClient
	// every is the time between two sweeps, look the time between two checks of the
	// schedule.
	every, look time.Duration
	cluster     types.UID
	logger      *zap.Logger
}

// keep retries until the schedule matches the settings. It then checks the schedule every
// look: any client of Temporal could delete it. Disruptions run without it. keep returns an
// error only if the schedule belongs to another cluster, which no retry would change.
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

// keepOr calls fatal with the error of keep.
func (k scheduleKeeper) keepOr(ctx context.Context, fatal func(error)) {
	if err := k.keep(ctx); err != nil {
		fatal(err)
	}
}

// ensureSchedule makes the sweep run at this interval; 0 deletes the schedule. Several
// workers may call it at once, and again at each start. It keeps the pause of a schedule,
// and its reason. The schedule's memo has the identity of its cluster. A worker of a second
// cluster in the same Temporal namespace gets start.ErrOtherCluster.
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
		// The next sweep makes up for a missed one.
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
