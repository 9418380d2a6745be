//go:build linux

package attach

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/classifier"
	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/injector/target"
)

// clsactFilters are programs in classic filters of a clsact qdisc. They stay when the
// injector dies; the mark in their names identifies them. Linux 4.5.
type clsactFilters struct {
	Point
	kind filterKind
}

// filterKind is how filters use the verdict of their program.
type filterKind struct {
	name   string // the kernel's name
	suffix string // of the filters' names
	write  func(c Conn, p Point, filter *netlink.BpfFilter, direction classifier.Direction, replace bool) error
}

// direct filters apply the verdict of their program.
var direct = filterKind{"cls_bpf", "", func(c Conn, _ Point, filter *netlink.BpfFilter, _ classifier.Direction, replace bool) error {
	filter.DirectAction = true
	if replace {
		return c.FilterReplace(filter)
	}
	return c.FilterAdd(filter)
}}

// Clsact adds filters that apply the programs' verdicts, ahead of all others of their
// hooks, or changes nothing.
func Clsact(p Point) (Attachment, error) { return addFilters(p, direct) }

func addFilters(p Point, kind filterKind) (Attachment, error) {
	attached := &clsactFilters{p, kind}
	attached.Hooks = nil
	if err := attached.Extend(p.Hooks, p.Programs); err != nil {
		return nil, errors.Join(err, Remove(p.Netns, p.Mark, p.Log))
	}
	return attached, nil
}

func (f *clsactFilters) Name() string { return f.kind.name }

// Extend adds the filters to further hooks, up to the first error.
func (f *clsactFilters) Extend(hooks []Hook, programs Programs) error {
	f.Programs = programs
	return Exclusively(f.Netns, func(c Conn) error {
		kinds, err := c.classifiers()
		if err != nil {
			return err
		}
		for _, hook := range hooks {
			err := addFilter(c, f.Point, hook, kinds, f.kind)
			if err != nil && !isGone(err) {
				return fmt.Errorf("attach to %s of %s: %w", hook.Direction, hook.Name, err)
			}
			f.Hooks = append(f.Hooks, hook)
		}
		return nil
	})
}

// Replace exchanges the programs, one hook after the other, each without a gap.
func (f *clsactFilters) Replace(programs Programs) error {
	return Exclusively(f.Netns, func(c Conn) error {
		var errs []error
		for _, hook := range f.Hooks {
			filters, err := c.filters(hook)
			errs = append(errs, err)
			for _, filter := range f.kind.owned(filters, f.Mark) {
				filter.Fd = programs[hook.Direction].FD()
				if err := f.kind.write(c, f.Point, filter, hook.Direction, true); err != nil && !isGone(err) {
					errs = append(errs, fmt.Errorf("replace the filter at %s of %s: %w", hook.Direction, hook.Name, err))
				}
			}
		}
		return errors.Join(errs...)
	})
}

func (f *clsactFilters) Detach() error { return Remove(f.Netns, f.Mark, f.Log) }

func addFilter(c Conn, p Point, hook Hook, kinds map[int]string, kind filterKind) error {
	ours, err := ensureClsact(c, p, hook, kinds)
	if err != nil {
		return err
	}
	filters, err := c.filters(hook)
	if err != nil {
		return err
	}
	if len(kind.owned(filters, p.Mark)) > 0 {
		return nil // from an earlier attempt
	}
	name := p.Mark.Filter + kind.suffix
	if ours {
		name += ownsClsact
	}
	filter := &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: hook.Index,
			Parent:    parent(hook.Direction),
			Priority:  firstPriority(filters),
			Protocol:  unix.ETH_P_ALL,
		},
		Fd: p.Programs[hook.Direction].FD(), Name: name,
	}
	return kind.write(c, p, filter, hook.Direction, false)
}

// firstPriority returns the priority at which a new filter sees packets before the others:
// 1. If that has BPF filters of all protocols, the kernel puts a new one ahead of them.
// Beside any other type it accepts none, and the first free priority must do.
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

// ensureClsact makes the qdisc if the link has none. It returns whether Squall made it, now
// or for another disruption. The journal gets it before the kernel, since it has no name of
// its own.
func ensureClsact(c Conn, p Point, hook Hook, kinds map[int]string) (ours bool, err error) {
	kind := kinds[hook.Index]
	if kind == "ingress" && hook.Direction == classifier.Egress {
		return false, errors.New("the link has an ingress qdisc of another program, and a clsact cannot be added beside it")
	}
	if kind != "" {
		return clsactIsOurs(c, p.Log, p.Mark, clsactObject(p.ID, hook), hook)
	}
	change := journal.Change{Object: clsactObject(p.ID, hook), Before: absent, After: present}
	if err := p.Log.Write(change); err != nil {
		return false, err
	}
	err = c.QdiscAdd(clsactOf(hook.Index))
	if errors.Is(err, unix.EEXIST) {
		// Another program made the clsact in the meantime: correct the note.
		change.Before = present
		return false, p.Log.Write(change)
	}
	if err != nil {
		return false, fmt.Errorf("add clsact: %w", err)
	}
	kinds[hook.Index] = "clsact"
	return true, nil
}

// The states of a clsact in the journal.
const (
	absent  = "absent"
	present = "present"
)

func clsactObject(netns target.NetnsID, hook Hook) string {
	return fmt.Sprintf("clsact of link %d (%s) in network namespace %d:%d", hook.Index, hook.Name, netns.Dev, netns.Ino)
}

// clsactIsOurs checks the journal, for what this injection made. It also checks the names
// of the filters, for what an injection made that may have ended before.
func clsactIsOurs(c Conn, log ChangeLog, m Mark, object string, hook Hook) (bool, error) {
	if known, ours := noted(log, object); known {
		return ours, nil
	}
	for _, direction := range []classifier.Direction{classifier.Egress, classifier.Ingress} {
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

// noted checks only the journal. ours is true from the moment we made it until we removed
// it.
func noted(log ChangeLog, object string) (known, ours bool) {
	for _, change := range slices.Backward(log.Changes()) {
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

// owned returns the filters of an injection that are of this kind.
func (k filterKind) owned(filters []netlink.Filter, m Mark) []*netlink.BpfFilter {
	return slices.DeleteFunc(owned(filters, m), func(f *netlink.BpfFilter) bool {
		return strings.TrimSuffix(f.Name, ownsClsact) != m.Filter+k.suffix
	})
}

func owned(filters []netlink.Filter, m Mark) []*netlink.BpfFilter {
	var found []*netlink.BpfFilter
	for _, filter := range filters {
		if bpf, ok := filter.(*netlink.BpfFilter); ok && m.Owns(bpf.Name) {
			found = append(found, bpf)
		}
	}
	return found
}

// Remove removes every filter of the mark in a namespace, on any link, and the clsact
// qdiscs that Squall made and no program uses. It returns an error only when something of
// ours is still attached, or may be. A filter that was already gone is no error.
func Remove(netns string, m Mark, log ChangeLog) error {
	return Exclusively(netns, func(c Conn) error {
		links, err := c.Links()
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
				errs = append(errs, cleanLink(c, link, id, m, log))
			}
		}
		return errors.Join(errs...)
	})
}

func cleanLink(c Conn, link Link, id target.NetnsID, m Mark, log ChangeLog) error {
	hook := Hook{Index: link.Index, Name: link.Name}
	ours, err := clsactIsOurs(c, log, m, clsactObject(id, hook), hook)
	if err != nil {
		return err
	}
	var errs []error
	foreign := 0
	for _, hook.Direction = range []classifier.Direction{classifier.Egress, classifier.Ingress} {
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
	return log.Write(journal.Change{Object: clsactObject(id, hook), Before: present, After: absent})
}

// deleteFilter checks whether the filter is still there, as errors are ambiguous: the
// kernel answers EINVAL for a qdisc that is gone.
func deleteFilter(c Conn, hook Hook, filter *netlink.BpfFilter) error {
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
