package network

import (
	"context"
	"errors"
	"slices"
	"time"
)

// startRefresh keeps the rules up to date with the names until Clean.
func (i *Injector) startRefresh() {
	// Not the context of Inject: that one may end when Inject does.
	ctx, cancel := context.WithCancel(context.Background())
	i.stopRefresh = cancel
	i.refreshing.Add(1)
	go func() {
		defer i.refreshing.Done()
		ticker := time.NewTicker(i.refreshEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				// A failure leaves the last known addresses in force: the
				// disruption itself may be what keeps the names from resolving.
				_ = i.refresh(ctx)
			}
		}
	}()
}

// refresh resolves the names again and replaces the programs whose rules changed.
func (i *Injector) refresh(ctx context.Context) error {
	planned, err := i.plan(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for at := range i.places {
		current := &i.places[at]
		for _, p := range planned {
			if p.id == current.id && !slices.Equal(p.rules, current.rules) {
				errs = append(errs, current.exchange(p.rules))
			}
		}
	}
	return errors.Join(errs...)
}

func (p *place) exchange(rules []Rule) error {
	fresh, err := load(rules, p.cgroups, p.mark)
	if err != nil {
		return err
	}
	if err := p.attached.replace(fresh); err != nil {
		fresh.close()
		return err
	}
	p.programs.close()
	p.programs, p.rules = fresh, rules
	return nil
}
