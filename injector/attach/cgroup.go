//go:build linux

package attach

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// LoadAtSockets loads a program for arriving packets that can be attached to cgroups. It
// attaches none.
func LoadAtSockets(instructions asm.Instructions, m Mark) (*ebpf.Program, error) {
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: m.Program, Type: ebpf.CGroupSKB, AttachType: ebpf.AttachCGroupInetIngress, License: "MIT", Instructions: instructions,
	})
	if err != nil {
		return nil, fmt.Errorf("load the program of ingress for cgroups: %w", err)
	}
	return program, nil
}

// CgroupLinks are programs attached to cgroups by BPF links that no file pins,
// so that they end with this process. Linux 5.7.
type CgroupLinks []*link.RawLink

// Cgroups attaches a program to arriving packets of the sockets in cgroups, beside other
// programs there, or changes nothing.
func Cgroups(dirs []string, program *ebpf.Program) (CgroupLinks, error) {
	var links CgroupLinks
	for _, dir := range dirs {
		attached, err := attachCgroup(dir, program)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("attach to arriving packets of cgroup %s: %w", dir, err), links.Detach())
		}
		links = append(links, attached)
	}
	return links, nil
}

func attachCgroup(dir string, program *ebpf.Program) (*link.RawLink, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	// The library's AttachCgroup attaches on an older kernel in a way that outlives the
	// injector.
	return link.AttachRawLink(link.RawLinkOptions{Target: fd, Program: program, Attach: ebpf.AttachCGroupInetIngress})
}

// Replace exchanges the program, one cgroup after the other, each without a gap.
func (l CgroupLinks) Replace(program *ebpf.Program) error {
	var errs []error
	for _, attached := range l {
		if err := attached.Update(program); err != nil && !errors.Is(err, unix.ENOLINK) {
			errs = append(errs, fmt.Errorf("replace the program of a cgroup: %w", err))
		}
	}
	return errors.Join(errs...)
}

// Detach detaches the programs. A removed cgroup has no program any more.
func (l CgroupLinks) Detach() error {
	var errs []error
	for _, attached := range l {
		if err := attached.Close(); err != nil {
			errs = append(errs, fmt.Errorf("detach from a cgroup: %w", err))
		}
	}
	return errors.Join(errs...)
}

// InCgroup is true if a program of the mark is attached to a cgroup. It is false for a
// removed cgroup.
func InCgroup(dir string, m Mark) (bool, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if isGone(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("open cgroup %s: %w", dir, err)
	}
	defer unix.Close(fd)
	result, err := link.QueryPrograms(link.QueryOptions{Target: fd, Attach: ebpf.AttachCGroupInetIngress})
	if err != nil {
		return false, fmt.Errorf("list the programs of cgroup %s: %w", dir, err)
	}
	var errs []error
	found := slices.ContainsFunc(result.Programs, func(p link.AttachedProgram) bool {
		name, err := programName(p.ID)
		errs = append(errs, err)
		return name == m.Program
	})
	return found, errors.Join(errs...)
}
