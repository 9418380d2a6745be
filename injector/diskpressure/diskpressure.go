//go:build linux

// Package diskpressure makes a target's disk slow: it limits bytes and operations per
// second of the target's cgroup on the disk below a path. It promises to restore a previous
// limit unchanged, and never to give a target more than it had. It changes no other disks
// and no other cgroups.
package diskpressure

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/injector/target"
)

// noteV1 is a limitation of version 1 nodes, for the status.
const noteV1 = "cgroup version 1 limits reads, direct I/O and synchronous writes; writes that the kernel flushes later are not limited"

// Injector limits the disk of one target.
type Injector struct {
	params  v1beta1.DiskPressure
	target  *target.Target
	journal *journal.Journal
	finder  finder
	notes   []string

	asked       []assignment // by Inject
	throttled   []limit      // the limits that Inject has set
	first, last traffic      // at the first and last call of Prove
}

// New returns an injector that has done nothing yet.
func New(params v1beta1.DiskPressure, t *target.Target, j *journal.Journal) *Injector {
	return &Injector{params: params, target: t, journal: j, finder: finder{proc: t.ProcDir(), sys: "/sys"}}
}

// Inject sets the limits in the cgroup of every container, or of all pods of the node. All
// values are in the journal before the first is changed: with a limit in force the journal
// itself may have to wait for the disk. It checks all parameters before that. Without any
// limit it only adds a note. It returns ErrNoDisk, wrapped, if no disk of the node is below
// the path.
func (i *Injector) Inject(context.Context) error {
	i.notes = nil
	assignments, err := i.assignments()
	if err != nil {
		return err
	}
	i.asked = assignments
	if len(assignments) == 0 {
		i.note("no limit is asked for: nothing is limited")
	}
	if err := i.apply(assignments); err != nil {
		return fmt.Errorf("throttle the disk below %s: %w", i.params.Path, err)
	}
	return nil
}

// Clean restores the values in the journal, also those of an earlier process. It may be
// called twice, and skips a removed cgroup. A limit that another program changed meanwhile
// stays and is reported as a *journal.ConflictError.
func (i *Injector) Clean(context.Context) error {
	return i.journal.Restore(readLimit, writeLimit)
}

// Left lists the limits of this injection that differ from their original values.
func (i *Injector) Left(context.Context) ([]string, error) {
	return i.journal.Unrestored(readLimit)
}

// Moved finds another disk below the path than the limited one.
func (i *Injector) Moved(context.Context) (string, error) {
	now, err := i.assignments()
	if errors.Is(err, errNoPath) {
		return "", nil // there is nothing else to limit
	}
	for _, a := range now {
		if !slices.Contains(i.asked, a) {
			return fmt.Sprintf("disk %s is below %s now", a.device, i.params.Path), err
		}
	}
	return "", err
}

// Notes lists what the last Inject could not do, in sentences for the user. Nil means that
// all limits are in force.
func (i *Injector) Notes() []string { return i.notes }

// Probe returns how this node limits disks. The error is that of an injection.
func (i *Injector) Probe() (string, error) {
	dir, v2, err := throttleDir(i.target.FirstCgroups())
	if err != nil {
		return "", err
	}
	if v2 {
		return "limits disks by io.max in " + dir, nil
	}
	return "limits disks by blkio.throttle in " + dir + "; " + noteV1, nil
}

// assignments returns the limits of all cgroups of the target.
func (i *Injector) assignments() ([]assignment, error) {
	path, asked := i.params.Path, i.params.Throttling
	wanted, err := plan(asked, "", true, "")
	if err != nil || len(wanted) == 0 {
		return nil, err
	}
	if err := checkLeast(asked, i.target.Injection.Level); err != nil {
		return nil, err
	}
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("path %q: want an absolute path", path)
	}
	if i.target.Injection.Level == v1beta1.LevelNode {
		return i.nodeAssignments()
	}
	return i.podAssignments()
}

// podAssignments omits containers without the path, such as a sidecar that does not mount
// the volume, as long as one container has it.
func (i *Injector) podAssignments() ([]assignment, error) {
	var all []assignment
	var lacking []error
	for _, container := range i.target.Containers {
		assignments, err := i.containerAssignments(container)
		if err != nil {
			err = fmt.Errorf("container %s: %w", container.Name, err)
		}
		if errors.Is(err, errNoPath) {
			lacking = append(lacking, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, assignments...)
	}
	if len(lacking) == len(i.target.Containers) {
		return nil, errors.Join(lacking...)
	}
	for _, err := range lacking {
		i.note(err.Error() + "; it is not limited")
	}
	return all, nil
}

func (i *Injector) containerAssignments(container target.Container) ([]assignment, error) {
	dir, v2, err := throttleDir(container.Whole())
	if err != nil {
		return nil, err
	}
	if !v2 {
		i.note(noteV1)
	}
	disk, err := i.finder.disk(container.PID, i.params.Path)
	// The disk was found by process number: it is valid if the number is still the target's.
	if err := errors.Join(container.Check(), err); err != nil {
		return nil, err
	}
	return plan(i.params.Throttling, dir, v2, disk)
}

// nodeAssignments limits all pods of the node together, which only version 2
// can do.
func (i *Injector) nodeAssignments() ([]assignment, error) {
	dir, err := podsDir(i.target.NodeCgroups())
	if err != nil {
		return nil, err
	}
	disk, err := i.finder.disk(1, i.params.Path)
	if err != nil {
		return nil, err
	}
	i.note("all pods of the node share the limits; the kubelet and other services of the node are not limited")
	return plan(i.params.Throttling, dir, true, disk)
}

// apply records all limits and then sets them.
func (i *Injector) apply(assignments []assignment) error {
	var changes []journal.Change
	for _, a := range assignments {
		change, err := i.changeFor(a)
		if err != nil {
			return err
		}
		if change.After != change.Before {
			changes = append(changes, change)
		}
	}
	for _, change := range changes {
		if err := i.journal.Write(change); err != nil {
			return err
		}
	}
	for _, change := range changes {
		if err := i.set(change); err != nil {
			return err
		}
		l, err := parseObject(change.Object)
		if err != nil {
			return err
		}
		i.throttled = append(i.throttled, l)
	}
	return nil
}

// changeFor returns the change of an assignment: none if a stricter limit was set.
func (i *Injector) changeFor(a assignment) (journal.Change, error) {
	before, err := readLimit(a.object())
	if err != nil {
		return journal.Change{}, err
	}
	value := stricter(before, a.value)
	if value == before && before != a.value {
		i.note(fmt.Sprintf("%s was limited to %s already, which is less than %s; it is left as it is", a.object(), before, a.value))
	}
	return journal.Change{Object: a.object(), Before: before, After: value}, nil
}

// set sets a limit that is in the journal. If the kernel changes the value, it records that
// too: Clean compares with it.
func (i *Injector) set(change journal.Change) error {
	if err := writeLimit(change.Object, change.After); err != nil {
		return err
	}
	after, err := readLimit(change.Object)
	if err != nil || after == change.After {
		return err
	}
	return i.journal.Write(journal.Change{Object: change.Object, Before: change.Before, After: after})
}

// note adds a sentence once.
func (i *Injector) note(sentence string) {
	if !strings.Contains(strings.Join(i.notes, "\n"), sentence) {
		i.notes = append(i.notes, sentence)
	}
}
