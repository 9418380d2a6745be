package network

import (
	"fmt"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/classifier"
	"github.com/squall-chaos/squall/injector/target"
)

// cgroupsOf finds the version 2 cgroup of each container, by which its packets
// are known.
func cgroupsOf(t *target.Target) ([]classifier.Cgroup, error) {
	var cgroups []classifier.Cgroup
	for _, container := range t.Containers {
		cgroup, err := classifier.ReadCgroup(container.Cgroups.Unified)
		if err != nil {
			return nil, fmt.Errorf("tell the packets of container %s from others: %w%s", container.Name, err, wayOut(t.Injection))
		}
		cgroups = append(cgroups, cgroup)
	}
	return cgroups, nil
}

func wayOut(injection v1beta1.Injection) string {
	if injection.Target.SomeContainers {
		return "; leave out spec.containers to disturb the whole pod, or use a node with cgroup v2"
	}
	return "; the pod uses its node's network, so choose level node, or a node with cgroup v2"
}
