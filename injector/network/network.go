// Package network disturbs the packets of a target: it drops a share of those
// that its rules match, by BPF programs on the target's network links. It
// promises that no qdisc, filter or program of anybody else is changed, that a
// target stays reachable for its node, and that Clean leaves the links as they
// were. Where the kernel can, the programs end with the injector, however it dies.
package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf/asm"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/attach"
	"github.com/squall-chaos/squall/injector/classifier"
	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/injector/network/rule"
	"github.com/squall-chaos/squall/injector/target"
)

// refreshEvery is how often names are resolved again.
const refreshEvery = time.Minute

// Injector drops packets of one target.
type Injector struct {
	params  v1beta1.NetworkDisruption
	target  *target.Target
	journal *journal.Journal

	// refreshEvery and mechanisms are what tests change.
	refreshEvery time.Duration
	mechanisms   []attach.Mechanism

	namespaces  []namespace
	stopRefresh context.CancelFunc
	refreshing  sync.WaitGroup
}

// namespace is one network namespace of the target and what was put there.
type namespace struct {
	attach.Point

	rules    []classifier.Rule
	cgroups  []classifier.Cgroup
	attached attach.Attachment
}

// New makes an injector. It does nothing yet.
func New(params v1beta1.NetworkDisruption, t *target.Target, j *journal.Journal) *Injector {
	return &Injector{
		params: params, target: t, journal: j,
		refreshEvery: refreshEvery,
		mechanisms:   []attach.Mechanism{attach.TCX, attach.Clsact},
	}
}

// Inject resolves the names, decides the rules and puts them into force. It
// changes nothing when it fails, and says so. From then on it resolves the
// names again every minute, until Clean.
func (i *Injector) Inject(ctx context.Context) error {
	namespaces, err := i.plan(ctx)
	if err != nil {
		return fmt.Errorf("network drop: %w; nothing was changed", err)
	}
	for _, n := range namespaces {
		if err := i.attach(n); err != nil {
			return errors.Join(err, i.Clean(ctx))
		}
	}
	if len(rule.Names(i.params, i.target.Injection.AllowedHosts)) > 0 {
		i.startRefresh()
	}
	return nil
}

// Clean takes off what Inject put on, in this process or, by its mark and the
// journal, in one that has died. It is idempotent and goes on after an error;
// a target that is gone is clean.
func (i *Injector) Clean(context.Context) error {
	if i.stopRefresh != nil {
		i.stopRefresh()
		i.refreshing.Wait()
	}
	var errs []error
	for _, n := range i.namespaces {
		errs = append(errs, n.attached.Detach())
		n.Programs.Close()
	}
	i.namespaces = nil
	netnses, err := i.target.Netnses()
	if err != nil {
		errs = append(errs, err)
	}
	for _, netns := range netnses {
		errs = append(errs, attach.Remove(netns.Path, attach.MarkOf(i.target.Injection), i.journal))
	}
	errs = slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, target.ErrGone) })
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("clean network drop: %w", err)
	}
	return nil
}

// plan decides everything and changes nothing.
func (i *Injector) plan(ctx context.Context) ([]namespace, error) {
	netnses, err := i.target.Netnses()
	if err != nil {
		return nil, err
	}
	resolved, err := i.resolve(ctx)
	if err != nil {
		return nil, err
	}
	var namespaces []namespace
	for _, netns := range netnses {
		n := namespace{Point: attach.Point{Netns: netns.Path, ID: netns.NetnsID, Mark: attach.MarkOf(i.target.Injection), Log: i.journal}}
		if err := i.planNamespace(&n, resolved); err != nil {
			return nil, err
		}
		namespaces = append(namespaces, n)
	}
	return namespaces, nil
}

func (i *Injector) planNamespace(n *namespace, resolved map[string][]netip.Addr) error {
	c, err := attach.Open(n.Netns)
	if err != nil {
		return err
	}
	defer c.Close()
	site, err := survey(i.target, c, n.ID)
	if err != nil {
		return err
	}
	site.Resolved = resolved
	if n.rules, err = rule.Plan(i.params, site); err != nil {
		return err
	}
	if site.Level == v1beta1.LevelPod && (site.SomeContainers || site.NodeNetwork) {
		if n.cgroups, err = cgroupsOf(i.target); err != nil {
			return err
		}
	}
	links, err := c.Links()
	n.Hooks = attach.Hooks(links, site.Level, classifier.Directions(n.rules))
	return err
}

// attach loads the programs of a namespace and attaches them by the first mechanism
// that the kernel takes: whether it does is only known by trying.
func (i *Injector) attach(n namespace) error {
	var err error
	if n.Programs, err = n.load(n.rules); err != nil {
		return refused(i.target, err)
	}
	var errs []error
	for _, try := range i.mechanisms {
		if n.attached, err = try(n.Point); err == nil {
			i.namespaces = append(i.namespaces, n)
			return nil
		}
		errs = append(errs, err)
	}
	n.Programs.Close()
	return refused(i.target, errs...)
}

// load puts a program for each direction of the rules into the kernel. It
// attaches none.
func (n namespace) load(rules []classifier.Rule) (attach.Programs, error) {
	instructions := map[classifier.Direction]asm.Instructions{}
	for _, direction := range classifier.Directions(rules) {
		var limitTo []classifier.Cgroup
		if direction == classifier.Egress {
			limitTo = n.cgroups // an arriving packet has no socket yet
		}
		instructions[direction] = classifier.Program(direction, rules, limitTo)
	}
	return attach.Load(instructions, n.Mark)
}
