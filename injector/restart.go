//go:build linux

package main

import (
	"context"
	"slices"
	"time"

	"github.com/squall-chaos/squall/injector/target"
)

// How often a container that has ended is looked for again among the processes of
// its node, more rarely the longer it is away, and from when on it is told that
// nothing is injected in it.
const (
	renewEvery = time.Second
	renewAtMax = 5 * time.Second
	renewSlack = 10 * time.Second
)

// How often the pod's cgroup is looked at for that of a container which starts, and
// for how long its processes are looked for as often: a runtime makes the cgroup
// first, then what tells the container's name.
const (
	startEvery = 250 * time.Millisecond
	startTakes = 5 * time.Second
)

// starts waits for containers of a pod that may have started. The kernel's list of
// the pod's cgroups only says when to look: which container it is, and whether it is
// the pod's, is asked anew.
type starts struct {
	list  func() []string
	known []string
	// soon is since when a container has been about to run.
	soon time.Time
}

// startsOf waits for those of a target of which one has just ended.
func startsOf(t *target.Target) *starts {
	return &starts{list: t.PodCgroups, known: t.PodCgroups(), soon: time.Now()}
}

// await returns after pause, and before that when a container may have started, or
// when ctx is done.
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

// appeared tells whether the pod has a cgroup that it had not when it was asked last.
func (s *starts) appeared() bool {
	before := s.known
	s.known = s.list()
	return slices.ContainsFunc(s.known, func(name string) bool { return !slices.Contains(before, name) })
}
