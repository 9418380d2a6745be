package activities

import (
	"cmp"
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// endingGone is the Ending of a disruption whose object is not there.
const endingGone = "the disruption is gone"

// stopped says why nothing may be injected for the disruption any more, or is
// empty: an emergency stop exists, one stopped it for good, or it is gone. Both
// reads are live; whoever cannot know does not inject.
func (a *Activities) stopped(ctx context.Context, ref Ref) (why string, err error) {
	var stop, mark string
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) { stop, err = a.Disruptions.EmergencyStop(ctx); return err })
	group.Go(func() error {
		live, err := a.Disruptions.Get(ctx, ref)
		switch {
		case apierrors.IsNotFound(err):
			mark = endingGone
			return nil
		case err != nil:
			return fmt.Errorf("look whether disruption %s/%s was stopped: %w", ref.Namespace, ref.Name, err)
		}
		mark = live.Stopped()
		return nil
	})
	if err := group.Wait(); err != nil {
		return "", err
	}
	return cmp.Or(mark, stop), nil
}

// refuse is the plan of a disruption that an emergency stop met: one that never
// began is refused for good, of another only traces can be left.
func (a *Activities) refuse(ctx context.Context, d *v1beta1.Disruption, why string) (Plan, error) {
	if d.Status.StartTime == nil {
		return a.reject(ctx, d, v1beta1.ReasonEmergencyStop, why)
	}
	return Plan{CleanOnly: why}, nil
}
