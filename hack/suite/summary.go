package main

import (
	"cmp"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// slowest is how many packages are listed with their time.
const slowest = 12

// failureLines is how much of what a failed test printed first, and last, the
// summary repeats: whoever sees the end of the output alone sees why.
const failureLines = 6

// summary prints what was paid for what, a line for each stage, and returns
// true when all passed.
func (s *suite) summary() bool {
	all, ok := counts{}, true
	fmt.Printf("\n%-14s %8s %9s  %6s %6s %7s  %s\n", "stage", "seconds", "processor", "passed", "failed", "skipped", "at commit "+s.commit())
	for _, r := range s.results {
		word := "passed"
		switch {
		case errors.Is(r.err, errNotRun):
			word, ok = r.err.Error(), false
		case r.err != nil:
			word, ok = "FAILED: "+r.err.Error(), false
		}
		fmt.Println(line(r.name, r.took, r.processor, r.tests, word))
		all.add(r.tests)
	}
	word := "passed"
	if !ok {
		word = "FAILED"
	}
	fmt.Println(line("all", time.Since(s.began), processorTime(), all, word))
	printSlowest(all.packages)
	slices.SortFunc(all.skipped, func(a, b skip) int { return cmp.Compare(a.test, b.test) })
	for _, skipped := range all.skipped {
		fmt.Printf("skipped     %s; allowed: %s\n", skipped, cmp.Or(skipped.allowed(), "no"))
	}
	for _, failed := range all.failures {
		fmt.Println("failed     ", failed.name)
		fmt.Print(indent(failed.ends(failureLines)))
	}
	return ok
}

// line is a row of the table. Stages without tests leave those columns empty.
func line(name string, took, processor time.Duration, tests counts, word string) string {
	counted := fmt.Sprintf("%6s %6s %7s", "", "", "")
	if tests.passed+tests.failed+len(tests.skipped) > 0 {
		counted = fmt.Sprintf("%6d %6d %7d", tests.passed, tests.failed, len(tests.skipped))
	}
	return fmt.Sprintf("%-14s %8.1f %9.1f  %s  %s", name, took.Seconds(), processor.Seconds(), counted, word)
}

// printSlowest tells where the time of the tests went. Packages run beside
// each other, so that their seconds add up to more than their stage's.
func printSlowest(packages []packageTime) {
	slices.SortFunc(packages, func(a, b packageTime) int { return cmp.Compare(b.seconds, a.seconds) })
	for _, p := range packages[:min(len(packages), slowest)] {
		fmt.Printf("  %-28s %6.1f s %5d tests\n", p.name, p.seconds, p.tests)
	}
}

// commit is what the figures are of.
func (s *suite) commit() string {
	out, err := exec.Command("git", "-C", s.root, "describe", "--always", "--dirty", "--exclude=*").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
