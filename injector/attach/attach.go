//go:build linux

// Package attach attaches BPF programs to the links of a network namespace and detaches
// them. It promises to change no foreign qdisc, filter or program. Everything it leaves
// carries the mark of its injection or is in its journal, and foreign objects never count
// as left.
package attach

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/classifier"
	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/injector/target"
)

// Point is one network namespace with what is attached there.
type Point struct {
	// Netns is the path of the namespace, ID its identity.
	Netns string
	ID    target.NetnsID
	Mark  Mark
	Log   ChangeLog

	Hooks    []Hook
	Programs Programs
	// Devices are the links to which Redirect sends the selected packets.
	Devices map[classifier.Direction]int
}

// ChangeLog is the part of the journal that this package uses; a probe passes another.
type ChangeLog interface {
	Write(journal.Change) error
	Changes() []journal.Change
}

// Mechanism attaches the programs of a point, or leaves it as it was.
type Mechanism func(Point) (Attachment, error)

// Attachment is a point's programs in force.
type Attachment interface {
	// Name is the kernel's name of the mechanism.
	Name() string
	// Extend attaches the programs to further hooks. After an error, the hooks attached so far
	// stay.
	Extend([]Hook, Programs) error
	// Replace exchanges the programs without a gap between old and new.
	Replace(Programs) error
	Detach() error
}

// Programs are the loaded programs, one for each direction.
type Programs map[classifier.Direction]*ebpf.Program

// Load loads a program for each direction into the kernel. It attaches none.
func Load(instructions map[classifier.Direction]asm.Instructions, m Mark) (Programs, error) {
	// Before Linux 5.11 programs count as locked memory. If this fails, loading shows whether
	// the limit matters.
	_ = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
	loaded := Programs{}
	for _, direction := range []classifier.Direction{classifier.Egress, classifier.Ingress} {
		wanted, found := instructions[direction]
		if !found {
			continue
		}
		program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Name: m.Program, Type: ebpf.SchedCLS, License: "MIT", Instructions: wanted,
		})
		if err != nil {
			loaded.Close()
			return nil, fmt.Errorf("load the program of %s: %w", direction, err)
		}
		loaded[direction] = program
	}
	return loaded, nil
}

// Close releases the programs. The kernel keeps those that are attached.
func (p Programs) Close() {
	for _, program := range p {
		program.Close()
	}
}
