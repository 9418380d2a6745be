package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// summary prints a line for each stage and returns true when all passed.
func (s *suite) summary() bool {
	all, ok := counts{}, true
	fmt.Println()
	for _, r := range s.results {
		word := "passed"
		switch {
		case errors.Is(r.err, errNotRun):
			word, ok = r.err.Error(), false
		case r.err != nil:
			word, ok = "FAILED: "+r.err.Error(), false
		}
		line := fmt.Sprintf("%-10s %7.1f s  %s", r.name, r.took.Seconds(), word)
		if n := r.tests.passed + r.tests.failed + len(r.tests.skipped); n > 0 {
			line += fmt.Sprintf("; %d tests passed, %d failed, %d skipped", r.tests.passed, r.tests.failed, len(r.tests.skipped))
		}
		fmt.Println(line)
		all.passed += r.tests.passed
		all.failed += r.tests.failed
		all.skipped = append(all.skipped, r.tests.skipped...)
		all.failures = append(all.failures, r.tests.failures...)
	}
	slices.SortFunc(all.skipped, func(a, b skip) int { return strings.Compare(a.test, b.test) })
	for _, why := range all.skipped {
		fmt.Println("skipped    ", why)
	}
	for _, name := range all.failures {
		fmt.Println("failed     ", name)
	}
	word := "passed"
	if !ok {
		word = "FAILED"
	}
	fmt.Printf("all        %7.1f s  %s; %d tests passed, %d failed, %d skipped\n",
		time.Since(s.began).Seconds(), word, all.passed, all.failed, len(all.skipped))
	return ok
}
