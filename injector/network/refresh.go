package network

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/squall-chaos/squall/injector/classifier"
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
	for at := range i.namespaces {
		current := &i.namespaces[at]
		for _, n := range planned {
			if n.ID == current.ID && !slices.Equal(n.rules, current.rules) {
				errs = append(errs, current.exchange(n.rules))
			}
		}
	}
	return errors.Join(errs...)
}

func (n *namespace) exchange(rules []classifier.Rule) error {
	fresh, err := n.load(rules)
	if err != nil {
		return err
	}
	if err := n.attached.Replace(fresh); err != nil {
		fresh.Close()
		return err
	}
	n.Programs.Close()
	n.Programs, n.rules = fresh, rules
	return nil
}
