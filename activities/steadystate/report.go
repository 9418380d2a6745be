package steadystate

import (
	"context"

	"go.temporal.io/sdk/activity"

	"github.com/squall-chaos/squall/activities/cluster"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// ReportSteadyState writes the results of the probes into status, with the conditions
// SteadyState and Aborted, and records events (rule P18). A retry records no event twice.
func (a *Activities) ReportSteadyState(ctx context.Context, r status.SteadyStateReport) error {
	r.At = activity.GetInfo(ctx).ScheduledTime
	d := status.Named(r.Disruption)
	reasons, warning := status.SteadyStateEvent(r.Change)
	for _, reason := range reasons {
		if warning {
			cluster.Events(a.Kube).Warn(ctx, d, reason, r.Message, r.Message)
		} else {
			cluster.Events(a.Kube).Record(ctx, d, reason, r.Message, r.Message)
		}
	}
	return a.Disruptions.UpdateStatus(ctx, r.Disruption, func(d *v1beta1.Disruption) { status.ShowSteadyState(d, r) })
}
