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

// slowest is how many tests are listed with their time, and mostPackages how many
// packages.
const slowest, mostPackages = 20, 50

// failureLines is how much of what a failed test printed first, and last, the
// summary repeats: whoever sees the end of the output alone sees why.
const failureLines = 6

// summary prints what was paid for what, a line for each stage, and returns true when
// all passed.
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
	printPackages(all.packages)
	printSlowest(all.tests)
	slices.SortFunc(all.skipped, func(a, b skip) int { return cmp.Compare(a.test, b.test) })
	for _, skipped := range all.skipped {
		fmt.Printf("skipped     %s; allowed: %s\n", skipped, cmp.Or(skipped.allowed(), "no"))
	}
	for _, starved := range all.starved {
		fmt.Printf("starved     %s: failed, %s; passed alone\n", starved.name, starved.lost)
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

// printPackages prints where the time went, by what packages took of the processors.
// Packages run beside each other, so that their seconds add up to more than their
// stage's.
func printPackages(packages []packageTime) {
	slices.SortFunc(packages, func(a, b packageTime) int {
		return cmp.Or(cmp.Compare(b.processor, a.processor), cmp.Compare(b.seconds, a.seconds))
	})
	fmt.Printf("\n%-44s %8s %9s  %6s\n", "package", "seconds", "processor", "tests")
	var rest packageTime
	for i, p := range packages {
		if p.processor < time.Second && p.seconds < 2 || i >= mostPackages {
			rest.seconds, rest.processor, rest.tests = rest.seconds+p.seconds, rest.processor+p.processor, rest.tests+p.tests
			continue
		}
		fmt.Printf("%-44s %8.1f %9.1f  %6d\n", p.name, p.seconds, p.processor.Seconds(), p.tests)
	}
	fmt.Printf("%-44s %8.1f %9.1f  %6d\n", "all others", rest.seconds, rest.processor.Seconds(), rest.tests)
}

// printSlowest prints the tests that took longest.
func printSlowest(tests []testTime) {
	slices.SortFunc(tests, func(a, b testTime) int { return cmp.Compare(b.seconds, a.seconds) })
	fmt.Printf("\n%-75s %8s\n", "slowest tests", "seconds")
	for _, t := range tests[:min(len(tests), slowest)] {
		fmt.Printf("%-75s %8.1f\n", t.name, t.seconds)
	}
	fmt.Println()
}

// commit is what the figures are of.
func (s *suite) commit() string {
	out, err := exec.Command("git", "-C", s.root, "describe", "--always", "--dirty", "--exclude=*").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
