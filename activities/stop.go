package activities

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// endingGone is the Ending of a disruption whose object is not there.
const endingGone = "the disruption is gone"

// stopped says why nothing may be injected for the disruption any more, or is
// empty: an emergency stop exists, one stopped it for good, or it is gone. Both
// reads are live; whoever cannot know does not inject.
func (a *Activities) stopped(ctx context.Context, ref Ref) (why string, err error) {
	live, stop, err := a.read(ctx, ref, a.Disruptions.EmergencyStop)
	if apierrors.IsNotFound(err) {
		return endingGone, nil
	}
	if err != nil {
		return "", fmt.Errorf("look whether disruption %s/%s was stopped: %w", ref.Namespace, ref.Name, err)
	}
	return cmp.Or(live.Stopped(), stop), nil
}

// read reads the disruption live and, at the same time, what the first emergency
// stop says; empty if there is none.
func (a *Activities) read(ctx context.Context, ref Ref, stopOf func(context.Context) (string, error)) (live *v1beta1.Disruption, stop string, err error) {
	var other sync.WaitGroup
	var unknown error
	other.Go(func() { stop, unknown = stopOf(ctx) })
	live, err = a.Disruptions.Get(ctx, ref)
	other.Wait()
	return live, stop, cmp.Or(err, unknown)
}

// refuse is the plan of a disruption that an emergency stop met: one that never
// began is refused for good, of another only traces can be left.
func (a *Activities) refuse(ctx context.Context, d *v1beta1.Disruption, why string) (Plan, error) {
	if d.Status.StartTime == nil {
		return a.refuseFor(ctx, d, v1beta1.ReasonEmergencyStop, why)
	}
	return Plan{CleanOnly: why}, nil
}
