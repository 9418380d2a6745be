//go:build linux

package network

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/attach"
	"github.com/squall-chaos/squall/injector/queueing"
	"github.com/squall-chaos/squall/injector/target"
)

// Audit lists every filter and program with Squall's mark on this node: of any disruption,
// with or without a running injector. It searches all network namespaces of the processes
// below proc. A program's name has no room for UIDs, so Audit finds its disruption among
// the known injections. It changes nothing. After an error it continues, and returns what
// it found with the error.
func Audit(ctx context.Context, proc string, known []v1beta1.Injection) ([]v1beta1.Mark, error) {
	var marks []v1beta1.Mark
	err := target.EachNetns(ctx, proc, func(netns target.Netns) error {
		objects, err := attach.Audit(netns.Path)
		for _, object := range objects {
			mark := ownerOf(object, known)
			mark.Object = fmt.Sprintf("network namespace %d: %s", netns.Ino, object)
			marks = append(marks, mark)
		}
		queues, queuesErr := auditQueues(netns, known)
		for _, mark := range queues {
			mark.Object = fmt.Sprintf("network namespace %d: %s", netns.Ino, mark.Object)
			marks = append(marks, mark)
		}
		return errors.Join(err, queuesErr)
	})
	return marks, err
}

// auditQueues lists the links and tables of all injections in a namespace. Their
// names have no room for UIDs either.
func auditQueues(netns target.Netns, known []v1beta1.Injection) ([]v1beta1.Mark, error) {
	links, linksErr := queueing.Names(netns.Path)
	tables, tablesErr := delayTables(netns.Path)
	var marks []v1beta1.Mark
	add := func(what, name string, has func(attach.Mark) bool) {
		mark := v1beta1.Mark{Kind: v1beta1.KindNetwork, Object: what + " " + name}
		for _, injection := range known {
			if injection.Kind == v1beta1.KindNetwork && has(attach.MarkOf(injection)) {
				mark.Disruption, mark.Target = injection.Disruption, injection.Target.UID
			}
		}
		marks = append(marks, mark)
	}
	for _, name := range links {
		add("link", name, func(m attach.Mark) bool { return slices.Contains(queueing.NamesOf(m), name) })
	}
	for _, name := range tables {
		add("table", name, func(m attach.Mark) bool { return tableOf(m) == name })
	}
	return marks, errors.Join(linksErr, tablesErr)
}

// ownerOf returns the injection of an object, as far as the object or the known injections
// show it.
func ownerOf(o attach.Object, known []v1beta1.Injection) v1beta1.Mark {
	owner := v1beta1.Mark{Kind: v1beta1.KindNetwork}
	if disruption, target, found := o.UIDs(); found {
		owner.Disruption.UID, owner.Target = disruption, target
		return owner
	}
	for _, injection := range known {
		if injection.Kind == v1beta1.KindNetwork && attach.MarkOf(injection).Program == o.Name {
			owner.Disruption, owner.Target = injection.Disruption, injection.Target.UID
		}
	}
	return owner
}

// Left lists what of this injection is in the target's network namespaces. It searches
// there and uses no state of the process.
func (i *Injector) Left(context.Context) ([]string, error) {
	netnses, err := i.target.Netnses()
	if errors.Is(err, target.ErrGone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var left []string
	var errs []error
	for _, netns := range netnses {
		objects, err := i.leftIn(netns)
		if !errors.Is(err, target.ErrGone) {
			errs = append(errs, err)
		}
		for _, object := range objects {
			left = append(left, fmt.Sprintf("network namespace %d: %s", netns.Ino, object))
		}
	}
	for _, container := range i.target.Containers {
		attached, err := leftAtSockets(container.Cgroups.Unified, attach.MarkOf(i.target.Injection))
		errs = append(errs, err)
		if attached {
			left = append(left, fmt.Sprintf("program of cgroup %s", container.Cgroups.Unified))
		}
	}
	return left, errors.Join(errs...)
}

func leftAtSockets(dir string, m attach.Mark) (bool, error) {
	if dir == "" {
		return false, nil
	}
	return attach.InCgroup(dir, m)
}

func (i *Injector) leftIn(netns target.Netns) ([]string, error) {
	mark := attach.MarkOf(i.target.Injection)
	objects, err := attach.Audit(netns.Path)
	var left []string
	for _, object := range objects {
		if object.Of(mark) {
			left = append(left, object.String())
		}
	}
	queues, queuesErr := auditQueues(netns, []v1beta1.Injection{i.target.Injection})
	for _, queue := range queues {
		if queue.Target == i.target.Injection.Target.UID {
			left = append(left, queue.Object)
		}
	}
	empty, emptyErr := attach.EmptyClsacts(netns, i.journal)
	return append(left, empty...), errors.Join(err, queuesErr, emptyErr)
}
