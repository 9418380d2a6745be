//go:build linux

package network

import (
	"fmt"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/classifier"
	"github.com/squall-chaos/squall/injector/target"
)

// cgroupsOf finds the version 2 cgroup of each container, which identifies its packets.
func cgroupsOf(t *target.Target) ([]string, error) {
	var dirs []string
	for _, container := range t.Containers {
		dir := container.Whole().Unified
		if err := classifier.CheckCgroup(dir); err != nil {
			return nil, fmt.Errorf("select the packets of container %s: %w %s%s", container.Name, err, container.Cgroups.Problem, wayOut(t.Injection))
		}
		dirs = append(dirs, dir)
	}
	return dirs, nil
}

func wayOut(injection v1beta1.Injection) string {
	if injection.Target.SomeContainers {
		return "; leave out spec.containers to disrupt the whole pod, or use a node with cgroup v2"
	}
	return "; the pod uses its node's network, so choose level node, or a node with cgroup v2"
}
