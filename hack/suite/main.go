// Command suite runs all tests of the repository on a bare machine, stage by
// stage, and prints at the end what each stage took and what passed, failed and was
// skipped. A stage whose need failed is not run. The cluster that it started is taken
// down in any case.
//
//	go run ./suite [-keep] [STAGE...]          what every change goes through
//	go run ./suite -long [-keep] [PART...]     what takes too long for that
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	keep := flag.Bool("keep", false, "leave the cluster running at the end")
	long := flag.Bool("long", false, "run the parts named, or all of them, that take up to an hour each: "+strings.Join(longParts(), ", "))
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root, err := findRoot()
	if err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
		os.Exit(2)
	}
	s := newSuite(root, os.Stdout)
	s.only, s.keep = flag.Args(), *keep
	stages := s.stages()
	if *long {
		if stages, err = s.longStages(flag.Args()); err != nil {
			fmt.Fprintln(os.Stderr, "suite:", err)
			os.Exit(2)
		}
		s.only = nil
	}
	if !s.run(ctx, stages) {
		os.Exit(1)
	}
}

// stage is one part of all the tests.
type stage struct {
	name  string
	needs []string
	limit time.Duration
	// least is how many tests must pass: a little less than there are, so that a
	// stage that lost its tests is noticed. Raise it when many have been added.
	least int
	// always runs it also after an interruption.
	always bool
	// beside is a target of make, in place of run, which runs at the lowest priority beside
	// the stages that follow.
	beside string
	run    func(context.Context, *counts) error
}

func (s *suite) stages() []stage {
	return []stage{
		{name: "packages", limit: 10 * time.Minute, run: s.packages},
		{name: "build", needs: []string{"packages"}, limit: 40 * time.Minute, run: s.program("./devcluster", "build")},
		{name: "compile", needs: []string{"build"}, limit: 30 * time.Minute, run: s.compile},
		{name: "measure", needs: []string{"compile"}, limit: 30 * time.Minute, least: 500, run: s.measure},
		{name: "unit", needs: []string{"compile"}, limit: 60 * time.Minute, least: 4500, run: s.unit},
		// The stage takes three minutes: 20 tests in User-Mode Linux, or fewer in QEMU on
		// a processor where User-Mode Linux does not run.
		{name: "kernel", needs: []string{"packages"}, limit: 30 * time.Minute, least: 15, run: s.kernel("-quick", "any")},
		{name: "site", needs: []string{"packages"}, limit: 20 * time.Minute, run: s.make("site")},
		// From here on nothing else runs that wants to be quick: the programs of a cluster and
		// its tests want both processors. Not before: a cluster takes a tenth of them although
		// nothing happens in it.
		{name: "cluster", needs: []string{"build"}, limit: 10 * time.Minute, run: s.cluster},
		{name: "images", needs: []string{"cluster"}, limit: 15 * time.Minute, run: s.make("images", "image-temporal")},
		// The first on the cluster: Squall and its own Temporal, as a newcomer installs them.
		{name: "started", needs: []string{"images"}, limit: 20 * time.Minute, least: 1, run: s.endToEnd("./test/started")},
		{name: "install", needs: []string{"images"}, limit: 5 * time.Minute, run: s.program("./demo", "install")},
		{name: "verify", limit: 40 * time.Minute, beside: "verify"},
		{name: "e2e", needs: []string{"install"}, limit: 45 * time.Minute, least: 80, run: s.endToEnd("./test/e2e")},
		{name: "ui", needs: []string{"install"}, limit: 20 * time.Minute, least: 1, run: s.againstCluster("test/ui", "-count=1", "-timeout", "18m", ".")},
		{name: "demo", needs: []string{"images"}, limit: 20 * time.Minute, least: 1, run: s.endToEnd("./test/demo")},
		{name: "campaign", needs: []string{"install"}, limit: 30 * time.Minute, least: 2, run: s.endToEnd("./test/campaign")},
		{name: "uninstall", needs: []string{"install"}, limit: 20 * time.Minute, least: 1, run: s.endToEnd("./test/uninstall")},
		// Helm installs, tests, changes and removes what the stage before has taken out.
		{name: "chart", needs: []string{"uninstall"}, limit: 20 * time.Minute, least: 1,
			run: s.againstCluster("test/chart", "-tags", "e2e", "-count=1", "-timeout", "18m", "-run", "TestHelm", ".")},
		// The last: it leaves a control plane that has just been killed.
		{name: "soak", needs: []string{"install"}, limit: 35 * time.Minute, run: s.soak},
		{name: "down", limit: 2 * time.Minute, always: true, run: s.down},
		{name: "rules", limit: time.Minute, run: s.rules},
	}
}

// suite is one run of the stages.
type suite struct {
	root  string
	began time.Time
	// seed orders the tests of the packages that are shuffled, 0 before it is chosen.
	seed uint64
	only []string
	keep bool
	// besides are the stages that were started beside others, and beside is the one that
	// this suite runs, nil for one that runs by itself.
	besides []*beside
	beside  *beside
	// ours is true when this run started the cluster.
	ours bool
	// results are of the stages that have ended, in their order.
	results []result
	// binaries are the tests that the stage compile has built, in a directory of the run.
	binaries *binaries
	// out receives the output of the stages and of the programs that they start.
	out io.Writer
}

// newSuite is a run that prints to out.
func newSuite(root string, out io.Writer) *suite {
	return &suite{root: root, began: time.Now(), out: out, binaries: &binaries{}}
}

// result is what became of a stage.
type result struct {
	name string
	took time.Duration
	// processor is the processor time of the programs that ended so far, without the
	// cluster's own programs.
	processor time.Duration
	err       error
	tests     counts
	// lastLines are the last lines that a failed stage printed.
	lastLines []string
}

var errNotRun = errors.New("not run")

// run returns true when everything passed.
func (s *suite) run(ctx context.Context, stages []stage) bool {
	defer s.binaries.remove()
	s.chooseSeed(ctx)
	s.checkQuarantine(ctx)
	for _, st := range stages {
		switch {
		case len(s.only) > 0 && !slices.Contains(s.only, st.name):
		case st.beside != "":
			s.startBeside(ctx, st)
		default:
			s.results = append(s.results, s.runStage(ctx, st))
		}
	}
	s.awaitBesides()
	return s.summary()
}

func (s *suite) runStage(ctx context.Context, st stage) result {
	r := result{name: st.name}
	for _, need := range st.needs {
		for _, before := range s.results {
			if before.name == need && before.err != nil {
				r.err = fmt.Errorf("%w: needs %s", errNotRun, need)
				return r
			}
		}
	}
	if ctx.Err() != nil && !st.always {
		r.err = fmt.Errorf("%w: interrupted", errNotRun)
		return r
	}
	if st.always {
		ctx = context.WithoutCancel(ctx)
	}
	s.logf("--- %s", st.name)
	ctx, cancel := context.WithTimeout(ctx, st.limit)
	defer cancel()
	kept := &recent{to: s.out}
	s.out = kept
	defer func() { s.out = kept.to }()
	began, before := time.Now(), s.foreground()
	r.err = errors.Join(st.run(ctx, &r.tests), r.tests.verdict(st.least))
	r.took, r.processor = time.Since(began), s.foreground()-before
	if r.err != nil {
		r.lastLines = kept.lines(failureLines)
		s.logf("--- %s FAILED: %v", st.name, r.err)
	}
	return r
}

// processorTime is what all programs that this one started, and those that they
// started, took of the processors, of those that have ended.
func processorTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// logf prints a line with the seconds since the start.
func (s *suite) logf(format string, args ...any) {
	_, _ = fmt.Fprintf(s.out, "%7.1f s  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// findRoot is the directory above the hack module.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		content, err := os.ReadFile(filepath.Join(dir, "hack", "go.mod"))
		if err == nil && strings.HasPrefix(string(content), "module github.com/squall-chaos/squall/hack\n") {
			return dir, nil
		}
	}
	return "", errors.New("run it inside the checkout")
}
