package main

import (
	"fmt"
	"strings"
)

// mayBeSkipped are the only tests that a run may skip, and why. Everything
// else that is skipped makes its stage fail: a machine that cannot run a test
// shows nothing about what the test is for.
var mayBeSkipped = map[string]string{
	"injector/diskpressure: TestNodeLevelLimitsAllPodsTogether": "needs a machine with cgroup v2 alone, and without pods",
	"injector: TestAClockThatIsSetEndsAnInjection":              "sets the machine's clock: in virtual machines alone",
	"test/e2e: TestNodeFailureEndsTheNode":                      "needs a node with a kernel of its own: make test-long PART=v2node",
	"test/e2e: TestNodeFailureEndsWithoutTheNode":               "needs a node with a kernel of its own: make test-long PART=v2node",
}

// kernelsLack is what tests may be skipped for on the kernels that are run in
// virtual machines, and on the machine's own, which has no name, by the beginning of the
// reason that the test gives.
var kernelsLack = map[string]map[string]string{
	"": {
		"needs a kernel that takes BPF programs which decide about opens": "it refuses programs that need a trampoline; tested in QEMU, where it may not be skipped",
	},
	"uml": {
		noTCX:                           "Linux 6.1 attaches by cls_bpf; tcx is tested on the kernel of the machine",
		"is about cgroups of version 1": "the kernel has version 2 alone; version 1 is tested on the kernel of the machine",
		"needs more processors":         "User-Mode Linux has one",
	},
	"qemu": {
		noTCX:                           "Linux 6.1 attaches by cls_bpf; tcx is tested on the kernel of the machine",
		"is about cgroups of version 1": "the kernel has version 2 alone; version 1 is tested on the kernel of the machine",
		"needs more processors":         "the virtual computer has one",
	},
}

const noTCX = "needs a kernel that attaches programs in this way: tcx"

// allowed says why a test may be skipped; empty if it may not.
func (s skip) allowed() string {
	if why := mayBeSkipped[s.test]; why != "" {
		return why
	}
	name, _, _ := strings.Cut(s.test, ": ")
	_, kernel, _ := strings.Cut(name, "@")
	for reason, why := range kernelsLack[kernel] {
		if strings.HasPrefix(s.reason, reason) {
			return why
		}
	}
	return ""
}

// skip is a test that was skipped, and what it said.
type skip struct{ test, reason string }

func (s skip) String() string { return s.test + ": " + s.reason }

// verdict returns an error if tests were skipped that may not be, or fewer
// than least passed.
func (c *counts) verdict(least int) error {
	var refused []string
	for _, s := range c.skipped {
		if s.allowed() == "" {
			refused = append(refused, s.String())
		}
	}
	switch {
	case len(refused) > 0:
		return fmt.Errorf("skipped without being on the list in hack/suite/skips.go: %s", strings.Join(refused, "; "))
	case c.passed < least:
		return fmt.Errorf("%d tests passed, and at least %d must: some are gone, or did not run", c.passed, least)
	}
	return nil
}
