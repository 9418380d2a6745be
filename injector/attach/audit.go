//go:build linux

package attach

import (
	"errors"
	"fmt"
	"strings"

	"github.com/vishvananda/netlink"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/injector/classifier"
	"github.com/squall-chaos/squall/injector/target"
)

// Object is a filter or an attached program that carries Squall's mark.
type Object struct {
	Name string
	// Program is true for a program attached by tcx, false for a filter.
	Program bool
	Hook    Hook
}

// String describes the object and its place.
func (o Object) String() string {
	what := "filter"
	if o.Program {
		what = "tcx program"
	}
	return fmt.Sprintf("%s %s at %s of %s", what, o.Name, o.Hook.Direction, o.Hook.Name)
}

// UIDs returns the UIDs of the disruption and the target from a filter's name. found is
// false for a program, whose name has no room for them.
func (o Object) UIDs() (disruption, target types.UID, found bool) {
	if o.Program {
		return "", "", false
	}
	uids := strings.TrimPrefix(strings.TrimSuffix(strings.TrimSuffix(o.Name, ownsClsact), queueSuffix), filterPrefix)
	first, second, _ := strings.Cut(uids, ":")
	return types.UID(first), types.UID(second), true
}

// Of is true if an object belongs to the injection with this mark.
func (o Object) Of(m Mark) bool { return m.Owns(o.Name) || m.Program == o.Name }

// Audit lists the objects with any mark of Squall in the namespace at path.
func Audit(path string) ([]Object, error) {
	c, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	links, err := c.Links()
	if err != nil {
		return nil, err
	}
	var found []Object
	var errs []error
	for _, l := range links {
		for _, direction := range []classifier.Direction{classifier.Egress, classifier.Ingress} {
			hook := Hook{l.Index, l.Name, direction}
			filters, err := c.filters(hook)
			errs = append(errs, err)
			for _, filter := range filters {
				if bpf, ok := filter.(*netlink.BpfFilter); ok && strings.HasPrefix(bpf.Name, filterPrefix) {
					found = append(found, Object{bpf.Name, false, hook})
				}
			}
			names, err := tcxPrograms(path, hook)
			errs = append(errs, err)
			for _, name := range names {
				found = append(found, Object{name, true, hook})
			}
		}
	}
	return found, errors.Join(errs...)
}

// EmptyClsacts lists the clsacts that the log records as ours and that are empty now. A
// clsact that another program uses meanwhile belongs to that program.
func EmptyClsacts(netns target.Netns, log ChangeLog) ([]string, error) {
	c, err := Open(netns.Path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	links, err := c.Links()
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
		if _, ours := noted(log, object); !ours || kinds[link.Index] == "" {
			continue
		}
		count := 0
		for _, direction := range []classifier.Direction{classifier.Egress, classifier.Ingress} {
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
