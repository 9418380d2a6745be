package main

import (
	"context"
	"fmt"
	"reflect"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/notify"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// The types of the errors that refuse an activity.
const (
	otherCluster  = "OtherCluster"
	otherWorkflow = "OtherWorkflow"
)

// belongings refuses activities for a disruption of another cluster, and activities that
// another workflow than the disruption's own requests. Every client of Temporal can start
// workflows. With this check, such a client can act on a disruption only by replacing its
// workflow, which is visible to all.
type belongings struct {
	interceptor.WorkerInterceptorBase
	// cluster is the worker's own cluster, empty if unknown.
	cluster types.UID
}

// InterceptActivity is called for each activity.
func (b *belongings) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &belonging{interceptor.ActivityInboundInterceptorBase{Next: next}, b.cluster}
}

type belonging struct {
	interceptor.ActivityInboundInterceptorBase
	cluster types.UID
}

func (b *belonging) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	info := activity.GetInfo(ctx)
	if err := b.refuse(info.WorkflowExecution.ID, in.Args); err != nil {
		return nil, err
	}
	return b.Next.ExecuteActivity(ctx, in)
}

// refuse is why the workflow with this ID may not run an activity with these arguments. An
// activity whose arguments name no object belongs to a sweep. A sweep searches all nodes,
// so only runs of the sweep's schedule may request it.
func (b *belonging) refuse(workflow string, args []any) error {
	if cron, found := first[contract.CronRef](args); found {
		return b.refuseCron(workflow, cron)
	}
	if scenario, found := first[contract.ScenarioRef](args); found {
		return b.refuseScenario(workflow, scenario)
	}
	ref, found := disruptionOf(args)
	if !found {
		return refuseSweep(workflow)
	}
	if b.cluster != "" && ref.Cluster != "" && ref.Cluster != b.cluster {
		// Temporal retries until a worker of the disruption's own cluster takes it.
		return temporal.NewApplicationError(fmt.Sprintf("disruption %s/%s is of cluster %s, and this worker of cluster %s (UIDs of kube-system): "+
			"set SQUALL_TEMPORAL_NAMESPACE to a different namespace for each cluster", ref.Namespace, ref.Name, ref.Cluster, b.cluster), otherCluster)
	}
	want := contract.WorkflowID(ref)
	if notification, found := first[notify.Notification](args); found {
		want = contract.NotificationWorkflowID(ref, notification.ID)
	}
	if workflow != want {
		return temporal.NewNonRetryableApplicationError(fmt.Sprintf("workflow %s acts for disruption %s/%s, which only workflow %s may; nothing was done",
			workflow, ref.Namespace, ref.Name, want), otherWorkflow, nil)
	}
	return nil
}

// refuseSweep is why the workflow with this ID may not sweep the cluster.
func refuseSweep(workflow string) error {
	if contract.RunsSweep(workflow) {
		return nil
	}
	return temporal.NewNonRetryableApplicationError(fmt.Sprintf("workflow %s sweeps the cluster, which only workflows of the schedule %s may; nothing was done",
		workflow, contract.SweepSchedule), otherWorkflow, nil)
}

// refuseCron is why the workflow with this ID may not run activities of the cron.
func (b *belonging) refuseCron(workflow string, cron contract.CronRef) error {
	if b.cluster != "" && cron.Cluster != "" && cron.Cluster != b.cluster {
		return temporal.NewApplicationError(fmt.Sprintf("%s %s is of cluster %s, and this worker of cluster %s (UIDs of kube-system): "+
			"set SQUALL_TEMPORAL_NAMESPACE to a different namespace for each cluster", kindOf(cron), cron, cron.Cluster, b.cluster), otherCluster)
	}
	if !contract.RunsCron(cron, workflow) && cron.Rollout() {
		return temporal.NewNonRetryableApplicationError(fmt.Sprintf("workflow %s acts for DisruptionRollout %s, which only workflows of its own releases may; nothing was done",
			workflow, cron), otherWorkflow, nil)
	}
	if !contract.RunsCron(cron, workflow) {
		return temporal.NewNonRetryableApplicationError(fmt.Sprintf("workflow %s acts for DisruptionCron %s, which only workflows of the schedule %s may; nothing was done",
			workflow, cron, contract.CronScheduleID(cron)), otherWorkflow, nil)
	}
	return nil
}

// refuseScenario is why the workflow with this ID may not run activities of the scenario.
func (b *belonging) refuseScenario(workflow string, s contract.ScenarioRef) error {
	if b.cluster != "" && s.Cluster != "" && s.Cluster != b.cluster {
		return temporal.NewApplicationError(fmt.Sprintf("DisruptionScenario %s is of cluster %s, and this worker of cluster %s (UIDs of kube-system): "+
			"set SQUALL_TEMPORAL_NAMESPACE to a different namespace for each cluster", s, s.Cluster, b.cluster), otherCluster)
	}
	if want := contract.ScenarioWorkflowID(s); workflow != want {
		return temporal.NewNonRetryableApplicationError(fmt.Sprintf("workflow %s acts for DisruptionScenario %s, which only workflow %s may; nothing was done",
			workflow, s, want), otherWorkflow, nil)
	}
	return nil
}

func kindOf(cron contract.CronRef) string {
	if cron.Rollout() {
		return v1beta1.KindDisruptionRollout
	}
	return v1beta1.KindDisruptionCron
}

// disruptionOf finds the disruption of an activity: its argument, or the first field in it
// that names a disruption.
func disruptionOf(args []any) (ref v1beta1.DisruptionRef, found bool) {
	return first[v1beta1.DisruptionRef](args)
}

// first finds the first value of a type among arguments and their fields.
func first[T any](args []any) (ref T, found bool) {
	for _, arg := range args {
		if ref, found = refIn[T](reflect.ValueOf(arg)); found {
			return ref, true
		}
	}
	return ref, false
}

func refIn[T any](value reflect.Value) (ref T, found bool) {
	value = reflect.Indirect(value)
	if value.Kind() != reflect.Struct {
		return ref, false
	}
	if value.Type() == reflect.TypeFor[T]() {
		return value.Interface().(T), true
	}
	for i := range value.NumField() {
		if !value.Type().Field(i).IsExported() {
			continue
		}
		if ref, found = refIn[T](value.Field(i)); found {
			return ref, true
		}
	}
	return ref, false
}
