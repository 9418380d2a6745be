package activities

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// Announcement says which targets are to be told.
type Announcement struct {
	Disruption Ref   `json:"disruption"`
	Shards     []int `json:"shards"`
}

const (
	// parallelEvents bounds the events one activity records at once: nobody
	// waits for them, and others may still create chaos pods.
	parallelEvents = 4
	// calmGap without any news of the chaos pods means that none is on its way.
	calmGap = 2 * time.Second
)

// TellTargets records an event on every target of the shards (acceptance 21),
// once they are injected or nothing moves any more.
func (a *Activities) TellTargets(ctx context.Context, in Announcement) error {
	w, err := a.newInjectionWatch(ctx, in.Disruption, in.Shards...)
	if err != nil {
		return err
	}
	if err := w.calm(ctx); err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(parallelEvents)
	for _, target := range w.targets {
		if target.Released == "" {
			group.Go(func() error { return a.tellTarget(groupCtx, w.d, target) })
		}
	}
	return group.Wait()
}

// calm waits until all targets are injected, or until there was no news for
// calmGap.
func (w *injectionWatch) calm(ctx context.Context) error {
	changes, stop := w.a.ChaosPods.Changes(refOf(w.d))
	defer stop()
	for !w.look().done() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(calmGap):
			return nil
		case <-changes:
			if err := pause(ctx, w.early()); err != nil {
				return err
			}
		}
	}
	return nil
}

// of tells whether the shard is one of these; none means all.
func (s shard) of(numbers []int) bool {
	return len(numbers) == 0 || slices.Contains(numbers, s.number)
}
