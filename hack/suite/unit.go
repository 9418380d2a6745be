package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// raced are the small packages whose goroutines share something: make test runs
// them with the race detector. racedLong are all such packages, for make test-long: the
// detector costs some 300 processor seconds there.
var (
	raced     = []string{"./activities/memo", "./crdbridge/internal/informers", "./injector/journal"}
	racedLong = []string{"./activities/...", "./crdbridge/...", "./kube/...", "./worker/...", "./workflows/connect", "./workflows/start", "./injector/journal"}
)

// measuring are the packages whose tests measure the kernel or the clock. They run
// first, and nothing that needs processors beside them: the first two mostly wait, and
// run together, the others alone.
var measuring = []string{"injector/network", "injector", "injector/cpupressure", "injector/diskpressure", "injector/memorypressure"}

// together is how many of measuring run together.
const together = 2

// longest are the packages whose tests take minutes, the longest first. A long
// package that started last would keep one processor for minutes while the other
// is idle. Packages that wait stand beside packages that work.
var longest = []string{
	"hack", "test/survival", "activities", "deploy", "workflows", "workflows/disruption", "crdbridge", "test/scale", "crdbridge/disruption",
	"test/matrix", "test/upgrade", "test/operations", "test/world",
}

// waiting are the packages that take less than two fifths of a processor: their tests
// mostly wait for a server, a worker or a clock. A third test may run beside two of them.
var waiting = []string{"activities", "activities/targets", "crdbridge", "crdbridge/disruption", "crdbridge/podops", "kube/podops", "test/survival", "worker", "workflows"}

// leftToLong are the tests that make test leaves to a part of make test-long, by
// package: they measure and bound nothing, or start clusters of their own.
var leftToLong = map[string]struct{ tests, part string }{
	"test/bench":      {"^TestBench$", "bench"},
	"injector":        {"^TestHowLong", "figures"},
	"hack/devcluster": {"^TestUpAndDownLeaveNothing$", "devcluster"},
}

// modules are the directories of the modules whose tests need no cluster, and how
// many of their packages may run at a time: tests of hack start virtual machines.
var modules = []struct {
	dir      string
	oneByOne bool
}{{".", false}, {"hack", true}, {"listener", false}, {"hack/recording", false}, {"hack/release", false}, {"test/chart", false}}

// testEnv is the environment of tests that need no cluster: what cannot run here
// fails instead of being skipped, and Go's collector runs when a heap has grown
// fivefold, not twofold: an API server spends half of its start on that.
var testEnv = []string{"SQUALL_REQUIRE=1", "GOGC=400"}

// testLimit is how long the tests of one package may take.
const testLimit = 25 * time.Minute

// testBinary is the built test of a package.
type testBinary struct {
	ImportPath string
	Dir        string
	Name       string
	file       string
	oneByOne   bool
}

// binaries are the built tests of all modules. They take some gigabytes.
type binaries struct {
	dir string
	all []testBinary
}

func (b *binaries) remove() {
	if b.dir != "" {
		_ = os.RemoveAll(b.dir)
	}
}

// compile builds the tests of all modules. Nothing is linked while tests run.
func (s *suite) compile(ctx context.Context, _ *counts) error {
	var err error
	if s.binaries.dir, err = os.MkdirTemp("", "squall-tests-"); err != nil {
		return err
	}
	s.binaries.all, err = s.buildTests(ctx, s.binaries.dir)
	return err
}

// measure runs the tests that measure the kernel or the clock, each package alone.
func (s *suite) measure(ctx context.Context, c *counts) error {
	return s.runAll(ctx, c, true)
}

// unit runs the tests that need no cluster and do not measure. Vet looks at everything in
// the stage verify.
//
// Go's cache of tests does not apply: go test alone keeps results, and the suite builds the
// tests with go test -c and runs the programs itself. It should not apply either, because
// the cache does not see that a test builds and starts programs.
func (s *suite) unit(ctx context.Context, c *counts) error {
	return s.runAll(ctx, c, false)
}

// runAll runs the tests of the packages that measure, or those of all others.
func (s *suite) runAll(ctx context.Context, c *counts, measure bool) error {
	r := newReading(c, s.logf, s.out)
	r.seed = s.seed
	err := schedule(s.jobs(ctx, r, measure), processors)
	r.end()
	return errors.Join(err, c.retryStarved(func(pkg, test string, into *counts) error {
		i := slices.IndexFunc(s.binaries.all, func(b testBinary) bool { return short(b.ImportPath) == pkg })
		again := newReading(into, s.logf, s.out)
		again.seed = s.seed
		defer again.end()
		return s.runTests(ctx, again, s.binaries.all[i], "-test.run=^"+test+"$")
	}))
}

// buildTests builds the tests of every package of the modules, into a directory.
func (s *suite) buildTests(ctx context.Context, directory string) ([]testBinary, error) {
	var all []testBinary
	for i, m := range modules {
		dir := filepath.Join(s.root, m.dir)
		found, err := s.list(ctx, dir, "./...")
		if err != nil {
			return nil, err
		}
		var plain, withRace []testBinary
		for _, b := range found {
			if slices.Contains(raced, "./"+short(b.ImportPath)) {
				withRace = append(withRace, b)
			} else {
				plain = append(plain, b)
			}
		}
		for j, part := range [][]testBinary{plain, withRace} {
			if err := s.compileTests(ctx, dir, filepath.Join(directory, fmt.Sprintf("%d-%d", i, j)), part, j == 1); err != nil {
				return nil, err
			}
			for k := range part {
				part[k].oneByOne = m.oneByOne
			}
			all = append(all, part...)
		}
	}
	return all, nil
}

// list are the packages with tests that patterns name in a module.
func (s *suite) list(ctx context.Context, dir string, patterns ...string) ([]testBinary, error) {
	cmd := s.command(ctx, "go", append([]string{"list", "-json=ImportPath,Dir,Name,TestGoFiles,XTestGoFiles"}, patterns...)...)
	cmd.Dir, cmd.Stdout = dir, nil
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", strings.Join(patterns, " "), err)
	}
	var all []testBinary
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			testBinary
			TestGoFiles, XTestGoFiles []string
		}
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list %s: %w", strings.Join(patterns, " "), err)
		}
		if len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 {
			all = append(all, p.testBinary)
		}
	}
}

// compileTests builds the tests of packages of a module. go test -c names each
// program by the last part of its package's path, so packages that share it come
// in another round. Without debug information each program links in three quarters
// of the time.
func (s *suite) compileTests(ctx context.Context, dir, directory string, packages []testBinary, race bool) error {
	rounds := map[int][]string{}
	seen := map[string]int{}
	for i, b := range packages {
		base := filepath.Base(b.ImportPath)
		round := seen[base]
		seen[base]++
		rounds[round] = append(rounds[round], b.ImportPath)
		packages[i].file = filepath.Join(directory, strconv.Itoa(round), base+".test")
	}
	for round := range len(rounds) {
		into := filepath.Join(directory, strconv.Itoa(round))
		if err := os.MkdirAll(into, 0o755); err != nil {
			return err
		}
		args := []string{"test", "-c", "-ldflags=-w", "-vet=off", "-o", into + "/"}
		cmd := s.command(ctx, "go", append(args, rounds[round]...)...)
		if race {
			cmd = s.command(ctx, "go", slices.Concat(args, []string{"-race"}, rounds[round])...)
			cmd.Env = append(cmd.Env, "CGO_ENABLED=1")
		}
		cmd.Dir = dir
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("build the tests of %s: %w", dir, err)
		}
	}
	return nil
}

// jobs are the tests of the packages that measure, or of all others, in the order in
// which they start.
func (s *suite) jobs(ctx context.Context, r *reading, measure bool) []job {
	const one, waits = processors / 2, processors / 4
	var jobs, inTurn []job
	for _, b := range s.binaries.all {
		j := job{name: short(b.ImportPath), takes: one, run: func() error { return s.runTests(ctx, r, b) }}
		at := slices.Index(measuring, j.name)
		if at >= together {
			j.takes = processors
		}
		if slices.Contains(waiting, j.name) {
			j.takes = waits
		}
		switch {
		case (at >= 0) != measure:
		case b.oneByOne:
			inTurn = append(inTurn, j)
		default:
			jobs = append(jobs, j)
		}
	}
	if len(inTurn) > 0 {
		jobs = append(jobs, job{name: "hack", takes: one, run: func() error { return schedule(inTurn, 1) }})
	}
	first := slices.Concat(measuring, longest)
	rank := func(name string) int {
		if i := slices.Index(first, name); i >= 0 {
			return i
		}
		return len(first)
	}
	slices.SortStableFunc(jobs, func(a, b job) int { return rank(a.name) - rank(b.name) })
	return jobs
}

// runTests runs the tests of a package in its directory, as go test does. Tests that
// fail are counted and are no error of it.
func (s *suite) runTests(ctx context.Context, r *reading, b testBinary, options ...string) error {
	args := []string{"tool", "test2json", "-t", "-p", b.ImportPath, b.file, "-test.v=test2json", "-test.paniconexit0", "-test.timeout=" + testLimit.String()}
	if left, some := leftToLong[short(b.ImportPath)]; some {
		args = append(args, "-test.skip="+left.tests)
	}
	if number := order(s.seed, b.ImportPath); number != 0 {
		args = append(args, fmt.Sprintf("-test.shuffle=%d", number))
	}
	cmd := s.command(ctx, "go", append(args, options...)...)
	cmd.Dir = b.Dir
	cmd.Env = append(cmd.Env, testEnv...)
	err := r.run(cmd, b.ImportPath)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("tests of %s: %w", short(b.ImportPath), err)
	}
	return nil
}

// ownCluster starts and ends development clusters beside none.
func (s *suite) ownCluster(ctx context.Context, c *counts) error {
	return s.goTest(ctx, c, filepath.Join(s.root, "hack"), testEnv, "-count=1", "-timeout", "50m", "-run", leftToLong["hack/devcluster"].tests, "./devcluster")
}

// race runs every package whose goroutines share something with the race detector.
func (s *suite) race(ctx context.Context, c *counts) error {
	env := append([]string{"CGO_ENABLED=1"}, testEnv...)
	return s.goTest(ctx, c, s.root, env, slices.Concat([]string{"-race", "-p", "2", "-count=1", "-timeout", "50m", "-vet=off"}, racedLong)...)
}
