package main

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities"
	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/clean"
	"github.com/squall-chaos/squall/activities/crons"
	"github.com/squall-chaos/squall/activities/inject"
	"github.com/squall-chaos/squall/activities/notify"
	"github.com/squall-chaos/squall/activities/orphans"
	"github.com/squall-chaos/squall/activities/scenarios"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// rules S4 and S5
func TestActivitiesOfOthersAreRefused(t *testing.T) {
	ours := v1beta1.DisruptionRef{Namespace: "shop", Name: "half", UID: "u1", Cluster: "here"}
	older, theirs := ours, ours
	older.Cluster, theirs.Cluster = "", "there"
	own := contract.WorkflowID(ours)
	cron := contract.CronRef{Namespace: "shop", Name: "noon", UID: "c1", Cluster: "here"}
	delivery := notify.Delivery{Notification: notify.Notification{ID: contract.NotificationID(ours, "Finished", 1), Object: ours}}
	scenario := contract.ScenarioRef{Namespace: "shop", Name: "gameday", UID: "s1", Cluster: "here"}
	rollout := cron
	rollout.Kind = v1beta1.KindDisruptionRollout
	for _, c := range []struct {
		name     string
		cluster  types.UID
		workflow string
		arg      any
		refused  string
		again    bool // whether Temporal retries it, on any worker
		parts    []string
	}{
		{"its own workflow", "here", own, ours, "", false, nil},
		{"in a field", "here", own, status.FinishInput{Disruption: ours}, "", false, nil},
		{"in a field of a part", "here", own, inject.CreateInput{Shard: chaospod.Shard{Disruption: ours}}, "", false, nil},
		{"a workflow of an older release, which names no cluster", "here", own, older, "", false, nil},
		{"a worker that may not know its cluster", "", own, theirs, "", false, nil},
		{"a sweep", "here", contract.SweepSchedule + "-workflow-2026-11-22T13:00:00Z", orphans.Patience{}, "", false, nil},
		{"a sweep's next page of nodes", "here", contract.SweepSchedule + "-2026-11-22T13:00:00Z", orphans.NodePage{}, "", false, nil},
		{"a sweep of nodes that no schedule began", "here", "anything", orphans.NodePage{}, otherWorkflow, false, []string{"anything", contract.SweepSchedule, "nothing was done"}},
		{"a sweep of records by a disruption's workflow", "here", own, orphans.Patience{}, otherWorkflow, false, []string{own, contract.SweepSchedule}},
		{"a sweep in the name of the schedule itself", "here", contract.SweepSchedule, orphans.Patience{}, otherWorkflow, false, []string{contract.SweepSchedule}},
		{"a run of a cron", "here", contract.CronScheduleID(cron) + "-2026-11-22T13:00:00Z", crons.BeginInput{Cron: cron}, "", false, nil},
		{"a run of another cluster's cron", "there", contract.CronScheduleID(cron) + "-2026-11-22T13:00:00Z", crons.AwaitInput{Cron: cron}, otherCluster, true, []string{"shop/noon", "there", "here"}},
		{"a run of a rollout", "here", "rollout/shop/noon/c1/3-abc", crons.BeginInput{Cron: rollout}, "", false, nil},
		{"a run of another rollout", "here", "rollout/shop/noon/c2/3-abc", crons.BeginInput{Cron: rollout}, otherWorkflow, false, []string{"DisruptionRollout shop/noon", "nothing was done"}},
		{"a run of a rollout that a schedule began", "here", contract.CronScheduleID(cron) + "-2026-11-22T13:00:00Z", crons.AwaitInput{Cron: rollout}, otherWorkflow, false, []string{"its own releases"}},
		{"a scenario", "here", contract.ScenarioWorkflowID(scenario), scenarios.BeginStepInput{Scenario: scenario}, "", false, nil},
		{"another cluster's scenario", "there", contract.ScenarioWorkflowID(scenario), contract.ScenarioInput{Scenario: scenario}, otherCluster, true, []string{"shop/gameday", "there", "here"}},
		{"a scenario in another one's name", "here", "scenario/shop/gameday/s2", scenarios.RunsInput{Scenario: scenario}, otherWorkflow, false, []string{"scenario/shop/gameday/s1", "nothing was done"}},
		{"a run that no schedule began", "here", "anything", crons.BeginInput{Cron: cron}, otherWorkflow, false, []string{"anything", "shop/noon", "nothing was done"}},
		{"a run of another cron's schedule", "here", "cron/shop/noon/c2-2026-11-22T13:00:00Z", crons.AwaitInput{Cron: cron}, otherWorkflow, false, []string{"cron/shop/noon/c1"}},
		{"a notification", "here", contract.NotificationWorkflowID(ours, delivery.Notification.ID), delivery, "", false, nil},
		{"a notification in another one's name", "here", contract.NotificationWorkflowID(ours, "u1/stuck-1"), delivery, otherWorkflow, false, []string{"notification/shop/half/u1/finished-1", "nothing was done"}},
		{"a notification by the disruption itself", "here", own, notify.Undelivered{Delivery: delivery}, otherWorkflow, false, []string{"notification/shop/half/u1/finished-1"}},
		{"a notification of another cluster's disruption", "there", contract.NotificationWorkflowID(ours, delivery.Notification.ID), delivery, otherCluster, true, []string{"shop/half"}},
		{"in a shard that is to be cleaned", "here", "anything", clean.Input{Shard: chaospod.Shard{Disruption: ours}}, otherWorkflow, false, []string{own}},
		{"another cluster", "here", own, status.FinishInput{Disruption: theirs}, otherCluster, true, []string{"shop/half", "there", "here", "SQUALL_TEMPORAL_NAMESPACE"}},
		{"another workflow", "here", "anything", ours, otherWorkflow, false, []string{"anything", own, "nothing was done"}},
		{"another disruption's workflow", "here", "disruption/shop/half/u2", inject.CreateInput{Shard: chaospod.Shard{Disruption: ours}}, otherWorkflow, false, []string{own}},
		{"another workflow, of an older input", "here", "anything", older, otherWorkflow, false, []string{own}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := (&belonging{cluster: c.cluster}).refuse(c.workflow, []any{c.arg})
			if c.refused == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			refusal, ok := errors.AsType[*temporal.ApplicationError](err)
			if !ok || refusal.Type() != c.refused || refusal.NonRetryable() == c.again {
				t.Fatalf("refuse = %#v, want one of type %s, tried again: %t", err, c.refused, c.again)
			}
			for _, part := range c.parts {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q lacks %q", err, part)
				}
			}
		})
	}
}

// If disruptionOf does not find the disruption in an activity's argument, any workflow can
// run that activity.
func TestEveryActivityNamesItsDisruption(t *testing.T) {
	all := reflect.TypeFor[*activities.Activities]()
	seen := 0
	for method := range all.Methods() {
		if method.Type.NumIn() != 3 || method.Type.In(1) != reflect.TypeFor[context.Context]() {
			continue // not an activity
		}
		seen++
		if _, found := disruptionOf([]any{reflect.New(method.Type.In(2)).Elem().Interface()}); !found {
			t.Errorf("%s takes %s, in which disruptionOf finds no disruption: give it a field of type Ref", method.Name, method.Type.In(2))
		}
	}
	if seen < 10 {
		t.Errorf("%d activities seen, want all", seen)
	}
}

// refuse allows the activities of a notification only to its own workflow.
func TestEveryActivityOfANotificationNamesIt(t *testing.T) {
	seen := 0
	for method := range reflect.TypeFor[*notify.Activities]().Methods() {
		seen++
		if _, found := first[notify.Notification]([]any{reflect.New(method.Type.In(2)).Elem().Interface()}); !found {
			t.Errorf("%s takes %s, which has no notification: anybody could ask for it", method.Name, method.Type.In(2))
		}
	}
	if seen != 2 {
		t.Errorf("%d activities seen, want 2", seen)
	}
}

func TestEveryActivityOfACronNamesIt(t *testing.T) {
	seen := 0
	for method := range reflect.TypeFor[*crons.Activities]().Methods() {
		seen++
		if _, found := first[contract.CronRef]([]any{reflect.New(method.Type.In(2)).Elem().Interface()}); !found {
			t.Errorf("%s takes %s, which names no cron: anybody could ask for it", method.Name, method.Type.In(2))
		}
	}
	if seen != 2 {
		t.Errorf("%d activities seen, want 2", seen)
	}
}

// The SDK also calls the interceptor for local activities.
func TestActivitiesAreRefusedWhereverTheyRun(t *testing.T) {
	ref := v1beta1.DisruptionRef{Namespace: "shop", Name: "half", UID: "u1"}
	for _, local := range []bool{false, true} {
		for id, own := range map[string]bool{contract.WorkflowID(ref): true, "anything": false} {
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestWorkflowEnvironment()
			env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&belongings{}}})
			env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: id, TaskQueue: contract.TaskQueue})
			done := false
			act := func(context.Context, v1beta1.DisruptionRef) error { done = true; return nil }
			env.RegisterActivity(act)
			env.ExecuteWorkflow(func(ctx workflow.Context) error {
				if local {
					ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{ScheduleToCloseTimeout: time.Minute})
					return workflow.ExecuteLocalActivity(ctx, act, ref).Get(ctx, nil)
				}
				ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{ScheduleToCloseTimeout: time.Minute})
				return workflow.ExecuteActivity(ctx, act, ref).Get(ctx, nil)
			})
			err := env.GetWorkflowError()
			if done != own || (err == nil) != own {
				t.Errorf("local %t, asked for by %s: done = %t, %v", local, id, done, err)
			}
		}
	}
}
