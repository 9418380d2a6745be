package activities

import (
	"context"

	"go.temporal.io/sdk/activity"

	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// SteadyStateReport is the workflow's decision about the steady state.
type SteadyStateReport = status.SteadyStateReport

// ReportSteadyState writes the results of the probes into status, with the conditions
// SteadyState and Aborted, and records events (rule P18). A retry records no event twice.
func (a *Activities) ReportSteadyState(ctx context.Context, r SteadyStateReport) error {
	r.At = activity.GetInfo(ctx).ScheduledTime
	d := status.Named(r.Disruption)
	reasons, warning := status.SteadyStateEvent(r.Change)
	for _, reason := range reasons {
		if warning {
			a.events().Warn(ctx, d, reason, r.Message, r.Message)
		} else {
			a.events().Record(ctx, d, reason, r.Message, r.Message)
		}
	}
	return a.Disruptions.UpdateStatus(ctx, r.Disruption, func(d *v1beta1.Disruption) { status.ShowSteadyState(d, r) })
}
