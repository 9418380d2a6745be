package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// longLimit is what each part may take on two slow processors.
const longLimit = time.Hour

// parts are what takes too long for every change. They are run one by one, and
// renewed before a change of what they look at is called good.
func (s *suite) parts() []stage {
	bench := func(targets, parts string) []string { return []string{"bench", "N=" + targets, "PARTS=" + parts} }
	return []stage{
		// Each kind that acts on a kernel, on those with netem and cgroup v2 alone.
		{name: "uml", needs: []string{"packages"}, limit: longLimit, least: 150, run: s.kernel("uml")},
		// Disk failure alone has the BPF programs that this machine's kernel may refuse,
		// and proves rules: a part of its own, 12 to 24 minutes without KVM.
		{name: "diskfailure", needs: []string{"packages"}, limit: longLimit, least: 190, run: s.kernel("qemu", "injector/diskfailure")},
		{name: "qemu", needs: []string{"packages"}, limit: longLimit, least: 35, run: s.kernel("-but", "injector/diskfailure", "qemu")},
		// The race detector on every package whose goroutines share something.
		{name: "race", needs: []string{"build"}, limit: longLimit, least: 480, run: s.race},
		// Worker, bridge and injector killed at every step they take, and 1,000 operations on
		// pods while that and more happens.
		{name: "matrix", needs: []string{"build"}, limit: longLimit, least: 4, run: s.makeCounted("crash-matrix", "operations")},
		// How long the injector takes for each kind.
		{name: "figures", needs: []string{"packages"}, limit: longLimit, run: s.make("figures")},
		// A cluster that is started, grown, killed and ended leaves nothing on the machine.
		{name: "devcluster", needs: []string{"build"}, limit: longLimit, least: 1, run: s.ownCluster},
		// The defects of test/mutants, each of which its tests must notice.
		{name: "mutants", needs: []string{"build"}, limit: longLimit, run: s.program("./mutants")},
		// Each parser that meets what others write, for a minute.
		{name: "fuzz", needs: []string{"packages"}, limit: longLimit, least: 14, run: s.makeCounted("fuzz", "TIME=1m")},
		{name: "vulncheck", limit: longLimit, run: s.vulncheck},
		// Every Disruption that follows from the schema, not the 20 of make test.
		{name: "campaign", needs: []string{"install"}, limit: longLimit, least: 2, run: s.makeCounted("campaign")},
		// 1,000 disruptions while everything is killed at random.
		{name: "soak", needs: []string{"install"}, limit: longLimit, run: s.make("soak")},
		// The cost of disruptions beside bare pods.
		{name: "bench", needs: []string{"build"}, limit: longLimit, run: s.make(bench("1,10,100,1000", "targets,together,waiting,aborts,people")...)},
		{name: "bench-large", needs: []string{"build"}, limit: longLimit, run: s.make(bench("5000,10000", "targets")...)},
		// A disruption whose targets come and go, a cluster of 50,000 pods, and an API server
		// that goes away.
		{name: "bench-churn", needs: []string{"build"}, limit: longLimit, run: s.make(bench("1", "churn,large,away")...)},
		// Everything of a version, for all platforms.
		{name: "release", needs: []string{"packages"}, limit: longLimit, run: s.make("release")},
		{name: "bench-cluster", needs: []string{"install"}, limit: longLimit, run: s.make(bench("1", "cluster")...)},
		// The end-to-end tests of most kinds on a node with a kernel and control groups
		// of version 2 of its own, which is ended, too. It grows the cluster.
		{name: "v2node", needs: []string{"install"}, limit: longLimit, least: 17, run: s.virtualNode},
	}
}

// makeCounted makes targets whose recipes run go test, and counts the tests: then
// they may prove rules.
func (s *suite) makeCounted(arguments ...string) func(context.Context, *counts) error {
	return func(ctx context.Context, c *counts) error {
		cmd := s.command(ctx, "make", append([]string{"--no-print-directory", "-C", s.root, "VERBOSE=-json"}, arguments...)...)
		cmd.Env = append(cmd.Env, "SQUALL_REQUIRE=1")
		return s.counted(c, cmd)
	}
}

// vulncheck fails also when the database of vulnerabilities cannot be read: then
// nothing was checked.
func (s *suite) vulncheck(ctx context.Context, _ *counts) error {
	cmd := s.command(ctx, "make", "--no-print-directory", "-C", s.root, "vulncheck")
	var out bytes.Buffer
	cmd.Stdout = io.MultiWriter(s.out, &out)
	err := cmd.Run()
	if strings.Contains(out.String(), "NOTHING WAS CHECKED") {
		return errors.New("the database of vulnerabilities cannot be read from here: set GOVULNDB to a copy")
	}
	return err
}

func longParts() []string {
	var names []string
	for _, part := range (&suite{}).parts() {
		names = append(names, part.name)
	}
	return names
}

// longStages are the parts chosen, all if none is, with the stages they need.
func (s *suite) longStages(chosen []string) ([]stage, error) {
	for _, name := range chosen {
		if !slices.Contains(longParts(), name) {
			return nil, fmt.Errorf("there is no part %q; there are %s", name, strings.Join(longParts(), ", "))
		}
	}
	var parts, prepare []stage
	needed := map[string]bool{}
	need := func(st stage) {
		for _, name := range st.needs {
			needed[name] = true
		}
	}
	for _, part := range s.parts() {
		if len(chosen) == 0 || slices.Contains(chosen, part.name) {
			parts = append(parts, s.keepingResult(part))
			need(part)
		}
	}
	all := s.stages() // none needs one that comes after it
	for _, st := range slices.Backward(all) {
		if needed[st.name] {
			prepare = append(prepare, st)
			need(st)
		}
	}
	slices.Reverse(prepare)
	if needed["cluster"] {
		down := slices.IndexFunc(all, func(st stage) bool { return st.always })
		parts = append(parts, all[down])
	}
	return append(prepare, parts...), nil
}
