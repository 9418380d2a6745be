package temporal

import (
	"context"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/start"
)

// StartRun makes sure that the workflow for a release of r was started.
func (w *Workflows) StartRun(ctx context.Context, r *v1beta1.DisruptionRollout, release contract.Release) error {
	ref := contract.CronRef{Namespace: r.Namespace, Name: r.Name, UID: r.UID, Kind: v1beta1.KindDisruptionRollout}
	return w.starts(ctx, func(ctx context.Context, in start.Temporal) error { return start.Rollout(ctx, in, ref, release) })
}
