//go:build linux

package diskfailure

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/child"
	"github.com/squall-chaos/squall/injector/target"
)

// The names of programs in bpftool. A program that only probes the kernel is
// attached for a moment and does not count for the limit.
const (
	programName = "squall_open"
	probeName   = "squall_probe"
)

// The number of tries of a count, and the pauses between them.
const (
	countTries = 100
	countPause = 20 * time.Millisecond
)

// programLicense is the license that the kernel requires of a program at one of these
// hooks.
const programLicense = "Dual MIT/GPL"

// hook is a place in the kernel that runs a program for each open of the node. The program
// may make it fail with any error. No open waits for a process.
type hook struct {
	kind     ebpf.ProgramType
	attach   ebpf.AttachType
	function string
}

var hooks = map[string]hook{
	byLSM: {ebpf.LSM, ebpf.AttachLSMMac, "file_open"},
	// The function that asks all security modules works also where the hook for programs is
	// off.
	byModifyReturn: {ebpf.Tracing, ebpf.AttachModifyReturn, "security_file_open"},
}

// denier is a program at a hook. Only descriptors of this process hold it: once they are
// closed, for whatever reason, no open fails any more.
type denier struct {
	loaded   *ebpf.Collection
	attached link.Link
}

// deny attaches a program with this name, for an order, to the hook. types caches the
// kernel's types.
func (h hook) deny(name string, types *btf.Cache, o order) (*denier, error) {
	j := judge{prefixes: o.Prefixes, devices: o.Devices, errno: o.Errno, percent: o.Percent}
	var err error
	if j.namespace, err = namespaceNumber(o.Namespace); err != nil {
		return nil, err
	}
	if j.layout, err = kernelLayout(types); err != nil {
		return nil, err
	}
	loaded, err := ebpf.NewCollectionWithOptions(&ebpf.CollectionSpec{
		Maps:     j.maps(),
		Programs: map[string]*ebpf.ProgramSpec{programName: h.program(name, j.program())},
	}, ebpf.CollectionOptions{Cache: types})
	if errors.Is(err, unix.EPERM) {
		err = unix.EPERM // the library adds a guess about limits that kernels with this hook do not have
	}
	if err != nil {
		return nil, fmt.Errorf("load a program for %s: %w", h.function, err)
	}
	attached, err := h.put(loaded.Programs[programName])
	if err != nil {
		loaded.Close()
		return nil, fmt.Errorf("attach a program to %s: %w", h.function, err)
	}
	return &denier{loaded, attached}, nil
}

func (h hook) program(name string, instructions asm.Instructions) *ebpf.ProgramSpec {
	return &ebpf.ProgramSpec{
		Name: name, Type: h.kind, AttachType: h.attach, AttachTo: h.function, License: programLicense, Instructions: instructions,
	}
}

func (h hook) put(program *ebpf.Program) (link.Link, error) {
	if h.kind == ebpf.LSM {
		return link.AttachLSM(link.LSMOptions{Program: program})
	}
	return link.AttachTracing(link.TracingOptions{Program: program, AttachType: h.attach})
}

// countAttached counts the programs of a type and name that are attached on this node now,
// in any process. A program that is only loaded has no link.
//
// The kernel answers EAGAIN for a link that some process makes at this moment. As the
// caller has a turn, it is foreign software, so the count is repeated.
func countAttached(kind ebpf.ProgramType, name string) (count int, err error) {
	for range countTries {
		if count, err = countLinks(kind, name); !errors.Is(err, unix.EAGAIN) {
			break
		}
		time.Sleep(countPause)
	}
	return count, err
}

func countLinks(kind ebpf.ProgramType, name string) (int, error) {
	links := &link.Iterator{}
	defer links.Close()
	count := 0
	for links.Next() {
		attached, err := links.Link.Info()
		if err != nil {
			return 0, fmt.Errorf("read link %d: %w", links.ID, err)
		}
		// Between the two calls the program may have ended with its process.
		program, err := ebpf.NewProgramFromID(attached.Program)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("open program %d of link %d: %w", attached.Program, links.ID, err)
		}
		info, err := program.Info()
		program.Close()
		if err != nil {
			return 0, fmt.Errorf("read program %d: %w", attached.Program, err)
		}
		if info.Type == kind && info.Name == name {
			count++
		}
	}
	return count, links.Err()
}

// denied is how many opens failed so far.
func (d *denier) denied() (uint64, error) {
	var counts [countsSize / 8]uint64
	if err := d.loaded.Maps[countsMap].Lookup(uint32(0), &counts); err != nil {
		return 0, fmt.Errorf("read how many opens failed: %w", err)
	}
	return counts[countDenied/8], nil
}

// close detaches the program first.
func (d *denier) close() {
	d.attached.Close()
	d.loaded.Close()
}

// hold keeps a program at the hook until the injector or the target has ended, and reports
// how many opens failed.
func (h hook) hold(o order) error {
	// The namespace was found by process number: it is the target's if its process still runs.
	if child.Ended(0) {
		return nil
	}
	d, err := h.deny(programName, btf.NewCache(), o)
	if err != nil {
		return err
	}
	defer d.close()
	if err := beginReporting(); err != nil {
		return err
	}
	for !child.Ended(beat) {
		count, err := d.denied()
		if err != nil {
			return err
		}
		writeLine(strconv.FormatUint(count, 10))
	}
	return nil
}

// errnos returns the errors that this kernel gives by the hook: all, or none. A kernel may
// accept a program and never run it. So errnos tries one, on a file in a mount namespace of
// its own.
func (h hook) errnos(types *btf.Cache) ([]string, error) {
	err := target.OnThrowawayThread(func() error {
		made, err := openStage(listeners.Prefix + "probe")
		if err != nil {
			return err
		}
		defer unix.Close(made)
		const name = "file"
		if err := unix.Mknodat(made, name, unix.S_IFREG|0o600, 0); err != nil {
			return err
		}
		namespace, err := os.Readlink(target.DefaultProc + "/thread-self/ns/mnt")
		if err != nil {
			return err
		}
		var stat unix.Stat_t
		if err := unix.Fstat(made, &stat); err != nil {
			return err
		}
		d, err := h.deny(probeName, types, order{
			Namespace: namespace, Devices: []uint32{deviceNumber(unix.Major(stat.Dev), unix.Minor(stat.Dev))},
			Prefixes: []string{stage + "/" + name}, Errno: unix.EDQUOT, Percent: 100,
		})
		if err != nil {
			return err
		}
		defer d.close()
		fd, err := unix.Openat(made, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			unix.Close(fd)
			return fmt.Errorf("the kernel takes a program for %s and does not ask it (bpf in lsm=)", h.function)
		}
		if !errors.Is(err, unix.EDQUOT) {
			return fmt.Errorf("a program for %s makes opens end with %w", h.function, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(errnos)), nil
}

// namespaceNumber reads the name of a namespace, such as "mnt:[4026531841]".
func namespaceNumber(name string) (uint32, error) {
	var number uint32
	if _, err := fmt.Sscanf(name, "mnt:[%d]", &number); err != nil {
		return 0, fmt.Errorf("read the name %q of a mount namespace: %w", name, err)
	}
	return number, nil
}

// deviceNumber returns the kernel's encoding of a device number.
func deviceNumber(major, minor uint32) uint32 { return major<<20 | minor }
