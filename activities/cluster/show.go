package cluster

import (
	"context"

	"go.temporal.io/sdk/activity"

	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// Carrier is the workflow that runs the activity.
func Carrier(ctx context.Context) v1beta1.WorkflowRef {
	execution := activity.GetInfo(ctx).WorkflowExecution
	return v1beta1.WorkflowRef{ID: execution.ID, RunID: execution.RunID}
}

// Planned is a change of status that first adds the plan, if status does not have it yet.
// The choice of targets is written with the first progress, and other changes may come
// before.
func Planned(ctx context.Context, begun *v1beta1.Disruption, change func(live *v1beta1.Disruption)) func(*v1beta1.Disruption) {
	showPlan := status.ShowPlan(begun, Carrier(ctx))
	return func(live *v1beta1.Disruption) {
		showPlan(live)
		change(live)
	}
}

// ShowSelection is the change of status that shows the chosen targets in these shards.
func ShowSelection(ctx context.Context, d *v1beta1.Disruption, s targets.Selection, shards []targets.Shard, run int) func(*v1beta1.Disruption) {
	active := targets.Active(shards)
	return Planned(ctx, d, func(live *v1beta1.Disruption) { status.ShowSelection(live, d, s, active, run) })
}
