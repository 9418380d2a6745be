package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/squall-chaos/squall/test/temporalserver"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/start"
)

func TestSchedule(t *testing.T) {
	temporal := temporalserver.New(t).Start().Dial(client.DefaultNamespace)
	schedules := temporal.ScheduleClient()
	handle := schedules.GetHandle(t.Context(), contract.SweepSchedule)
	ensure := func(t *testing.T, every time.Duration) {
		t.Helper()
		if err := ensureSchedule(t.Context(), schedules, every, "here"); err != nil {
			t.Fatal(err)
		}
	}
	read := func(t *testing.T) client.Schedule {
		t.Helper()
		found, err := handle.Describe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return found.Schedule
	}
	t.Run("many workers start at once: one schedule", func(t *testing.T) {
		var group errgroup.Group
		for range 8 {
			group.Go(func() error { return ensureSchedule(t.Context(), schedules, time.Hour, "here") })
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		found := read(t)
		if len(found.Spec.Intervals) != 1 || found.Spec.Intervals[0].Every != time.Hour || found.Policy.Overlap != enumspb.SCHEDULE_OVERLAP_POLICY_SKIP {
			t.Errorf("schedule = %+v, %+v, want every hour, overlaps skipped", found.Spec, found.Policy)
		}
	})
	t.Run("started by hand, it runs the sweep where workers look", func(t *testing.T) {
		if err := handle.Trigger(t.Context(), client.ScheduleTriggerOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a sweep runs", func() bool {
			answer, err := temporal.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: `WorkflowType = "Sweep"`})
			return err == nil && len(answer.Executions) == 1 && answer.Executions[0].TaskQueue == contract.TaskQueue
		})
	})
	t.Run("another interval: changed, and still paused by whoever paused it", func(t *testing.T) {
		if err := handle.Pause(t.Context(), client.SchedulePauseOptions{Note: "ann: the nodes are busy"}); err != nil {
			t.Fatal(err)
		}
		ensure(t, 2*time.Hour)
		eventually(t, "the schedule has the interval", func() bool { return read(t).Spec.Intervals[0].Every == 2*time.Hour })
		if state := read(t).State; !state.Paused || state.Note != "ann: the nodes are busy" {
			t.Errorf("state = %+v, want paused with the note", state)
		}
		if action, ok := read(t).Action.(*client.ScheduleWorkflowAction); !ok || action.Workflow != contract.SweepWorkflowType {
			t.Errorf("action = %+v, want the sweep", read(t).Action)
		}
	})
	t.Run("somebody deletes it: it is made again", func(t *testing.T) {
		keeper := scheduleKeeper{schedules: schedules, every: 2 * time.Hour, look: 50 * time.Millisecond, cluster: "here", logger: zap.NewNop()}
		ctx, stop := context.WithCancel(t.Context())
		kept := make(chan error, 1)
		go func() { kept <- keeper.keep(ctx) }()
		if err := handle.Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "there is another one, which nobody paused", func() bool {
			found, err := handle.Describe(t.Context())
			return err == nil && !found.Schedule.State.Paused
		})
		stop()
		if err := <-kept; err != nil {
			t.Errorf("keep() = %v, want nil once it is asked to end", err)
		}
	})
	t.Run("another cluster in the same Temporal namespace is told so", func(t *testing.T) {
		err := ensureSchedule(t.Context(), schedules, 3*time.Hour, "there")
		if !errors.Is(err, start.ErrOtherCluster) || !strings.Contains(err.Error(), "here") || !strings.Contains(err.Error(), "SQUALL_TEMPORAL_NAMESPACE") {
			t.Errorf("ensureSchedule = %v, want another cluster's, and the way out", err)
		}
		if err := ensureSchedule(t.Context(), schedules, 0, "there"); !errors.Is(err, start.ErrOtherCluster) {
			t.Errorf("ensureSchedule without a sweep = %v, want another cluster's", err)
		}
		if got := read(t).Spec.Intervals[0].Every; got != 2*time.Hour {
			t.Errorf("the interval is %s, want it untouched", got)
		}
	})
	t.Run("a schedule of a release that named no cluster is taken over", func(t *testing.T) {
		err := handle.Update(t.Context(), client.ScheduleUpdateOptions{DoUpdate: func(in client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
			schedule := in.Description.Schedule
			schedule.Action.(*client.ScheduleWorkflowAction).Memo = nil
			return &client.ScheduleUpdate{Schedule: &schedule}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "it names nobody", func() bool { return start.OwnerOf(read(t).Action) == "" })
		ensure(t, 2*time.Hour)
		eventually(t, "it names its cluster", func() bool { return start.OwnerOf(read(t).Action) == "here" })
	})
	t.Run("turned off: gone, also when it was", func(t *testing.T) {
		ensure(t, 0)
		ensure(t, 0)
		_, err := handle.Describe(t.Context())
		if _, gone := errors.AsType[*serviceerror.NotFound](err); !gone {
			t.Errorf("describe = %v, want not found", err)
		}
	})
	t.Run("turned on again", func(t *testing.T) {
		ensure(t, time.Hour)
		if state := read(t).State; state.Paused {
			t.Errorf("state = %+v, want a new schedule", state)
		}
	})
}
