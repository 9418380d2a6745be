//go:build linux

// Package target finds the parts of the target of an injection: the first process of each
// container, its network namespace and its cgroups. It promises that no kind needs to know
// a path below /proc. A process with the reused number of another is never taken for the
// target.
package target

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// DefaultProc is the directory of the node's processes. A chaos pod has it because it
// shares the node's process namespace.
const DefaultProc = "/proc"

// ErrGone means that a container, or its first process, does not exist any more. Its
// changes are gone too, except those of the network namespace, which the pod shares. Test
// it with errors.Is.
var ErrGone = errors.New("target is gone")

// Target is the target of one injection.
type Target struct {
	Injection v1beta1.Injection
	// Containers are the containers to disrupt, in the injection's order. Empty at node level
	// (rule 53).
	Containers []Container
	// Away has the containers that ended without a successor, while others run.
	Away []Container
	// Proc is the directory of processes. Empty means DefaultProc.
	Proc string
}

// Container is one running container. The journal stores it unchanged, so that a later
// process can check whether it is still the same one.
type Container struct {
	Name string `json:"name"`
	ID   string `json:"id"`
	// PID is the first process as this process sees it, 0 when it is gone.
	PID int `json:"pid"`
	// StartTime is when the first process started, in clock ticks since boot.
	StartTime uint64  `json:"startTime"`
	Netns     Netns   `json:"netns"`
	Cgroups   Cgroups `json:"cgroups"`

	proc string
	// pod is the name of the cgroup that holds those of the pod's containers.
	pod string
}

// Load finds the containers of an injection among the processes below proc, which is
// DefaultProc when empty. A container that has ended is replaced by the one that was
// started after it; without one it is away. Load returns ErrGone, wrapped, if all are away.
// It refuses a container that the node keeps in another pod's cgroup: its ID comes from the
// pod's status, which other users may write. At node level it loads no container.
func Load(ctx context.Context, injection v1beta1.Injection, proc string) (*Target, error) {
	t := &Target{Injection: injection, Proc: proc}
	if injection.Level == v1beta1.LevelNode {
		return t, nil
	}
	t.Injection.Target.Containers = nil
	var gone error
	for _, wanted := range injection.Target.Containers {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		container, err := loadContainer(t.ProcDir(), wanted)
		if errors.Is(err, ErrGone) && len(injection.OnInit) == 0 {
			container, err = startedAgain(t.ProcDir(), wanted, injection.Target.UID)
		}
		if err != nil {
			err = fmt.Errorf("find container %s (%s) of pod %s/%s: %w",
				wanted.Name, wanted.ID, injection.Target.Namespace, injection.Target.Name, err)
		}
		if errors.Is(err, ErrGone) {
			t.Away, gone = append(t.Away, container), err
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := container.checkPod(injection.Target.UID); err != nil {
			return nil, fmt.Errorf("container %s (%s) of pod %s/%s: %w",
				wanted.Name, wanted.ID, injection.Target.Namespace, injection.Target.Name, err)
		}
		t.Containers = append(t.Containers, container)
		t.Injection.Target.Containers = append(t.Injection.Target.Containers, v1beta1.InjectionContainer{Name: container.Name, ID: container.ID})
	}
	if len(t.Containers) == 0 && gone != nil {
		return nil, gone
	}
	return t, t.loadSandbox()
}

// Recover makes the target of an earlier process from the containers in its journal. A
// container that is gone keeps its name, ID and cgroup directories and has PID 0. Its Netns
// is kept, with a path through another process, while any process is in it, and is zero
// otherwise.
func Recover(injection v1beta1.Injection, recorded []Container, proc string) (*Target, error) {
	t := &Target{Injection: injection, Proc: proc}
	for _, container := range recorded {
		container.proc = t.ProcDir()
		err := container.Check()
		switch {
		case errors.Is(err, ErrGone):
			container.PID = 0
			if container.Netns, err = currentNetns(t.ProcDir(), container.Netns); err != nil {
				return nil, err
			}
		case err != nil:
			return nil, err
		}
		t.Containers = append(t.Containers, container)
	}
	return t, nil
}

// Gone is true once the kernel has removed all of a pod's containers and with them the
// changes: no first process, no network namespace and no cgroup is left. A node is never
// gone.
func (t *Target) Gone() (bool, error) {
	if t.Injection.Level == v1beta1.LevelNode {
		return false, nil
	}
	now, err := Recover(t.Injection, t.Containers, t.Proc)
	if err != nil {
		return false, err
	}
	for _, container := range now.Containers {
		if container.PID != 0 || container.Netns.Path != "" || container.Cgroups.remain(container.ID) {
			return false, nil
		}
	}
	return true, nil
}

// Netnses lists the target's network namespaces, each once: the node's own at node level,
// else the pod's, which its containers normally share. The paths are valid now: a path
// through a process that has ended is replaced by one through another process in the same
// namespace. It returns ErrGone, wrapped, if no process is in any of them.
func (t *Target) Netnses() ([]Netns, error) {
	if t.Injection.Level == v1beta1.LevelNode {
		netns, err := t.NodeNetns()
		if err != nil {
			return nil, fmt.Errorf("find the network namespace of node %s: %w", t.Injection.Target.Name, err)
		}
		return []Netns{netns}, nil
	}
	var found []Netns
	seen := map[NetnsID]bool{}
	for _, container := range t.Containers {
		if seen[container.Netns.NetnsID] {
			continue
		}
		seen[container.Netns.NetnsID] = true
		netns, err := currentNetns(t.ProcDir(), container.Netns)
		if err != nil {
			return nil, err
		}
		if netns.Path != "" {
			found = append(found, netns)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("network namespace of pod %s/%s: %w",
			t.Injection.Target.Namespace, t.Injection.Target.Name, ErrGone)
	}
	return found, nil
}

// NodeCgroups returns the cgroups of the node's first process, normally the roots.
func (t *Target) NodeCgroups() Cgroups { return cgroupsOf(t.ProcDir(), 1) }

// FirstCgroups returns the cgroups of the first container, or of the node if the target is
// one. A probe checks these.
func (t *Target) FirstCgroups() Cgroups {
	if len(t.Containers) > 0 {
		return t.Containers[0].Cgroups
	}
	return t.NodeCgroups()
}

// NodeNetns returns the network namespace of the node's first process.
func (t *Target) NodeNetns() (Netns, error) { return netnsOf(t.ProcDir(), 1) }

// SharesNodeNetwork is true if a network namespace of the target is the node's own. It
// checks two signs, as each may be missing: the addresses may not be known yet, and the
// node's first process may be protected.
func (t *Target) SharesNodeNetwork(id NetnsID) (bool, error) {
	node, err := t.NodeNetns()
	if err == nil && node.NetnsID == id {
		return true, nil
	}
	podIPs, err := parseAddresses("pod "+t.Injection.Target.Name, t.Injection.Target.PodIPs)
	if err != nil {
		return false, err
	}
	nodeIPs, err := parseAddresses("node "+t.Injection.Target.NodeName, t.Injection.Target.NodeIPs)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(podIPs, func(a netip.Addr) bool { return slices.Contains(nodeIPs, a) }), nil
}

func parseAddresses(of string, texts []string) ([]netip.Addr, error) {
	var addresses []netip.Addr
	for _, text := range texts {
		address, err := netip.ParseAddr(text)
		if err != nil {
			return nil, fmt.Errorf("%s: address %q: want an IPv4 or IPv6 address", of, text)
		}
		addresses = append(addresses, address.Unmap())
	}
	return addresses, nil
}

// NodeNetnsPath is the path to the namespace of NodeNetns, readable or not.
func (t *Target) NodeNetnsPath() string { return filepath.Join(t.ProcDir(), "1/ns/net") }

// NodeRoot is the path to the node's own files.
func (t *Target) NodeRoot() string { return filepath.Join(t.ProcDir(), "1/root") }

// ProcDir is the directory of processes.
func (t *Target) ProcDir() string { return procOrDefault(t.Proc) }

func procOrDefault(proc string) string {
	if proc == "" {
		return DefaultProc
	}
	return proc
}
