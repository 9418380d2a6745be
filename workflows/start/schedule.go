package start

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/squall-chaos/squall/api/schedule"
	"github.com/squall-chaos/squall/api/text"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

const (
	// memoWritten is the key of a hash in the memo of the schedule's workflows: the hash of
	// the schedule as it was written, since Temporal returns it in another form.
	memoWritten = "written"
	// pausedBySpec is the note that marks our pause, unlike a person's.
	pausedBySpec = "spec.paused of the DisruptionCron is true"
	// leastCatchup is the shortest time that Temporal takes for how late it may start
	// what it missed.
	leastCatchup = 10 * time.Second
)

// Lateness is how late, after its time and jitter, a run of the cron may begin.
func Lateness(c v1beta1.DisruptionCronSpec) time.Duration {
	tolerance := v1beta1.DefaultStartTolerance
	if c.DelayedStartTolerance != nil {
		tolerance = c.DelayedStartTolerance.Duration
	}
	return max(tolerance, leastCatchup)
}

// RolloutLateness is how late after a release its run may begin.
func RolloutLateness(r v1beta1.DisruptionRolloutSpec) time.Duration {
	tolerance := v1beta1.DefaultRolloutTolerance
	if r.DelayedStartTolerance != nil {
		tolerance = r.DelayedStartTolerance.Duration
	}
	return max(tolerance, leastCatchup)
}

// Jitter is by how much a run may begin later than its time.
func Jitter(c v1beta1.DisruptionCronSpec) time.Duration {
	if c.Jitter == nil {
		return 0
	}
	return c.Jitter.Duration
}

// KeepSchedule makes the schedule in Temporal match the spec of a DisruptionCron. It may
// be called at any time, and writes only what differs. A pause by a person in Temporal
// stays; by is the note of that pause.
func KeepSchedule(ctx context.Context, schedules client.ScheduleClient, ref contract.CronRef, c v1beta1.DisruptionCronSpec, times schedule.Schedule) (paused bool, by string, err error) {
	o, err := scheduleOptions(ref, c, times)
	if err != nil {
		return false, "", err
	}
	handle := schedules.GetHandle(ctx, o.ID)
	found, err := handle.Describe(ctx)
	if _, missing := errors.AsType[*serviceerror.NotFound](err); missing {
		if _, err = schedules.Create(ctx, o); err == nil || !errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
			return false, "", wrapSchedule("create", o.ID, err)
		}
		found, err = handle.Describe(ctx)
	}
	if err != nil {
		return false, "", wrapSchedule("read", o.ID, err)
	}
	state := stateFor(found.Schedule.State, c.Paused)
	if written(found.Schedule.Action) != written(o.Action) || state != *found.Schedule.State {
		err = handle.Update(ctx, client.ScheduleUpdateOptions{DoUpdate: func(in client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
			now := in.Description.Schedule
			state = stateFor(now.State, c.Paused)
			now.Spec, now.Action, now.State = &o.Spec, o.Action, &state
			now.Policy = &client.SchedulePolicies{Overlap: o.Overlap, CatchupWindow: o.CatchupWindow}
			return &client.ScheduleUpdate{Schedule: &now}, nil
		}})
	}
	return state.Paused && !c.Paused, state.Note, wrapSchedule("update", o.ID, err)
}

// DeleteSchedule lets no run of the DisruptionCron begin any more. A missing schedule is
// no error.
func DeleteSchedule(ctx context.Context, schedules client.ScheduleClient, ref contract.CronRef) error {
	id := contract.CronScheduleID(ref)
	err := schedules.GetHandle(ctx, id).Delete(ctx)
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return nil
	}
	return wrapSchedule("delete", id, err)
}

func wrapSchedule(what, id string, err error) error {
	if err != nil {
		return fmt.Errorf("%s schedule %s: %w", what, id, err)
	}
	return nil
}

// stateFor is a schedule's state with the spec's pause applied. A person's pause stays.
func stateFor(s *client.ScheduleState, paused bool) client.ScheduleState {
	state := client.ScheduleState{}
	if s != nil {
		state = *s
	}
	switch {
	case paused && !state.Paused:
		state.Paused, state.Note = true, pausedBySpec
	case !paused && state.Paused && state.Note == pausedBySpec:
		state.Paused, state.Note = false, ""
	}
	return state
}

// scheduleOptions are the schedule of a DisruptionCron. Workflows may overlap: a second
// one finds the disruption of the first under its name, and reports that on the
// DisruptionCron, which Temporal would not.
func scheduleOptions(ref contract.CronRef, c v1beta1.DisruptionCronSpec, times schedule.Schedule) (client.ScheduleOptions, error) {
	action := &client.ScheduleWorkflowAction{
		ID: contract.CronScheduleID(ref), Workflow: contract.CronWorkflowType, TaskQueue: contract.TaskQueue,
		Args:          []any{contract.CronInput{Cron: ref}},
		StaticSummary: text.Shorten("one run of the DisruptionCron "+ref.String()+" on "+c.TargetResource.String(), longestSummary),
	}
	o := client.ScheduleOptions{
		ID: action.ID, Spec: client.ScheduleSpec{TimeZoneName: times.Zone(), Jitter: Jitter(c)}, Action: action,
		Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL, CatchupWindow: Lateness(c), Paused: c.Paused,
	}
	if c.Paused {
		o.Note = pausedBySpec
	}
	calendars, every := times.Calendars()
	if every > 0 {
		o.Spec.Intervals = []client.ScheduleIntervalSpec{{Every: every}}
	}
	for _, calendar := range calendars {
		o.Spec.Calendars = append(o.Spec.Calendars, client.ScheduleCalendarSpec{
			Minute: ranges(calendar.Minute), Hour: ranges(calendar.Hour),
			DayOfMonth: ranges(calendar.DayOfMonth), Month: ranges(calendar.Month), DayOfWeek: ranges(calendar.DayOfWeek),
		})
	}
	text, err := json.Marshal([]any{o.Spec, o.CatchupWindow, o.Overlap, action.Args, action.StaticSummary})
	if err != nil {
		return o, fmt.Errorf("schedule %s: %w", o.ID, err)
	}
	action.Memo = map[string]any{memoWritten: fmt.Sprintf("%x", sha256.Sum256(text))}
	return o, nil
}

func ranges(all []schedule.Range) (found []client.ScheduleRange) {
	for _, r := range all {
		found = append(found, client.ScheduleRange{Start: r.Start, End: r.End})
	}
	return found
}

// written is the hash in an action's memo, of one that is to be written or that
// was read.
func written(action client.ScheduleAction) (hash string) {
	run, ok := action.(*client.ScheduleWorkflowAction)
	if !ok {
		return ""
	}
	switch value := run.Memo[memoWritten].(type) {
	case string:
		return value
	case *commonpb.Payload:
		if err := converter.GetDefaultDataConverter().FromPayload(value, &hash); err != nil {
			return ""
		}
	}
	return hash
}
