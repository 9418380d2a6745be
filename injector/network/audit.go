package network

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/target"
)

// Audit lists every filter and program on this node that carries Squall's mark,
// of whatever disruption and whether its injector lives or not, in all network
// namespaces that a process below proc is in. It changes nothing. It goes on
// after an error and returns what it found next to it.
func Audit(ctx context.Context, proc string) ([]string, error) {
	netnses, err := target.Netnses(proc)
	if err != nil {
		return nil, err
	}
	var found []string
	var errs []error
	for _, netns := range netnses {
		if err := ctx.Err(); err != nil {
			return found, errors.Join(append(errs, err)...)
		}
		objects, err := AuditNetns(netns.Path)
		for _, object := range objects {
			found = append(found, fmt.Sprintf("network namespace %d: %s", netns.Ino, object))
		}
		if !errors.Is(err, target.ErrGone) {
			errs = append(errs, err)
		}
	}
	return found, errors.Join(errs...)
}

// AuditNetns is Audit for the one network namespace at path.
func AuditNetns(path string) ([]string, error) {
	c, err := openTC(path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	links, err := c.links()
	if err != nil {
		return nil, err
	}
	var found []string
	var errs []error
	for _, l := range links {
		for _, direction := range []Direction{Egress, Ingress} {
			hook := Hook{l.Index, l.Name, direction}
			filters, err := c.filters(hook)
			errs = append(errs, err)
			for _, filter := range filters {
				if bpf, ok := filter.(*netlink.BpfFilter); ok && strings.HasPrefix(bpf.Name, filterPrefix) {
					found = append(found, fmt.Sprintf("filter %s at %s of %s", bpf.Name, direction, l.Name))
				}
			}
			names, err := tcxPrograms(path, hook)
			errs = append(errs, err)
			for _, name := range names {
				found = append(found, fmt.Sprintf("tcx program %s at %s of %s", name, direction, l.Name))
			}
		}
	}
	return found, errors.Join(errs...)
}

// tcxPrograms lists the names of our programs at a hook.
func tcxPrograms(netns string, hook Hook) ([]string, error) {
	var names []string
	err := target.Do(netns, func() error {
		result, err := link.QueryPrograms(link.QueryOptions{Target: hook.Index, Attach: tcxAttachType(hook.Direction)})
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENODEV) || errors.Is(err, ebpf.ErrNotSupported) {
			return nil // no tcx in this kernel, or no link any more
		}
		if err != nil {
			return fmt.Errorf("list tcx programs at %s of %s: %w", hook.Direction, hook.Name, err)
		}
		for _, attached := range result.Programs {
			name, err := programName(attached.ID)
			if err != nil {
				return fmt.Errorf("look at program %d at %s of %s: %w", attached.ID, hook.Direction, hook.Name, err)
			}
			if strings.HasPrefix(name, programPrefix) {
				names = append(names, name)
			}
		}
		return nil
	})
	return names, err
}

func programName(id ebpf.ProgramID) (string, error) {
	program, err := ebpf.NewProgramFromID(id)
	if isGone(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer program.Close()
	info, err := program.Info()
	if err != nil {
		return "", err
	}
	return info.Name, nil
}
