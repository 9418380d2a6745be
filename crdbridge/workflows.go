package main

import (
	"context"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/start"
)

// workflows starts and informs workflows for every controller of the bridge.
// Each call is bounded in time and counted, and one that succeeds proves that
// Temporal is there.
type workflows struct {
	temporal orchestrator
	pulse    *pulse
	counters counters
}

// start makes sure that the workflow of d runs.
func (w *workflows) start(ctx context.Context, d *v1beta1.Disruption) error {
	return w.starts(ctx, func(ctx context.Context) error { return start.Start(ctx, w.temporal, d) })
}

// startCleaning makes sure that a workflow cleans what is left of ref, unless
// one has done so.
func (w *workflows) startCleaning(ctx context.Context, ref v1beta1.DisruptionRef) error {
	return w.starts(ctx, func(ctx context.Context) error {
		return start.StartCleaning(ctx, w.temporal, ref, start.StayCompleted)
	})
}

// end tells the workflow of ref to end, and why.
func (w *workflows) end(ctx context.Context, ref v1beta1.DisruptionRef, why string) error {
	return w.signals(ctx, contract.SignalEnd, func(ctx context.Context) error { return start.End(ctx, w.temporal, ref, why) })
}

// observed tells the workflow of ref what was seen in the cluster.
func (w *workflows) observed(ctx context.Context, ref v1beta1.DisruptionRef, o contract.Observation) error {
	return w.signals(ctx, contract.SignalObserved, func(ctx context.Context) error { return start.Observe(ctx, w.temporal, ref, o) })
}

func (w *workflows) starts(ctx context.Context, call func(context.Context) error) error {
	if err := w.call(ctx, call); err != nil {
		return err
	}
	w.counters.starts.Inc()
	return nil
}

func (w *workflows) signals(ctx context.Context, name string, call func(context.Context) error) error {
	if err := w.call(ctx, call); err != nil {
		return err
	}
	w.counters.signals.WithLabelValues(name).Inc()
	return nil
}

func (w *workflows) call(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, w.pulse.timeout())
	defer cancel()
	if err := call(ctx); err != nil {
		return err
	}
	w.pulse.set(nil)
	return nil
}
