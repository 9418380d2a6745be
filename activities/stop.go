package activities

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// endingGone is the Ending of a disruption whose object no longer exists.
const endingGone = "the disruption is gone"

// stopped is why nothing may be injected for the disruption any more: an emergency stop
// exists, an earlier one stopped it for good, or it is gone. It is empty if none of these
// holds. Both reads are live, and a failed read must stop the injection.
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

// read reads the disruption live and, at the same time, the reason of the first emergency
// stop; empty if there is none.
func (a *Activities) read(ctx context.Context, ref Ref, stopOf func(context.Context) (string, error)) (live *v1beta1.Disruption, stop string, err error) {
	var other sync.WaitGroup
	var unknown error
	other.Go(func() { stop, unknown = stopOf(ctx) })
	live, err = a.Disruptions.Get(ctx, ref)
	other.Wait()
	return live, stop, cmp.Or(err, unknown)
}

// refuse is the plan of a disruption under an emergency stop. It rejects a disruption that
// never began. After a start, only cleaning is left.
func (a *Activities) refuse(ctx context.Context, d *v1beta1.Disruption, why string) (Plan, error) {
	if d.Status.StartTime == nil {
		return a.refuseFor(ctx, d, v1beta1.ReasonEmergencyStop, why)
	}
	return Plan{CleanOnly: why}, nil
}
