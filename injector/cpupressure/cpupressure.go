//go:build linux

// Package cpupressure takes CPU time away from a target: it burns it in processes in the
// target's own cgroup, so that the target's quota, weight and CPUs apply to target and
// pressure together. It promises that no pressure outlives the injector or the target's
// first process, however either of them ends.
package cpupressure

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/child"
	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/injector/target"
)

// Injector burns CPU time in one target.
type Injector struct {
	params  v1beta1.CPUPressure
	target  *target.Target
	burners *child.Children
	proc    string
	used    use // at the last call of Prove
}

// burners are the processes that burn.
var burners = child.Family{
	Kind: v1beta1.KindCPUPressure, Command: BurnCommand, Prefix: "squall-cpu-pressure=", Noun: "burner", Powerless: true,
}

// New returns an injector that has done nothing yet. The journal is not used: burners carry
// a mark and end with the injector.
func New(params v1beta1.CPUPressure, t *target.Target, _ *journal.Journal) *Injector {
	return &Injector{params: params, target: t, burners: burners.Of(t), proc: t.ProcDir()}
}

// Inject starts one burner per container, or one for the whole node, and
// returns when all of them burn. After an error some may; Clean ends them.
func (i *Injector) Inject(ctx context.Context) error {
	load, err := loadOf(i.params.Count)
	if err != nil {
		return err
	}
	if i.target.Injection.Level == v1beta1.LevelNode {
		if err := i.burnNode(ctx, load); err != nil {
			return fmt.Errorf("burn CPU of node %s: %w", i.target.Injection.Target.Name, err)
		}
		return nil
	}
	for _, container := range i.target.Containers {
		if err := i.burnContainer(ctx, container, load); err != nil {
			return fmt.Errorf("burn CPU in container %s: %w", container.Name, err)
		}
	}
	return nil
}

// Clean ends the burners of this disruption on this target, also those that another process
// started, and waits until they are gone. It needs no state of Inject, may be called twice,
// and does nothing if the target is gone.
func (i *Injector) Clean(ctx context.Context) error { return i.burners.End(ctx) }

// Left lists the running burners of this injection, started by any process.
func (i *Injector) Left(context.Context) ([]string, error) { return i.burners.Left() }

// Standing lists the running burners that this injector started.
func (i *Injector) Standing(context.Context) ([]string, error) { return i.burners.Standing(), nil }

// Audit lists the burners on this node, of any disruption. It reads the processes below
// proc.
func Audit(_ context.Context, proc string, _ []v1beta1.Injection) ([]v1beta1.Mark, error) {
	return burners.Audit(proc)
}

// Probe returns the cgroups the burners would join. The error is that of an injection.
func (i *Injector) Probe() (string, error) {
	if err := i.burners.Probe(); err != nil {
		return "", err
	}
	dirs, err := joinDirs(i.target.FirstCgroups())
	if err != nil {
		return "", err
	}
	return "burns CPU time in " + strings.Join(dirs, ", "), nil
}

func (i *Injector) burnContainer(ctx context.Context, container target.Container, load load) error {
	dirs, err := joinDirs(container.Cgroups)
	if err != nil {
		return err
	}
	first, err := container.Pidfd()
	if err != nil {
		return err
	}
	defer first.Close()
	return i.burn(ctx, first, dirs, load, true)
}

// burnNode burns in the cgroup of the node's first process, because the limits of the chaos
// pod's own cgroup would apply otherwise. It sets no priority: that would starve the
// kubelet and the injector that has to end this.
func (i *Injector) burnNode(ctx context.Context, load load) error {
	dirs, err := joinDirs(i.target.NodeCgroups())
	if err != nil {
		return err
	}
	self, err := target.Self()
	if err != nil {
		return err
	}
	defer self.Close()
	return i.burn(ctx, self, dirs, load, false)
}

// burn starts a burner that ends with the watched process, and releases it once it is in
// the cgroups.
func (i *Injector) burn(ctx context.Context, watched *os.File, dirs []string, load load, urgent bool) error {
	burner, err := i.burners.Start(load.String(), watched, urgent)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := i.target.Join(dir, burner.PID()); err != nil {
			return burner.Abandon(err)
		}
	}
	if err := burner.Release(ctx); err != nil {
		return burner.Abandon(err)
	}
	return nil
}

// joinDirs returns the cgroups that confine CPU time and nothing else. In version 1 the
// burner stays out of memory, freezer, pids and devices; version 2 has one cgroup for
// everything.
func joinDirs(cgroups target.Cgroups) ([]string, error) {
	dir, v2, err := cgroups.Dir("cpu")
	if err != nil {
		return nil, err
	}
	dirs := []string{dir}
	for _, controller := range []string{"cpuacct", "cpuset"} {
		if dir, found := cgroups.V1[controller]; found && !v2 && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}
