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

// Types of the errors by which an activity is refused.
const (
	otherCluster  = "OtherCluster"
	otherWorkflow = "OtherWorkflow"
)

// belongings refuses activities for a disruption of another cluster, and those
// that are asked for by another workflow than the disruption's own. Whoever can
// reach Temporal can start workflows: of these none can act upon a disruption
// without taking the place of its workflow, where everybody sees it.
type belongings struct {
	interceptor.WorkerInterceptorBase
	// cluster is the worker's own, empty if it is not known.
	cluster types.UID
}

// InterceptActivity is called for each activity that is carried out.
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

// refuse is the pure part: why the workflow with this ID may not have an activity
// done with these arguments. An activity whose arguments name no object is a sweep's:
// it searches all nodes, and only runs of the sweep's schedule may ask for it.
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
		// It is tried again until a worker of its own cluster takes it.
		return temporal.NewApplicationError(fmt.Sprintf("disruption %s/%s is of cluster %s, and this worker of cluster %s (UIDs of kube-system): "+
			"set SQUALL_TEMPORAL_NAMESPACE to a different namespace for each cluster", ref.Namespace, ref.Name, ref.Cluster, b.cluster), otherCluster)
	}
	want := contract.WorkflowID(ref)
	if told, found := first[notify.Notification](args); found {
		want = contract.NotificationWorkflowID(ref, told.ID)
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

// refuseCron is why the workflow with this ID may not carry out runs of the cron.
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

// refuseScenario is why the workflow with this ID may not carry out the scenario.
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

// disruptionOf finds the disruption that an activity is for: its argument, or the
// first part of it that names one.
func disruptionOf(args []any) (ref v1beta1.DisruptionRef, found bool) {
	return first[v1beta1.DisruptionRef](args)
}

// first finds the first value of a type among arguments and their parts.
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
