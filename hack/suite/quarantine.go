package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// quarantineAge is how many commits an entry of quarantined lasts. A test that
// stays broken for so long is a hole in the tests: the run fails until the entry
// is gone.
const quarantineAge = 100

// quarantined lists the tests that fail now and then although the product is right.
// Such a test still runs. Its failures are counted and printed, and fail no stage. It
// proves no rule: remove it from docs/rules.md meanwhile, or the stage rules fails.
// A part of make test-long that runs targets of make still fails, because make stops
// at the first failure.
var quarantined = []quarantine{}

// quarantine is one test of the list.
type quarantine struct {
	// test is a test without its subtests, such as "activities: TestJudge".
	test string
	// reason is why the test sometimes fails, or the issue with the reason.
	reason string
	// since is the commit before the entry, in 40 hexadecimal digits.
	since string
}

// inQuarantine returns the entry of a test or of the test around a subtest, on
// whichever kernel it ran.
func inQuarantine(name string) (quarantine, bool) {
	i := slices.IndexFunc(quarantined, func(q quarantine) bool { return q.test == withoutKernel(parent(name)) })
	if i < 0 {
		return quarantine{}, false
	}
	return quarantined[i], true
}

// cutShort matches what a process prints that ends before its last test.
var cutShort = regexp.MustCompile(`(?m)^(panic: |fatal error: |exit code (-1|[02-9]|1\d))`)

// excuses reports whether quarantine explains the failure of a test. It never explains
// one that ended the process: the tests after it did not run.
func excuses(name string, output []string) bool {
	_, listed := inQuarantine(name)
	return listed && !cutShort.MatchString(strings.Join(output, ""))
}

// unexcused returns the error of a program that runs tests, unless the program only
// reports failures of tests in quarantine.
func (c *counts) unexcused(ctx context.Context, err error) error {
	exit := (*exec.ExitError)(nil)
	if ctx.Err() == nil && c.failed == 0 && len(c.excused) > 0 && errors.As(err, &exit) && exit.ExitCode() == 1 {
		return nil
	}
	return err
}

// checkQuarantine adds a failed result if an entry is older than quarantineAge commits,
// has no reason, or names a test that does not exist.
func (s *suite) checkQuarantine(ctx context.Context) {
	if err := s.quarantineProblems(ctx); err != nil {
		s.logf("--- quarantine FAILED: %v", err)
		s.results = append(s.results, result{name: "quarantine", err: err})
	}
}

func (s *suite) quarantineProblems(ctx context.Context) error {
	var problems []error
	for _, q := range quarantined {
		behind, err := s.commitsBehind(ctx, q.since)
		switch {
		case err != nil:
		case behind > quarantineAge:
			err = fmt.Errorf("the entry is %d commits old, and %d are allowed: repair the test, or delete it", behind, quarantineAge)
		case q.reason == "":
			err = errors.New("the entry has no reason")
		case !s.hasTest(q.test):
			err = errors.New("no such test exists: write PACKAGE: TestName, without a subtest")
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s in hack/suite/quarantine.go: %w", q.test, err))
		}
	}
	return errors.Join(problems...)
}

// hasTest reports whether a test such as "activities: TestJudge" is in the checkout.
func (s *suite) hasTest(name string) bool {
	pkg, test, _ := strings.Cut(name, ": ")
	files, _ := filepath.Glob(filepath.Join(s.root, pkg, "*_test.go")) // the pattern is valid
	return slices.ContainsFunc(files, func(file string) bool {
		content, err := os.ReadFile(file)
		return err == nil && strings.HasPrefix(test, "Test") && strings.Contains("\n"+string(content), "\nfunc "+test+"(t *testing.T)")
	})
}

// printQuarantined prints each test in quarantine, how often it failed, and what it
// printed then.
func (s *suite) printQuarantined(excused []failure) {
	for _, q := range quarantined {
		of := func(f failure) bool { return withoutKernel(parent(f.name)) == q.test }
		times := 0
		for _, f := range excused {
			if of(f) && f.name == parent(f.name) {
				times++
			}
		}
		s.printf("quarantined %s: failed %d times; since %.12s: %s\n", q.test, times, q.since, q.reason)
		for _, f := range excused {
			if of(f) {
				s.printf("            %s\n%s", f.name, indent(f.ends(failureLines)))
			}
		}
	}
}
