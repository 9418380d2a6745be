package main

import (
	"fmt"
	"os"
	"path/filepath"
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
		noTCX:                   "Linux 6.1 attaches by cls_bpf; tcx is tested on the kernel of the machine",
		onlyVersion1:            "the kernel has version 2 alone; version 1 is tested on the kernel of the machine",
		"needs more processors": "User-Mode Linux has one",
	},
	"qemu": {
		noTCX:                   "Linux 6.1 attaches by cls_bpf; tcx is tested on the kernel of the machine",
		onlyVersion1:            "the kernel has version 2 alone; version 1 is tested on the kernel of the machine",
		"needs more processors": "the virtual computer has one",
	},
}

const (
	noTCX        = "needs a kernel that attaches programs in this way: tcx"
	onlyVersion1 = "is about cgroups of version 1"
)

// cgroupRoot is where the machine's cgroups are mounted.
const cgroupRoot = "/sys/fs/cgroup"

// version2Alone reports whether version 2 is what is mounted at root: beside version 1
// it is further below.
func version2Alone(root string) bool {
	_, err := os.Stat(filepath.Join(root, "cgroup.controllers"))
	return err == nil
}

// allowed returns why a test may be skipped; empty if it may not.
func (s skip) allowed() string { return s.allowedWith(version2Alone(cgroupRoot)) }

// allowedWith is allowed on a machine that has cgroups of version 2 alone, or not.
func (s skip) allowedWith(version2Alone bool) string {
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
	if kernel == "" && version2Alone && strings.HasPrefix(s.reason, onlyVersion1) {
		return "this machine has version 2 alone; version 1 is tested on machines that have it"
	}
	return ""
}

// skip is a test that was skipped, and its message.
type skip struct{ test, reason string }

func (s skip) String() string { return s.test + ": " + s.reason }

// verdict returns an error if tests failed, if some were skipped that may not be, if
// more than mostStarved failed for want of processors, or if fewer than least passed.
func (c *counts) verdict(least int) error {
	var refused []string
	for _, s := range c.skipped {
		if s.allowed() == "" {
			refused = append(refused, s.String())
		}
	}
	switch {
	case c.failed > 0:
		return fmt.Errorf("%d tests failed", c.failed)
	case len(c.starved) > mostStarved:
		return fmt.Errorf("%d tests failed for want of processors, and at most %d may: the machine is too busy to judge", len(c.starved), mostStarved)
	case len(refused) > 0:
		return fmt.Errorf("skipped without being on the list in hack/suite/skips.go: %s", strings.Join(refused, "; "))
	case c.passed < least:
		return fmt.Errorf("%d tests passed, and at least %d must: some are gone, or did not run", c.passed, least)
	}
	return nil
}
