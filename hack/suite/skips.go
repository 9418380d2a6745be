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
	"test/scale: TestScale/a_history_to_replay":                 "it shows nothing, it records with -record",
}

// skip is a test that was skipped, and what it said.
type skip struct{ test, reason string }

func (s skip) String() string { return s.test + ": " + s.reason }

// verdict returns an error if tests were skipped that may not be, or fewer
// than least passed.
func (c *counts) verdict(least int) error {
	var refused []string
	for _, s := range c.skipped {
		if mayBeSkipped[s.test] == "" {
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
