//go:build linux

package attach

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/classifier"
	"github.com/squall-chaos/squall/injector/target"
)

// tcxLinks are programs attached by BPF links that no file pins. The kernel detaches them
// when the last descriptor closes, at the latest when this process dies. Linux 6.6.
type tcxLinks struct {
	netns string
	links []tcxLink
}

type tcxLink struct {
	link.Link
	hook Hook
}

// TCX attaches the programs ahead of all others on their hooks, or changes nothing.
func TCX(p Point) (Attachment, error) {
	attached := &tcxLinks{netns: p.Netns}
	if err := attached.Extend(p.Hooks, p.Programs); err != nil {
		return nil, errors.Join(err, attached.Detach())
	}
	return attached, nil
}

func (l *tcxLinks) Name() string { return "tcx" }

// Extend attaches the programs to further hooks, up to the first error.
func (l *tcxLinks) Extend(hooks []Hook, programs Programs) error {
	return target.Do(l.netns, func() error {
		for _, hook := range hooks {
			attached, err := link.AttachTCX(link.TCXOptions{
				Interface: hook.Index,
				Program:   programs[hook.Direction],
				Attach:    tcxAttachType(hook.Direction),
				Anchor:    link.Head(),
			})
			if errors.Is(err, unix.ENODEV) {
				continue // the link was removed meanwhile
			}
			if err != nil {
				return fmt.Errorf("attach to %s of %s: %w", hook.Direction, hook.Name, err)
			}
			l.links = append(l.links, tcxLink{attached, hook})
		}
		return nil
	})
}

// Replace exchanges the programs, one hook after the other, each without a gap.
func (l *tcxLinks) Replace(programs Programs) error {
	var errs []error
	for _, attached := range l.links {
		err := attached.Update(programs[attached.hook.Direction])
		// ENOLINK: the network interface is gone, and the program with it.
		if err != nil && !errors.Is(err, unix.ENOLINK) {
			errs = append(errs, fmt.Errorf("replace the program at %s of %s: %w", attached.hook.Direction, attached.hook.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (l *tcxLinks) Detach() error {
	var errs []error
	for _, attached := range l.links {
		if err := attached.Close(); err != nil {
			errs = append(errs, fmt.Errorf("detach from %s of %s: %w", attached.hook.Direction, attached.hook.Name, err))
		}
	}
	return errors.Join(errs...)
}

func tcxAttachType(direction classifier.Direction) ebpf.AttachType {
	if direction == classifier.Ingress {
		return ebpf.AttachTCXIngress
	}
	return ebpf.AttachTCXEgress
}

// tcxPrograms lists the names of our programs at a hook.
func tcxPrograms(netns string, hook Hook) ([]string, error) {
	var names []string
	err := target.Do(netns, func() error {
		result, err := link.QueryPrograms(link.QueryOptions{Target: hook.Index, Attach: tcxAttachType(hook.Direction)})
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENODEV) || errors.Is(err, ebpf.ErrNotSupported) {
			return nil // this kernel has no tcx, or the link is gone
		}
		if err != nil {
			return fmt.Errorf("list tcx programs at %s of %s: %w", hook.Direction, hook.Name, err)
		}
		for _, attached := range result.Programs {
			name, err := programName(attached.ID)
			if err != nil {
				return fmt.Errorf("look at program %d at %s of %s: %w", attached.ID, hook.Direction, hook.Name, err)
			}
			if IsProgram(name) {
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
