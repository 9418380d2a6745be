package network

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/injector/target"
)

// clsactFilters are programs in classic filters of a clsact qdisc. They stay
// when the injector dies; the mark in their names leads to them. Linux 4.5.
type clsactFilters struct{ place }

// attachClsact adds the filters before all others of their hooks, or changes nothing.
func attachClsact(p place) (attachment, error) {
	err := exclusively(p.netns, func(c tc) error {
		kinds, err := c.classifiers()
		if err != nil {
			return err
		}
		for _, hook := range p.hooks {
			err := addFilter(c, p, hook, kinds)
			if err != nil && !isGone(err) {
				return fmt.Errorf("attach to %s of %s: %w", hook.Direction, hook.Name, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, removeFilters(p.netns, p.mark, p.journal))
	}
	return clsactFilters{p}, nil
}

func (f clsactFilters) name() string { return "cls_bpf" }

// replace exchanges the programs, one hook after the other, each at once.
func (f clsactFilters) replace(programs programs) error {
	return exclusively(f.netns, func(c tc) error {
		var errs []error
		for _, hook := range f.hooks {
			filters, err := c.filters(hook)
			errs = append(errs, err)
			for _, filter := range owned(filters, f.mark) {
				filter.Fd = programs[hook.Direction].FD()
				filter.DirectAction = true
				if err := c.FilterReplace(filter); err != nil && !isGone(err) {
					errs = append(errs, fmt.Errorf("replace the filter at %s of %s: %w", hook.Direction, hook.Name, err))
				}
			}
		}
		return errors.Join(errs...)
	})
}

func (f clsactFilters) detach() error { return removeFilters(f.netns, f.mark, f.journal) }

func addFilter(c tc, p place, hook Hook, kinds map[int]string) error {
	ours, err := ensureClsact(c, p, hook, kinds)
	if err != nil {
		return err
	}
	filters, err := c.filters(hook)
	if err != nil {
		return err
	}
	if len(owned(filters, p.mark)) > 0 {
		return nil // of an earlier attempt
	}
	name := p.mark.filter
	if ours {
		name += ownsClsact
	}
	return c.FilterAdd(&netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: hook.Index,
			Parent:    parent(hook.Direction),
			Priority:  firstPriority(filters),
			Protocol:  unix.ETH_P_ALL,
		},
		Fd: p.programs[hook.Direction].FD(), Name: name, DirectAction: true,
	})
}

// firstPriority is where a new filter sees packets before the others: 1. If
// that holds BPF filters of all protocols, the kernel puts a new one before
// them; next to any other sort it lets none, and the first free one must do.
func firstPriority(filters []netlink.Filter) uint16 {
	taken := map[uint16]bool{}
	for _, filter := range filters {
		attrs := filter.Attrs()
		joinable := filter.Type() == "bpf" && attrs.Protocol == unix.ETH_P_ALL
		if mainChain(attrs) && !joinable {
			taken[attrs.Priority] = true
		}
	}
	priority := uint16(1)
	for taken[priority] {
		priority++
	}
	return priority
}

func mainChain(attrs *netlink.FilterAttrs) bool { return attrs.Chain == nil || *attrs.Chain == 0 }

// ensureClsact makes the qdisc if the link has none, and tells whether Squall
// did so, now or for another disruption. It is in the journal before it is in
// the kernel, since it has no name of its own.
func ensureClsact(c tc, p place, hook Hook, kinds map[int]string) (ours bool, err error) {
	kind := kinds[hook.Index]
	if kind == "ingress" && hook.Direction == Egress {
		return false, errors.New("the link has an ingress qdisc of somebody else, and no clsact fits beside it")
	}
	if kind != "" {
		return clsactIsOurs(c, p.journal, p.mark, clsactObject(p.id, hook), hook)
	}
	change := journal.Change{Object: clsactObject(p.id, hook), Before: absent, After: present}
	if err := p.journal.Write(change); err != nil {
		return false, err
	}
	err = c.QdiscAdd(clsactOf(hook.Index))
	if errors.Is(err, unix.EEXIST) {
		// Somebody was faster: take the note back.
		change.Before = present
		return false, p.journal.Write(change)
	}
	if err != nil {
		return false, fmt.Errorf("add clsact: %w", err)
	}
	kinds[hook.Index] = "clsact"
	return true, nil
}

// What the journal says about a clsact.
const (
	absent  = "absent"
	present = "present"
)

func clsactObject(netns target.NetnsID, hook Hook) string {
	return fmt.Sprintf("clsact of link %d (%s) in network namespace %d:%d", hook.Index, hook.Name, netns.Dev, netns.Ino)
}

// clsactIsOurs asks the journal, for what this injection made, and the names of
// the filters, for what another one made that may have ended before.
func clsactIsOurs(c tc, j notes, m mark, object string, hook Hook) (bool, error) {
	if known, ours := noted(j, object); known {
		return ours, nil
	}
	for _, direction := range []Direction{Egress, Ingress} {
		filters, err := c.filters(Hook{hook.Index, hook.Name, direction})
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(filters, marksClsact) {
			return true, nil
		}
	}
	return false, nil
}

// noted asks the journal alone; ours is true while we made it and did not take
// it away.
func noted(j notes, object string) (known, ours bool) {
	for _, change := range slices.Backward(j.Changes()) {
		if change.Object == object {
			return true, change.Before == absent
		}
	}
	return false, false
}

func marksClsact(filter netlink.Filter) bool {
	bpf, ok := filter.(*netlink.BpfFilter)
	return ok && strings.HasPrefix(bpf.Name, filterPrefix) && strings.HasSuffix(bpf.Name, ownsClsact)
}

func owned(filters []netlink.Filter, m mark) []*netlink.BpfFilter {
	var found []*netlink.BpfFilter
	for _, filter := range filters {
		if bpf, ok := filter.(*netlink.BpfFilter); ok && m.owns(bpf.Name) {
			found = append(found, bpf)
		}
	}
	return found
}

// removeFilters takes off every filter of the injection in a namespace, on
// whatever link, and the clsact qdiscs that Squall made and nobody uses. What
// is left after that is its error, not what went wrong on the way.
func removeFilters(netns string, m mark, j notes) error {
	return exclusively(netns, func(c tc) error {
		links, err := c.links()
		if err != nil {
			return err
		}
		id, err := netnsID(netns)
		if err != nil {
			return err
		}
		kinds, err := c.classifiers()
		if err != nil {
			return err
		}
		var errs []error
		for _, link := range links {
			if kinds[link.Index] != "" {
				errs = append(errs, cleanLink(c, link, id, m, j))
			}
		}
		return errors.Join(errs...)
	})
}

func cleanLink(c tc, link Link, id target.NetnsID, m mark, j notes) error {
	hook := Hook{Index: link.Index, Name: link.Name}
	ours, err := clsactIsOurs(c, j, m, clsactObject(id, hook), hook)
	if err != nil {
		return err
	}
	var errs []error
	foreign := 0
	for _, hook.Direction = range []Direction{Egress, Ingress} {
		filters, err := c.filters(hook)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		for _, filter := range owned(filters, m) {
			errs = append(errs, deleteFilter(c, hook, filter))
		}
		foreign += len(filters) - len(owned(filters, m))
	}
	if err := errors.Join(errs...); err != nil || !ours || foreign > 0 {
		return err
	}
	if err := c.QdiscDel(clsactOf(link.Index)); err != nil && !isGone(err) {
		return fmt.Errorf("remove clsact of %s: %w", link.Name, err)
	}
	// A clsact that appears from now on is not ours.
	return j.Write(journal.Change{Object: clsactObject(id, hook), Before: present, After: absent})
}

// deleteFilter looks whether the filter is still there rather than guess it
// from an error: a vanished qdisc, for one, is answered with EINVAL.
func deleteFilter(c tc, hook Hook, filter *netlink.BpfFilter) error {
	failure := c.FilterDel(filter)
	if failure == nil {
		return nil
	}
	filters, err := c.filters(hook)
	left := slices.ContainsFunc(filters, func(f netlink.Filter) bool {
		bpf, ok := f.(*netlink.BpfFilter)
		return ok && bpf.Name == filter.Name && bpf.Handle == filter.Handle
	})
	if err != nil || left {
		return fmt.Errorf("remove filter %s at %s of %s: %w", filter.Name, hook.Direction, hook.Name, errors.Join(failure, err))
	}
	return nil
}
