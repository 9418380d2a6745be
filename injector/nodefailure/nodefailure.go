//go:build linux

// Package nodefailure ends a node: its kernel panics, or the machine is powered off. It
// promises to end a node only after that was reported, and never twice for the same target.
// It never ends a node whose kernel runs other nodes.
package nodefailure

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/injector/target"
)

// The commands of the magic SysRq key (Documentation/admin-guide/sysrq.rst of Linux).
const (
	crash    = "c"
	powerOff = "o"
)

// firstPIDNamespace is the inode of the process namespace in which Linux starts
// (PROC_PID_INIT_INO of include/linux/proc_ns.h). The first process of a container that
// acts as a node is in another.
const firstPIDNamespace = 0xEFFFFFFC

const processNamespace = "/proc/self/ns/pid"

// Injector ends the node of one target.
type Injector struct {
	params  v1beta1.NodeFailure
	target  *target.Target
	journal *journal.Journal
}

// New returns an injector that has done nothing yet.
func New(params v1beta1.NodeFailure, t *target.Target, j *journal.Journal) *Injector {
	return &Injector{params: params, target: t, journal: j}
}

// Inject checks whether the node can be ended, and changes nothing: the control plane must
// learn of the failure before it happens. Trigger ends the node.
func (i *Injector) Inject(context.Context) error {
	if err := i.check(); err != nil {
		return fmt.Errorf("end node %s: %w", i.target.Injection.Target.NodeName, err)
	}
	return nil
}

// Trigger ends the node. It first records that on the disk, with the name of this boot, so
// that a journal of an earlier boot proves it. It does not return when the kernel panics;
// powering off takes a moment.
func (i *Injector) Trigger() error {
	boot, err := journal.BootID()
	if err != nil {
		return err
	}
	command, becomes := crash, "crashed"
	if i.params.Shutdown {
		command, becomes = powerOff, "powered off"
	}
	change := journal.Change{Object: "node " + i.target.Injection.Target.NodeName, Before: "boot " + boot, After: becomes}
	if err := i.journal.Write(change); err != nil {
		return err
	}
	if err := press(i.target.Injection.SysrqTrigger, command); err != nil {
		return fmt.Errorf("end node %s: %w", i.target.Injection.Target.NodeName, err)
	}
	return nil
}

// Clean does nothing and is safe to call at any time: the end of a node leaves nothing to
// clean.
func (i *Injector) Clean(context.Context) error { return nil }

// Left is always empty.
func (i *Injector) Left(context.Context) ([]string, error) { return nil, nil }

// Probe checks whether this node could be ended, as far as that is known without an
// injection.
func (i *Injector) Probe() (string, error) {
	if i.target.Injection.SysrqTrigger != "" {
		return "ends the node by " + i.target.Injection.SysrqTrigger, i.check()
	}
	return "ends the node if sysrqTrigger is set", ownKernel()
}

// check refuses a node that cannot be ended, or that shares its kernel. It opens the file
// last, which changes nothing.
func (i *Injector) check() error {
	if err := ownKernel(); err != nil {
		return err
	}
	path := i.target.Injection.SysrqTrigger
	if path == "" {
		return errors.New("the injection has no path for kernel commands (sysrqTrigger)")
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("its kernel (%s) has no magic SysRq key (CONFIG_MAGIC_SYSRQ): %w", target.KernelRelease(), err)
	}
	if err != nil {
		return fmt.Errorf("its kernel takes no commands from here: %w", err)
	}
	return file.Close()
}

// ownKernel refuses a node that is a container: its kernel is that of the machine on which
// it runs, and of everything else there. A chaos pod has its node's process namespace.
func ownKernel() error {
	var namespace unix.Stat_t
	if err := unix.Stat(processNamespace, &namespace); err != nil {
		return fmt.Errorf("find out whether the node has a kernel of its own: %s: %w", processNamespace, err)
	}
	if namespace.Ino != firstPIDNamespace {
		return errors.New("the node is a container and shares its kernel with a machine, which would end too; choose a node with its own kernel")
	}
	return nil
}

// press writes one command to the kernel. The caller passes the file: this package knows
// none.
func press(trigger, command string) error {
	file, err := os.OpenFile(trigger, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteString(command)
	return err
}
