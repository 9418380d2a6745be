package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
)

// shuffled lists the packages whose tests run in an order that the seed chooses. Each
// passed with three seeds. The tests of other packages run in the order of their files:
// those that need a server or root were not tried. To add one, run its tests with
// -shuffle=1, 2 and 3.
var shuffled = []string{
	"activities/chaospod", "activities/cloud", "activities/memo", "activities/nodecommand",
	"activities/notify", "activities/policy", "activities/replacement", "activities/status",
	"activities/steadystate", "api/schedule", "api/text", "api/v1beta1", "cli/chart", "cli/cluster",
	"cli/create", "cli/demo", "cli/doctor", "cli/explain", "cli/manifest", "cli/story", "cli/view",
	"crdbridge/cached", "crdbridge/internal/informers", "crdbridge/scope", "crdbridge/temporal",
	"hack/archive", "hack/check", "hack/cluster", "hack/debian", "hack/demo", "hack/images/target",
	"hack/kerneltest", "hack/mutants", "hack/pki", "hack/site", "hack/suite", "hack/toolchain",
	"hack/vale", "injector/attach", "injector/dnsdisruption/answer", "injector/dump",
	"injector/journal",
	"injector/mounts", "injector/network/rule", "injector/oneline", "injector/resolve", "kube",
	"kube/window", "listener", "listener/protocol", "settings", "test/campaign", "test/golden", "test/histories", "test/patience", "test/pictures",
	"test/poll", "test/revision", "test/sample", "test/soak", "workflows/connect", "workflows/start",
	"workflows/steadystate", "workflows/traces",
}

// seedVariable chooses the seed instead of the commit. The package test/sample reads
// it too.
const seedVariable = "SQUALL_SEED"

// fixedSeed is the seed of a checkout without a commit.
const fixedSeed = 1

// chooseSeed sets and prints the seed, which the tests of test/sample choose in the
// same way. A wrong value in the environment is a failed result.
func (s *suite) chooseSeed(ctx context.Context) {
	seed, from, err := s.findSeed(ctx, os.Getenv(seedVariable))
	if err != nil {
		s.logf("--- seed FAILED: %v", err)
		s.results = append(s.results, result{name: "seed", err: err})
		return
	}
	s.seed = seed
	s.logf("seed %d, of %s; the same order of tests and the same samples again: %s=%[1]d", seed, from, seedVariable)
}

func (s *suite) findSeed(ctx context.Context, variable string) (seed uint64, from string, err error) {
	if variable != "" {
		seed, err := strconv.ParseUint(variable, 10, 64)
		if err != nil || seed == 0 {
			return 0, "", fmt.Errorf("%s=%q: want a number above 0", seedVariable, variable)
		}
		return seed, seedVariable, nil
	}
	hash, err := s.git(ctx, "rev-parse", "HEAD")
	if err != nil {
		return fixedSeed, fmt.Sprintf("no commit (%v)", err), nil
	}
	const digits = 8
	short := hash[:min(digits, len(hash))]
	if seed, err = strconv.ParseUint(short, 16, 64); err != nil {
		return 0, "", fmt.Errorf("git rev-parse HEAD: %q is no hash", hash)
	}
	return max(seed, 1), "commit " + short, nil
}

// order is what -test.shuffle gets for a package, 0 if its tests are not shuffled.
func order(seed uint64, pkg string) int64 {
	if !slices.Contains(shuffled, short(pkg)) {
		return 0
	}
	return int64(seed & math.MaxInt64)
}

// withOrder is what a failed test printed, and the order in which the tests of its
// package ran if they were shuffled.
func (r *reading) withOrder(pkg string, output []string) []string {
	if number := order(r.seed, pkg); number != 0 {
		return append(output, fmt.Sprintf("    the tests of %s ran in the order of go test -shuffle=%d\n", short(pkg), number))
	}
	return output
}
