//go:build linux

// Package memorypressure fills the memory of a target. A process in the target's own cgroup
// holds the difference between the target's use and the goal, and follows the target up and
// down. It promises to change no limit, and to release its memory before the target runs
// out of it. No pressure outlives the injector or the target's first process, however
// either of them ends.
package memorypressure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/child"
	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/injector/target"
)

// Injector fills the memory of one target.
type Injector struct {
	params v1beta1.MemoryPressure
	target *target.Target
	hogs   *child.Children
	notes  []string

	dirs  []string  // where hogs are
	began time.Time // the time of Inject
}

// hogs are the processes that hold memory.
var hogs = child.Family{
	Kind: v1beta1.KindMemoryPressure, Command: HogCommand, Prefix: "squall-memory-pressure=", Noun: "hog", Powerless: true,
}

// New returns an injector that has done nothing yet. The journal is not used: hogs carry a
// mark and end with the injector.
func New(params v1beta1.MemoryPressure, t *target.Target, _ *journal.Journal) *Injector {
	return &Injector{params: params, target: t, hogs: hogs.Of(t)}
}

// place is the place of one hog.
type place struct {
	name    string   // for people
	dirs    []string // to join; memory is counted in the first
	watched *os.File // the hog must not outlive this process
	levels  []level
}

// Inject starts a hog in every container that has a limit of its own, or one for those that
// share a limit, or one for the node. It returns when all of them have reached the goal or,
// with rampDuration, when all of them have begun. It checks everything before it starts the
// first. After an error some may run, and Clean ends them.
func (i *Injector) Inject(ctx context.Context) error {
	percent, err := i.params.TargetPercent.Value()
	if err != nil {
		return fmt.Errorf("targetPercent %w", err)
	}
	p := plan{percent: percent}
	if i.params.RampDuration != nil {
		p.ramp = i.params.RampDuration.Duration
	}
	places, err := i.places()
	defer func() {
		for _, place := range places {
			place.watched.Close()
		}
	}()
	if err != nil {
		return err
	}
	i.notes, i.dirs, i.began = nil, nil, time.Now()
	for _, place := range places {
		i.note(p, place)
		i.dirs = append(i.dirs, place.dirs[0])
	}
	for _, place := range places {
		if err := i.fill(ctx, p, place); err != nil {
			return fmt.Errorf("fill the memory of %s: %w", place.name, err)
		}
	}
	return nil
}

// Clean ends the hogs of this disruption on this target, also those that another process
// started, and waits until they are gone. It needs no state of Inject, may be called twice,
// and does nothing if the target is gone.
func (i *Injector) Clean(ctx context.Context) error { return i.hogs.End(ctx) }

// Left lists the running hogs of this injection, started by any process.
func (i *Injector) Left(context.Context) ([]string, error) { return i.hogs.Left() }

// Standing lists the running hogs that this injector started.
func (i *Injector) Standing(context.Context) ([]string, error) { return i.hogs.Standing(), nil }

// Notes lists the differences from the parameters at the beginning of the injection, in
// sentences for the user.
func (i *Injector) Notes() []string { return i.notes }

// Audit lists the hogs on this node, of any disruption. It reads the processes below proc.
func Audit(_ context.Context, proc string, _ []v1beta1.Injection) ([]v1beta1.Mark, error) {
	return hogs.Audit(proc)
}

// Probe returns the places of the hogs and the limit that would count. The error is that of
// an injection.
func (i *Injector) Probe() (string, error) {
	if err := i.hogs.Probe(); err != nil {
		return "", err
	}
	dirs, err := joinDirs(i.target.FirstCgroups())
	if err != nil {
		return "", err
	}
	levels, err := readLevels(dirs[0])
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("fills memory in %s, up to a share of %s", dirs[0], size(binding(levels).limit)), nil
}

// places returns the places of the hogs. The caller closes their pidfds, also after an
// error.
func (i *Injector) places() ([]place, error) {
	if i.target.Injection.Level == v1beta1.LevelNode {
		made, err := i.nodePlace()
		if err != nil {
			return nil, fmt.Errorf("fill the memory of node %s: %w", i.target.Injection.Target.Name, err)
		}
		return []place{made}, nil
	}
	var all []place
	for _, container := range i.target.Containers {
		made, err := containerPlace(container)
		if err != nil {
			return all, fmt.Errorf("fill the memory of container %s: %w", container.Name, err)
		}
		shared := slices.ContainsFunc(all, func(p place) bool { return binding(p.levels).name == binding(made.levels).name })
		if shared {
			made.watched.Close() // one hog fills the limit that both share
			continue
		}
		all = append(all, made)
	}
	return all, nil
}

func containerPlace(container target.Container) (place, error) {
	made, err := placeIn("container "+container.Name, container.Cgroups)
	if err != nil {
		return place{}, errors.Join(container.Check(), err)
	}
	made.watched, err = container.Pidfd()
	return made, err
}

// nodePlace is the cgroup of the node's first process, because the limits of the chaos
// pod's own cgroup would count otherwise.
func (i *Injector) nodePlace() (place, error) {
	made, err := placeIn("node "+i.target.Injection.Target.Name, i.target.NodeCgroups())
	if err != nil {
		return place{}, err
	}
	made.watched, err = target.Self()
	return made, err
}

func placeIn(name string, cgroups target.Cgroups) (place, error) {
	dirs, err := joinDirs(cgroups)
	if err != nil {
		return place{}, err
	}
	levels, err := readLevels(dirs[0])
	return place{name: name, dirs: dirs, levels: levels}, err
}

// joinDirs returns the cgroups that a hog joins, first the one that counts memory. In
// version 1 it joins those of processor time as well: in a chaos pod's it may get too
// little time to release memory. Version 2 has one cgroup for everything.
func joinDirs(cgroups target.Cgroups) ([]string, error) {
	dir, v2, err := cgroups.Dir("memory")
	if err != nil {
		return nil, err
	}
	dirs := []string{dir}
	for _, controller := range []string{"cpu", "cpuacct"} {
		if dir, found := cgroups.V1[controller]; found && !v2 {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

// note adds a place's differences from the parameters.
func (i *Injector) note(p plan, at place) {
	atNode := i.target.Injection.Level == v1beta1.LevelNode
	i.notes = append(i.notes, p.notes(at.name, at.dirs[0], atNode, at.levels)...)
	if swaps, err := swaps(at.dirs[0]); err == nil && swaps {
		i.notes = append(i.notes, at.name+": the node has swap, and the kernel may move there what fills the memory")
	}
	if left := time.Until(i.target.Injection.Deadline.Time); p.ramp > left {
		i.notes = append(i.notes, fmt.Sprintf("%s: the disruption is over before rampDuration (%s) is", at.name, p.ramp))
	}
}

// fill starts a hog and releases it once it is in the cgroups. At level node it has no
// priority: there it would starve the kubelet.
func (i *Injector) fill(ctx context.Context, p plan, at place) error {
	hog, err := i.hogs.Start(p.argument(at.dirs[0]), at.watched, i.target.Injection.Level == v1beta1.LevelPod)
	if err != nil {
		return err
	}
	for _, dir := range at.dirs {
		if err := i.target.Join(dir, hog.PID()); err != nil {
			return hog.Abandon(err)
		}
	}
	if err := hog.Release(ctx); err != nil {
		return hog.Abandon(err)
	}
	if p.ramp > 0 {
		return nil
	}
	if err := hog.Await(ctx); err != nil {
		return hog.Abandon(err)
	}
	return nil
}
