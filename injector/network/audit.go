package network

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/vishvananda/netlink"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/target"
)

// object is a filter or an attached program that carries Squall's mark.
type object struct {
	name    string
	program bool
	hook    Hook
}

// String says what it is and where, in words.
func (o object) String() string {
	what := "filter"
	if o.program {
		what = "tcx program"
	}
	return fmt.Sprintf("%s %s at %s of %s", what, o.name, o.hook.Direction, o.hook.Name)
}

// Audit lists every filter and program on this node that carries Squall's mark,
// of whatever disruption and whether its injector lives or not, in all network
// namespaces that a process below proc is in. A program's name has no room for
// UIDs: whose it is, is found among the known injections. It changes nothing. It
// goes on after an error and returns what it found next to it.
func Audit(ctx context.Context, proc string, known []v1beta1.Injection) ([]v1beta1.Mark, error) {
	netnses, err := target.Netnses(proc)
	if err != nil {
		return nil, err
	}
	var marks []v1beta1.Mark
	var errs []error
	for _, netns := range netnses {
		if err := ctx.Err(); err != nil {
			return marks, errors.Join(append(errs, err)...)
		}
		objects, err := auditNetns(netns.Path)
		for _, object := range objects {
			mark := object.owner(known)
			mark.Object = fmt.Sprintf("network namespace %d: %s", netns.Ino, object)
			marks = append(marks, mark)
		}
		if !errors.Is(err, target.ErrGone) {
			errs = append(errs, err)
		}
	}
	return marks, errors.Join(errs...)
}

// owner says which injection an object is of, as far as that can be told.
func (o object) owner(known []v1beta1.Injection) v1beta1.Mark {
	owner := v1beta1.Mark{Kind: v1beta1.KindNetwork}
	if !o.program {
		uids := strings.TrimPrefix(strings.TrimSuffix(o.name, ownsClsact), filterPrefix)
		disruption, target, _ := strings.Cut(uids, ":")
		owner.Disruption.UID, owner.Target = types.UID(disruption), types.UID(target)
		return owner
	}
	for _, injection := range known {
		if injection.Kind == v1beta1.KindNetwork && markOf(injection).program == o.name {
			owner.Disruption, owner.Target = injection.Disruption, injection.Target.UID
		}
	}
	return owner
}

// Left lists what of this injection is in the target's network namespaces,
// found by looking there and not by remembering.
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
	return left, errors.Join(errs...)
}

func (i *Injector) leftIn(netns target.Netns) ([]string, error) {
	mark := markOf(i.target.Injection)
	objects, err := auditNetns(netns.Path)
	var left []string
	for _, object := range objects {
		if mark.owns(object.name) || mark.program == object.name {
			left = append(left, object.String())
		}
	}
	empty, emptyErr := i.emptyClsacts(netns)
	return append(left, empty...), errors.Join(err, emptyErr)
}

// emptyClsacts are those that the journal says we made, with nothing in them
// any more. One that somebody else uses meanwhile is theirs now.
func (i *Injector) emptyClsacts(netns target.Netns) ([]string, error) {
	c, err := openTC(netns.Path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	links, err := c.links()
	if err != nil {
		return nil, err
	}
	kinds, err := c.classifiers()
	if err != nil {
		return nil, err
	}
	var empty []string
	for _, link := range links {
		object := clsactObject(netns.NetnsID, Hook{Index: link.Index, Name: link.Name})
		if _, ours := noted(i.journal, object); !ours || kinds[link.Index] == "" {
			continue
		}
		count := 0
		for _, direction := range []Direction{Egress, Ingress} {
			filters, err := c.filters(Hook{link.Index, link.Name, direction})
			if err != nil {
				return empty, err
			}
			count += len(filters)
		}
		if count == 0 {
			empty = append(empty, object)
		}
	}
	return empty, nil
}

// auditNetns lists what carries any mark of ours in the namespace at path.
func auditNetns(path string) ([]object, error) {
	c, err := openTC(path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	links, err := c.links()
	if err != nil {
		return nil, err
	}
	var found []object
	var errs []error
	for _, l := range links {
		for _, direction := range []Direction{Egress, Ingress} {
			hook := Hook{l.Index, l.Name, direction}
			filters, err := c.filters(hook)
			errs = append(errs, err)
			for _, filter := range filters {
				if bpf, ok := filter.(*netlink.BpfFilter); ok && strings.HasPrefix(bpf.Name, filterPrefix) {
					found = append(found, object{bpf.Name, false, hook})
				}
			}
			names, err := tcxPrograms(path, hook)
			errs = append(errs, err)
			for _, name := range names {
				found = append(found, object{name, true, hook})
			}
		}
	}
	return found, errors.Join(errs...)
}
