//go:build linux

package main

import (
	"context"
	"slices"
	"time"

	"github.com/squall-chaos/squall/injector/target"
)

// The injector searches the node's processes for a container that has ended, every
// renewEvery at first and every renewAtMax at the longest. After renewSlack it reports that
// the container is not injected.
const (
	renewEvery = time.Second
	renewAtMax = 5 * time.Second
	renewSlack = 10 * time.Second
)

// The injector lists the pod's cgroup every startEvery to detect a container that starts.
// It then searches as often for the processes, for up to startTakes: a runtime makes the
// cgroup first, then the file with the container's name.
const (
	startEvery = 250 * time.Millisecond
	startTakes = 5 * time.Second
)

// starts waits for containers of a pod that may have started. The kernel's list of the
// pod's cgroups only triggers a search. The search itself finds the container and checks
// its pod.
type starts struct {
	list  func() []string
	known []string
	// soon is the time from which a container has been about to run.
	soon time.Time
}

// startsOf prepares a wait for the containers of a target of which one has just ended.
func startsOf(t *target.Target) *starts {
	return &starts{list: t.PodCgroups, known: t.PodCgroups(), soon: time.Now()}
}

// await returns after pause, when a container may have started, or when ctx is done.
func (s *starts) await(ctx context.Context, pause time.Duration) {
	if time.Since(s.soon) < startTakes {
		sleep(ctx, min(pause, startEvery))
		return
	}
	for end := time.Now().Add(pause); time.Now().Before(end) && sleep(ctx, startEvery); {
		if s.appeared() {
			s.soon = time.Now()
			return
		}
	}
}

// appeared is true if the pod has a cgroup that the previous call did not list.
func (s *starts) appeared() bool {
	before := s.known
	s.known = s.list()
	return slices.ContainsFunc(s.known, func(name string) bool { return !slices.Contains(before, name) })
}
