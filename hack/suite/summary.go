package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// slowest is how many tests are listed with their time, and mostPackages how many
// packages.
const slowest, mostPackages = 20, 50

// failureLines is how many of a failed test's first and last lines the summary
// repeats, so that the end of the output alone shows the cause.
const failureLines = 6

// summary prints the time of each stage, a line each, and returns true when all
// passed. Failures come last, because people see the end of a long output.
func (s *suite) summary() bool {
	all := counts{}
	for _, r := range s.results {
		all.add(r.tests)
	}
	s.printPackages(all.packages)
	s.printSlowest(all.tests)
	s.printSkipped(all.skipped)
	for _, starved := range all.starved {
		s.printf("starved     %s: failed, %s; passed alone\n", starved.name, starved.lost)
	}
	s.printQuarantined(all.excused)
	ok := s.printStages(all)
	for _, failed := range all.failures {
		s.printf("failed      %s\n%s", failed.name, indent(failed.ends(failureLines)))
	}
	for _, r := range s.results {
		if r.err != nil {
			s.printf("stage %s: %v\n%s", r.name, r.err, indent(r.lastLines))
		}
	}
	for _, failed := range all.failures {
		if cause := failed.cause(); cause != "" {
			s.printf("cause       %s: %s\n", failed.name, cause)
		}
	}
	return ok
}

// printStages prints a line for each stage and one for all, and returns true when all passed.
func (s *suite) printStages(all counts) bool {
	ok := true
	s.printf("\n%-14s %8s %9s  %6s %6s %7s  %s\n", "stage", "seconds", "processor", "passed", "failed", "skipped", "at commit "+s.commit())
	for _, r := range s.results {
		word := "passed"
		switch {
		case errors.Is(r.err, errNotRun):
			word, ok = r.err.Error(), false
		case r.err != nil:
			word, ok = "FAILED", false
		}
		s.printf("%s\n", line(r.name, r.took, r.processor, r.tests, word))
	}
	word := "passed"
	if !ok {
		word = "FAILED"
	}
	s.printf("%s\n", line("all", time.Since(s.began), processorTime(), all, word))
	return ok
}

// printSkipped prints each reason once, with the tests that were skipped for it.
func (s *suite) printSkipped(skipped []skip) {
	tests := map[string][]string{}
	for _, one := range skipped {
		why := fmt.Sprintf("%s; allowed: %s", one.reason, cmp.Or(one.allowed(), "no"))
		tests[why] = append(tests[why], one.test)
	}
	for _, why := range slices.Sorted(maps.Keys(tests)) {
		slices.Sort(tests[why])
		s.printf("skipped     %s\n            %s\n", why, strings.Join(tests[why], ", "))
	}
}

func (s *suite) printf(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format, args...) }

// line is a row of the table. Stages without tests leave those columns empty.
func line(name string, took, processor time.Duration, tests counts, word string) string {
	counted := fmt.Sprintf("%6s %6s %7s", "", "", "")
	if tests.passed+tests.failed+len(tests.skipped) > 0 {
		counted = fmt.Sprintf("%6d %6d %7d", tests.passed, tests.failed, len(tests.skipped))
	}
	return fmt.Sprintf("%-14s %8.1f %9.1f  %s  %s", name, took.Seconds(), processor.Seconds(), counted, word)
}

// printPackages prints where the time went, by what packages took of the processors.
// Packages run beside each other, so that their seconds add up to more than their
// stage's.
func (s *suite) printPackages(packages []packageTime) {
	slices.SortFunc(packages, func(a, b packageTime) int {
		return cmp.Or(cmp.Compare(b.processor, a.processor), cmp.Compare(b.seconds, a.seconds))
	})
	s.printf("\n%-44s %8s %9s  %6s\n", "package", "seconds", "processor", "tests")
	var rest packageTime
	for i, p := range packages {
		if p.processor < time.Second && p.seconds < 2 || i >= mostPackages {
			rest.seconds, rest.processor, rest.tests = rest.seconds+p.seconds, rest.processor+p.processor, rest.tests+p.tests
			continue
		}
		s.printf("%-44s %8.1f %9.1f  %6d\n", p.name, p.seconds, p.processor.Seconds(), p.tests)
	}
	s.printf("%-44s %8.1f %9.1f  %6d\n", "all others", rest.seconds, rest.processor.Seconds(), rest.tests)
}

// printSlowest prints the tests that took longest.
func (s *suite) printSlowest(tests []testTime) {
	slices.SortFunc(tests, func(a, b testTime) int { return cmp.Compare(b.seconds, a.seconds) })
	s.printf("\n%-75s %8s\n", "slowest tests", "seconds")
	for _, t := range tests[:min(len(tests), slowest)] {
		s.printf("%-75s %8.1f\n", t.name, t.seconds)
	}
	s.printf("\n")
}

// commit is what the figures are of.
func (s *suite) commit() string {
	out, err := exec.Command("git", "-C", s.root, "describe", "--always", "--dirty", "--exclude=*").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
