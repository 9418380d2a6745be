package temporal

import (
	"context"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/start"
)

// Workflows starts and signals workflows for every controller of the bridge. Each call is
// bounded in time and counted, and one that succeeds proves that Temporal is there.
type Workflows struct {
	Health   *Health
	Problems *Problems
	client   Client
	// identity is the cluster that the workflows belong to.
	identity *identity
	interval time.Duration
	counters counters
}

// Start makes sure that the workflow of d runs.
func (w *Workflows) Start(ctx context.Context, d *v1beta1.Disruption) error {
	return w.starts(ctx, func(ctx context.Context, in start.Temporal) error { return start.Start(ctx, in, d) })
}

// StartCleaning makes sure that a workflow cleans up what is left of ref, unless one has
// done so.
func (w *Workflows) StartCleaning(ctx context.Context, ref v1beta1.DisruptionRef) error {
	return w.starts(ctx, func(ctx context.Context, in start.Temporal) error {
		return start.StartCleaning(ctx, in, ref, start.StayCompleted)
	})
}

// End signals the workflow of ref to end, with the reason.
func (w *Workflows) End(ctx context.Context, ref v1beta1.DisruptionRef, why string) error {
	return w.signals(ctx, contract.SignalEnd, func(ctx context.Context) error { return start.End(ctx, w.client, ref, why) })
}

// Observe signals the workflow of ref what was seen in the cluster.
func (w *Workflows) Observe(ctx context.Context, ref v1beta1.DisruptionRef, o contract.Observation) error {
	return w.signals(ctx, contract.SignalObserved, func(ctx context.Context) error { return start.Observe(ctx, w.client, ref, o) })
}

func (w *Workflows) starts(ctx context.Context, call func(context.Context, start.Temporal) error) error {
	cluster, err := w.identity.read(ctx)
	if err != nil {
		return err
	}
	if err := w.call(ctx, func(ctx context.Context) error { return call(ctx, start.In(cluster, w.client)) }); err != nil {
		return err
	}
	w.counters.starts.WithLabelValues().Inc()
	return nil
}

func (w *Workflows) signals(ctx context.Context, name string, call func(context.Context) error) error {
	if err := w.call(ctx, call); err != nil {
		return err
	}
	w.counters.signals.WithLabelValues(name).Inc()
	return nil
}

// call refuses to write into a Temporal namespace of another cluster.
func (w *Workflows) call(ctx context.Context, call func(context.Context) error) error {
	if err := w.Problems.OtherCluster(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, w.Health.timeout())
	defer cancel()
	if err := call(ctx); err != nil {
		return err
	}
	w.Health.set(nil)
	return nil
}
