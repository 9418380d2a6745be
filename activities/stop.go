package activities

import (
	"context"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// refuse is the plan of a disruption under an emergency stop. It rejects a disruption that
// never began. After a start, only cleaning is left.
func (a *Activities) refuse(ctx context.Context, d *v1beta1.Disruption, why string) (Plan, error) {
	if d.Status.StartTime == nil {
		return a.refuseFor(ctx, d, v1beta1.ReasonEmergencyStop, why)
	}
	return Plan{CleanOnly: why}, nil
}
