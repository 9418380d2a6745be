package network

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/target"
)

// tcxLinks are programs attached by BPF links that no file pins: the kernel
// takes them off when the last descriptor closes, at the latest when this
// process dies of whatever. Linux 6.6.
type tcxLinks []tcxLink

type tcxLink struct {
	link.Link
	hook Hook
}

// attachTCX puts the programs before all others on their hooks, or changes nothing.
func attachTCX(p place) (attachment, error) {
	var links tcxLinks
	err := target.Do(p.netns, func() error {
		for _, hook := range p.hooks {
			attached, err := link.AttachTCX(link.TCXOptions{
				Interface: hook.Index,
				Program:   p.programs[hook.Direction],
				Attach:    tcxAttachType(hook.Direction),
				Anchor:    link.Head(),
			})
			if errors.Is(err, unix.ENODEV) {
				continue // the link went away meanwhile
			}
			if err != nil {
				return fmt.Errorf("attach to %s of %s: %w", hook.Direction, hook.Name, err)
			}
			links = append(links, tcxLink{attached, hook})
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, links.detach())
	}
	return links, nil
}

func (l tcxLinks) name() string { return "tcx" }

// replace exchanges the programs, one hook after the other, each at once.
func (l tcxLinks) replace(programs programs) error {
	var errs []error
	for _, attached := range l {
		err := attached.Update(programs[attached.hook.Direction])
		// ENOLINK: the network interface is gone, and the program with it.
		if err != nil && !errors.Is(err, unix.ENOLINK) {
			errs = append(errs, fmt.Errorf("replace the program at %s of %s: %w", attached.hook.Direction, attached.hook.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (l tcxLinks) detach() error {
	var errs []error
	for _, attached := range l {
		if err := attached.Close(); err != nil {
			errs = append(errs, fmt.Errorf("detach from %s of %s: %w", attached.hook.Direction, attached.hook.Name, err))
		}
	}
	return errors.Join(errs...)
}

func tcxAttachType(direction Direction) ebpf.AttachType {
	if direction == Ingress {
		return ebpf.AttachTCXIngress
	}
	return ebpf.AttachTCXEgress
}
