package temporal

import (
	"context"

	"github.com/squall-chaos/squall/api/schedule"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/start"
)

// KeepSchedule makes sure that Temporal has the schedule of c. It returns whether a person
// paused it there, and with which note.
func (w *Workflows) KeepSchedule(ctx context.Context, c *v1beta1.DisruptionCron, times schedule.Schedule) (paused bool, note string, err error) {
	ref, err := w.cronRef(ctx, c)
	if err != nil {
		return false, "", err
	}
	err = w.call(ctx, func(ctx context.Context) (err error) {
		paused, note, err = start.KeepSchedule(ctx, w.client.ScheduleClient(), ref, c.Spec, times)
		return err
	})
	return paused, note, err
}

// DeleteSchedule deletes the schedule of c, so that no further run begins.
func (w *Workflows) DeleteSchedule(ctx context.Context, c *v1beta1.DisruptionCron) error {
	ref := contract.CronRef{Namespace: c.Namespace, Name: c.Name, UID: c.UID}
	return w.call(ctx, func(ctx context.Context) error { return start.DeleteSchedule(ctx, w.client.ScheduleClient(), ref) })
}

func (w *Workflows) cronRef(ctx context.Context, c *v1beta1.DisruptionCron) (contract.CronRef, error) {
	cluster, err := w.identity.read(ctx)
	return contract.CronRef{Namespace: c.Namespace, Name: c.Name, UID: c.UID, Cluster: cluster}, err
}
