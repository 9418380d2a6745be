//go:build linux

package network

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/squall-chaos/squall/injector/attach"
	"github.com/squall-chaos/squall/injector/classifier"
)

// startFollowingLinks attaches the programs to all links of the namespaces, also to new
// ones, until Clean.
func (i *Injector) startFollowingLinks(ctx context.Context) {
	for at := range i.namespaces {
		i.upkeep.Go(func() {
			for ctx.Err() == nil {
				i.followLinks(ctx, &i.namespaces[at])
			}
		})
	}
}

// followLinks returns when it must subscribe again. Either the kernel dropped notices, the
// subscription was refused, or ctx is done.
func (i *Injector) followLinks(ctx context.Context, n *namespace) {
	done := make(chan struct{})
	// Without a subscription there are no notices, and nothing to close.
	notices, err := attach.Subscribe(n.Netns, done)
	if err == nil {
		defer func() {
			close(done)
			for range notices {
			}
		}()
	}
	for {
		// A search finds links from before the subscription.
		failed := i.extend(n) != nil || notices == nil
		var again <-chan time.Time
		if failed {
			again = time.After(i.retryEvery)
		}
		select {
		case <-ctx.Done():
			return
		case _, open := <-notices:
			if !open {
				return
			}
		case <-again:
			if notices == nil {
				return
			}
		}
	}
}

// extend attaches the programs to new links, and forgets links that are gone.
func (i *Injector) extend(n *namespace) error {
	c, err := attach.Open(n.Netns)
	if err != nil {
		return err
	}
	defer c.Close()
	links, err := c.Links()
	if err != nil {
		return err
	}
	i.mutex.Lock()
	defer i.mutex.Unlock()
	level := i.target.Injection.Level
	hooks, err := n.hooks(c, links, level)
	if err != nil {
		return err
	}
	err = extendTo(hooks, &n.Point, n.attached)
	if n.queue != nil && n.queue.attached != nil {
		wanted := attach.Hooks(links, level, classifier.Directions(n.queue.rules))
		err = errors.Join(err, extendTo(wanted, &n.queue.Point, n.queue.attached))
	}
	return err
}

// extendTo attaches the programs of a point to the hooks that lack them.
func extendTo(wanted []attach.Hook, p *attach.Point, attached attach.Attachment) error {
	// Hooks that are gone are forgotten: a new link may get the same number.
	p.Hooks = slices.DeleteFunc(p.Hooks, func(h attach.Hook) bool { return !slices.Contains(wanted, h) })
	var errs []error
	for _, hook := range wanted {
		if slices.Contains(p.Hooks, hook) {
			continue
		}
		err := attached.Extend([]attach.Hook{hook}, p.Programs)
		if err == nil {
			p.Hooks = append(p.Hooks, hook)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
