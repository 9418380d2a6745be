// Command mutants breaks the product on purpose and checks that the tests notice.
// Each patch in test/mutants is a defect, and its header names the rule that
// it violates and the tests that must fail. The program applies one patch at a time to
// a temporary worktree of HEAD and runs these tests. The checkout stays as it is.
//
//	go run ./mutants [-run REGEXP]
//
// The exit code is 1 unless each mutant is killed. The tests must pass without a
// mutant, so that a test that always fails kills none.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	run := flag.String("run", "", "only the mutants whose name matches this regular expression")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	survivors, err := try(ctx, *run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
	}
	if err != nil || survivors > 0 {
		os.Exit(1)
	}
}

// try prints a line for each mutant and returns how many were not killed.
func try(ctx context.Context, pattern string) (alive int, err error) {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return 0, fmt.Errorf("find the checkout: %w", err)
	}
	root := strings.TrimSpace(string(out))
	mutants, err := read(filepath.Join(root, "test", "mutants"), pattern)
	if err != nil {
		return 0, err
	}
	l, err := newLaboratory(ctx, root)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	fmt.Printf("%d mutants of commit %s\n", len(mutants), l.commit)
	l.passWithout(ctx, mutants)
	for _, m := range mutants {
		began := time.Now()
		v := l.try(ctx, m)
		if ctx.Err() != nil {
			return alive, ctx.Err()
		}
		fmt.Printf("%-36s %-18s %6.1f s  rule %s\n", m.name, v.outcome, time.Since(began).Seconds(), m.rule)
		if v.outcome != killed {
			alive++
			fmt.Printf("    %s\n", strings.ReplaceAll(strings.TrimSpace(v.why), "\n", "\n    "))
		}
	}
	fmt.Printf("%d of %d mutants killed\n", len(mutants)-alive, len(mutants))
	return alive, nil
}
