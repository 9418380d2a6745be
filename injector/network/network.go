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

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/journal"
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
	mechanisms   []mechanism

	places      []place
	stopRefresh context.CancelFunc
	refreshing  sync.WaitGroup
}

// place is one network namespace of the target and what is put there.
type place struct {
	netns   string
	id      target.NetnsID
	mark    mark
	journal notes

	rules    []Rule
	cgroups  []Cgroup
	hooks    []Hook
	programs programs
	attached attachment
}

// notes is the part of the journal that is used here; a probe has another.
type notes interface {
	Write(journal.Change) error
	Changes() []journal.Change
}

type programs map[Direction]*ebpf.Program

// mechanism attaches the programs of a place, or leaves it as it was.
type mechanism func(place) (attachment, error)

// attachment is a place's programs in force.
type attachment interface {
	name() string
	// replace exchanges the programs without a moment between old and new.
	replace(programs) error
	detach() error
}

// New makes an injector. It does nothing yet.
func New(params v1beta1.NetworkDisruption, t *target.Target, j *journal.Journal) *Injector {
	return &Injector{
		params: params, target: t, journal: j,
		refreshEvery: refreshEvery,
		mechanisms:   []mechanism{attachTCX, attachClsact},
	}
}

// Inject resolves the names, decides the rules and puts them into force. It
// changes nothing when it fails, and says so. From then on it resolves the
// names again every minute, until Clean.
func (i *Injector) Inject(ctx context.Context) error {
	places, err := i.plan(ctx)
	if err != nil {
		return fmt.Errorf("network drop: %w; nothing was changed", err)
	}
	for _, p := range places {
		if err := i.attach(p); err != nil {
			return errors.Join(err, i.Clean(ctx))
		}
	}
	if len(Names(i.params, i.target.Injection.AllowedHosts)) > 0 {
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
	for _, p := range i.places {
		errs = append(errs, p.attached.detach())
		p.programs.close()
	}
	i.places = nil
	netnses, err := i.target.Netnses()
	if err != nil {
		errs = append(errs, err)
	}
	for _, netns := range netnses {
		errs = append(errs, removeFilters(netns.Path, markOf(i.target.Injection), i.journal))
	}
	errs = slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, target.ErrGone) })
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("clean network drop: %w", err)
	}
	return nil
}

// plan decides everything and changes nothing.
func (i *Injector) plan(ctx context.Context) ([]place, error) {
	netnses, err := i.target.Netnses()
	if err != nil {
		return nil, err
	}
	resolved, err := i.resolve(ctx)
	if err != nil {
		return nil, err
	}
	var places []place
	for _, netns := range netnses {
		p := place{netns: netns.Path, id: netns.NetnsID, mark: markOf(i.target.Injection), journal: i.journal}
		if err := i.planPlace(&p, resolved); err != nil {
			return nil, err
		}
		places = append(places, p)
	}
	return places, nil
}

func (i *Injector) planPlace(p *place, resolved map[string][]netip.Addr) error {
	c, err := openTC(p.netns)
	if err != nil {
		return err
	}
	defer c.Close()
	site, err := survey(i.target, c, p.id)
	if err != nil {
		return err
	}
	site.Resolved = resolved
	if p.rules, err = Plan(i.params, site); err != nil {
		return err
	}
	if site.Level == v1beta1.LevelPod && (site.SomeContainers || site.NodeNetwork) {
		if p.cgroups, err = cgroupsOf(i.target); err != nil {
			return err
		}
	}
	links, err := c.links()
	p.hooks = Hooks(links, site.Level, Directions(p.rules))
	return err
}

// attach loads the programs of a place and attaches them by the first mechanism
// that the kernel takes: whether it does is only known by trying.
func (i *Injector) attach(p place) error {
	var err error
	if p.programs, err = load(p.rules, p.cgroups, p.mark); err != nil {
		return refused(i.target, err)
	}
	var errs []error
	for _, try := range i.mechanisms {
		if p.attached, err = try(p); err == nil {
			i.places = append(i.places, p)
			return nil
		}
		errs = append(errs, err)
	}
	p.programs.close()
	return refused(i.target, errs...)
}

// load puts a program for each direction into the kernel. It attaches none.
func load(rules []Rule, cgroups []Cgroup, m mark) (programs, error) {
	// Before Linux 5.11 programs count as locked memory. If the limit cannot
	// be lifted, loading tells whether it was needed.
	_ = rlimit.RemoveMemlock()
	loaded := programs{}
	for _, direction := range Directions(rules) {
		var limitTo []Cgroup
		if direction == Egress {
			limitTo = cgroups // an arriving packet has no socket yet
		}
		program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Name: m.program, Type: ebpf.SchedCLS, License: "MIT",
			Instructions: Program(direction, rules, limitTo),
		})
		if err != nil {
			loaded.close()
			return nil, fmt.Errorf("load the program of %s: %w", direction, err)
		}
		loaded[direction] = program
	}
	return loaded, nil
}

func (p programs) close() {
	for _, program := range p {
		program.Close()
	}
}
