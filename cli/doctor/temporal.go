package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/squall-chaos/squall/workflows/contract"
)

// shortRetention is the least useful retention of finished workflows: people read about a
// disruption up to a month later.
const shortRetention = 35 * 24 * time.Hour

// Temporal examines a Temporal that answers.
func Temporal(ctx context.Context, t client.Client, address, namespace string) []Finding {
	return []Finding{
		{"temporal", OK, fmt.Sprintf("%s answers, namespace %s", address, namespace), ""},
		examineRetention(ctx, t, namespace),
		examineAttributes(ctx, t, namespace),
		examinePollers(ctx, t, namespace),
		examineSchedule(ctx, t),
	}
}

func examineRetention(ctx context.Context, t client.Client, namespace string) Finding {
	const what = "retention"
	described, err := t.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	if err != nil {
		return Finding{what, Warn, "could not be asked: " + err.Error(), "see temporal operator namespace describe --namespace " + namespace}
	}
	kept := described.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration()
	text := fmt.Sprintf("finished workflows are kept for %gh", kept.Hours())
	if kept < shortRetention {
		return Finding{what, Warn, text + ": squall history knows nothing older", "temporal operator namespace update --namespace " + namespace + " --retention 840h"}
	}
	return Finding{what, OK, text, ""}
}

func examineAttributes(ctx context.Context, t client.Client, namespace string) Finding {
	const what = "search attributes"
	there, err := t.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return Finding{what, Warn, "could not be listed: " + err.Error(), "see temporal operator search-attribute list --namespace " + namespace}
	}
	var missing []string
	for _, name := range []string{contract.AttributePhase, contract.AttributeNamespace, contract.AttributeKinds, contract.AttributeStuck, contract.AttributeTargets} {
		if _, found := there.CustomAttributes[name]; !found {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return Finding{what, Fail, "missing are " + strings.Join(missing, ", "), "deploy/temporal/namespace.sh creates them"}
	}
	return Finding{what, OK, "all are there", ""}
}

// examinePollers checks whether a worker polls Temporal for work.
func examinePollers(ctx context.Context, t client.Client, namespace string) Finding {
	what := "workers"
	queue, err := t.DescribeTaskQueue(ctx, contract.TaskQueue, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
	switch {
	case err != nil:
		return Finding{what, Warn, "could not be asked for: " + err.Error(), "see temporal task-queue describe --task-queue " + contract.TaskQueue}
	case len(queue.GetPollers()) == 0:
		return Finding{what, Fail, fmt.Sprintf("no worker asks for work on task queue %s of namespace %s", contract.TaskQueue, namespace),
			"see that squall-worker runs, and that its SQUALL_TEMPORAL_ADDRESS and SQUALL_TEMPORAL_NAMESPACE name this Temporal"}
	}
	return Finding{what, OK, fmt.Sprintf("%d ask for work", len(queue.GetPollers())), ""}
}

func examineSchedule(ctx context.Context, t client.Client) Finding {
	const what = "sweep"
	schedule, err := t.ScheduleClient().GetHandle(ctx, contract.SweepSchedule).Describe(ctx)
	if _, none := errors.AsType[*serviceerror.NotFound](err); none {
		return Finding{what, Warn, "there is no schedule " + contract.SweepSchedule + ": nothing looks for what no disruption owns", "a worker writes it when it starts, unless SQUALL_SWEEP_INTERVAL is 0"}
	}
	switch {
	case err != nil:
		return Finding{what, Warn, "could not be asked for: " + err.Error(), "see temporal schedule describe --schedule-id " + contract.SweepSchedule}
	case schedule.Schedule.State != nil && schedule.Schedule.State.Paused:
		return Finding{what, Warn, "the schedule " + contract.SweepSchedule + " is paused: " + schedule.Schedule.State.Note, "temporal schedule toggle --unpause --schedule-id " + contract.SweepSchedule}
	}
	return Finding{what, OK, "the schedule " + contract.SweepSchedule + " is there", ""}
}
