package cluster

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// EndingGone is the Ending of a disruption whose object no longer exists.
const EndingGone = "the disruption is gone"

// Stopped is why nothing may be injected for the disruption any more: an emergency stop
// exists, an earlier one stopped it for good, or it is gone. It is empty if none of these
// holds. Both reads are live, and a failed read must stop the injection.
func Stopped(ctx context.Context, c *Cluster, ref v1beta1.DisruptionRef) (why string, err error) {
	live, stop, err := ReadDisruption(ctx, c, ref, c.Disruptions.EmergencyStop)
	if apierrors.IsNotFound(err) {
		return EndingGone, nil
	}
	if err != nil {
		return "", fmt.Errorf("look whether disruption %s/%s was stopped: %w", ref.Namespace, ref.Name, err)
	}
	return cmp.Or(live.Stopped(), stop), nil
}

// ReadDisruption reads the disruption live and, at the same time, the reason of the first
// emergency stop; empty if there is none.
func ReadDisruption(ctx context.Context, c *Cluster, ref v1beta1.DisruptionRef, stopOf func(context.Context) (string, error)) (live *v1beta1.Disruption, stop string, err error) {
	var other sync.WaitGroup
	var unknown error
	other.Go(func() { stop, unknown = stopOf(ctx) })
	live, err = c.Disruptions.Get(ctx, ref)
	other.Wait()
	return live, stop, cmp.Or(err, unknown)
}
