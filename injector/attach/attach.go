//go:build linux

// Package attach puts BPF programs on the links of a network namespace and takes
// them off again. It promises that no qdisc, filter or program of anybody else is
// changed, that whatever it leaves carries the mark of its injection or stands in
// its journal, and that what is of somebody else never counts as left.
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

// Point is one network namespace and what is to be put there.
type Point struct {
	// Netns is the path of the namespace, ID what tells it from others.
	Netns string
	ID    target.NetnsID
	Mark  Mark
	Log   ChangeLog

	Hooks    []Hook
	Programs Programs
	// Devices are the links to which Redirect sends what the programs select.
	Devices map[classifier.Direction]int
}

// ChangeLog is the part of the journal that is used here; a probe has another.
type ChangeLog interface {
	Write(journal.Change) error
	Changes() []journal.Change
}

// Mechanism attaches the programs of a point, or leaves it as it was.
type Mechanism func(Point) (Attachment, error)

// Attachment is a point's programs in force.
type Attachment interface {
	// Name is the kernel's word for the mechanism.
	Name() string
	// Extend attaches the programs to further hooks. What it attached before an
	// error stays.
	Extend([]Hook, Programs) error
	// Replace exchanges the programs without a moment between old and new.
	Replace(Programs) error
	Detach() error
}

// Programs are those in the kernel, one for each direction.
type Programs map[classifier.Direction]*ebpf.Program

// Load puts a program for each direction into the kernel. It attaches none.
func Load(instructions map[classifier.Direction]asm.Instructions, m Mark) (Programs, error) {
	// Before Linux 5.11 programs count as locked memory. If the limit cannot
	// be lifted, loading tells whether it was needed.
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

// Close gives the programs back to the kernel, which keeps those that are
// attached.
func (p Programs) Close() {
	for _, program := range p {
		program.Close()
	}
}
