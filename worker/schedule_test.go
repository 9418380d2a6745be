package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/squall-chaos/squall/test/temporalserver"
	"github.com/squall-chaos/squall/workflows/connect"
	"github.com/squall-chaos/squall/workflows/contract"
)

// realTemporal starts the Temporal server of the development cluster.
func realTemporal(t *testing.T) client.Client {
	t.Helper()
	binary, err := temporalserver.Binary()
	if err != nil && os.Getenv("SQUALL_REQUIRE") != "1" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	server := exec.Command(binary, "-address", address, "-ui-address", "", "-db", filepath.Join(t.TempDir(), "store.db"))
	server.Stdout, server.Stderr = &said, &said
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
		if t.Failed() {
			t.Logf("Temporal said:\n%s", said.String())
		}
	})
	temporal, err := connect.Dial(t.Context(), connect.Settings{Address: address, Lazy: true}, zap.NewNop(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(temporal.Close)
	await(t, "Temporal answers", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := temporal.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Query: contract.AttributeStuck + " = true"})
		return err == nil
	})
	return temporal
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); <-time.After(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

func TestSchedule(t *testing.T) {
	temporal := realTemporal(t)
	schedules := temporal.ScheduleClient()
	handle := schedules.GetHandle(t.Context(), contract.SweepSchedule)
	ensure := func(t *testing.T, every time.Duration) {
		t.Helper()
		if err := ensureSchedule(t.Context(), schedules, every); err != nil {
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
			group.Go(func() error { return ensureSchedule(t.Context(), schedules, time.Hour) })
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
		await(t, "a sweep runs", func() bool {
			answer, err := temporal.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: `WorkflowType = "Sweep"`})
			return err == nil && len(answer.Executions) == 1 && answer.Executions[0].TaskQueue == contract.TaskQueue
		})
	})
	t.Run("another interval: changed, and still paused by whoever paused it", func(t *testing.T) {
		if err := handle.Pause(t.Context(), client.SchedulePauseOptions{Note: "ann: the nodes are busy"}); err != nil {
			t.Fatal(err)
		}
		ensure(t, 2*time.Hour)
		await(t, "the schedule has the interval", func() bool { return read(t).Spec.Intervals[0].Every == 2*time.Hour })
		if state := read(t).State; !state.Paused || state.Note != "ann: the nodes are busy" {
			t.Errorf("state = %+v, want paused with the note", state)
		}
		if action, ok := read(t).Action.(*client.ScheduleWorkflowAction); !ok || action.Workflow != contract.SweepWorkflowType {
			t.Errorf("action = %+v, want the sweep", read(t).Action)
		}
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
