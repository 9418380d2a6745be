//go:build linux

package network

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/classifier"
	"github.com/squall-chaos/squall/injector/network/rule"
	"github.com/squall-chaos/squall/injector/target"
)

// startUpkeep keeps the programs up to date with names, services and links until
// Clean.
func (i *Injector) startUpkeep() {
	// The context of Inject may end when Inject does, so the upkeep has its own.
	ctx, cancel := context.WithCancel(context.Background())
	i.stopUpkeep = cancel
	i.startFollowingLinks(ctx)
	looksUp := i.looksUp() || i.target.Injection.Level == v1beta1.LevelNode
	follows := i.params.NeedsResolving()
	i.upkeep.Go(func() { i.follow(ctx, looksUp, follows) })
}

// looksUp is true when there are names to resolve.
func (i *Injector) looksUp() bool {
	return len(rule.Names(i.params, i.target.Injection.AllowedHosts)) > 0
}

// follow resolves names again, and adopts new hosts of services and new routes, until ctx
// is done. After a failure the last known addresses stay in force: the disruption itself
// may prevent the resolution.
func (i *Injector) follow(ctx context.Context, looksUp, follows bool) {
	var names, file <-chan time.Time
	if looksUp {
		ticker := time.NewTicker(i.refreshEvery)
		defer ticker.Stop()
		names = ticker.C
	}
	if follows {
		ticker := time.NewTicker(i.lookEvery)
		defer ticker.Stop()
		file = ticker.C
	}
	routes := time.NewTicker(i.surveyEvery)
	defer routes.Stop()
	var failed time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-names:
			_ = i.refresh(ctx)
		case <-routes.C:
			_ = i.exchange(i.known())
		case <-file:
			if time.Since(failed) >= i.retryEvery && i.hostsFile.changed() && i.followHosts() != nil {
				failed = time.Now()
			}
		}
	}
}

// refresh resolves the names again, reads the connections of the kubelet, and replaces the
// programs whose rules changed.
func (i *Injector) refresh(ctx context.Context) error {
	addresses, err := i.resolve(ctx)
	if err != nil {
		return err
	}
	controlPlane, err := i.controlPlane(ctx)
	if err != nil {
		return err
	}
	return i.exchange(facts{addresses: addresses, hosts: i.known().hosts, controlPlane: controlPlane})
}

// followHosts puts the current hosts of services into force. Names keep their addresses:
// they may not resolve at this moment.
func (i *Injector) followHosts() error {
	hosts, seen, err := i.hostsFile.hosts(i.params)
	if err != nil {
		return err
	}
	fresh := i.known()
	fresh.hosts = hosts
	if err := i.exchange(fresh); err != nil {
		return err
	}
	i.hostsFile.seen = seen
	return nil
}

func (i *Injector) known() facts {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	return i.facts
}

// exchange replaces the programs whose rules change with these facts.
func (i *Injector) exchange(fresh facts) error {
	planned, err := i.plan(i.queues, fresh)
	if err != nil {
		return err
	}
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.facts = fresh
	var errs []error
	for at := range i.namespaces {
		current := &i.namespaces[at]
		for _, n := range planned {
			if n.ID != current.ID {
				continue
			}
			if !slices.Equal(n.rules, current.rules) {
				errs = append(errs, current.exchange(n.rules))
			}
			if current.queue != nil {
				errs = append(errs, current.queue.exchange(n.queue.rules))
			}
		}
	}
	return errors.Join(errs...)
}

// Outlasts is true while the attached programs act on all of the pod. Links belong to the
// pod's network namespace and stay when a container restarts. A container's cgroup, and
// names looked up through its files, do not.
func (i *Injector) Outlasts(renewed *target.Target) bool {
	byCgroup := slices.ContainsFunc(i.namespaces, func(n namespace) bool { return n.cgroups != nil })
	return !byCgroup && !i.looksUp() && i.target.SameNetns(renewed)
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
	atSockets, err := n.loadAtSockets(rules)
	if err != nil {
		return err
	}
	return n.sockets.exchange(atSockets)
}
