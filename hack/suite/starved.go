package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// starvedMark begins the line with which a failed test blames the machine, such as
// "MACHINE: lost 41 of 60 s": other programs had the processors for more than 30 % of
// its time. The package test/patience prints it.
const starvedMark = "MACHINE: "

// mostStarved is how many tests of a run may fail for want of processors.
const mostStarved = 3

// starvation is a test that failed for want of processors, and passed when it ran
// once more, alone.
type starvation struct{ name, lost string }

// lostTime is the time that a failed test reports as lost; empty if it lost
// little.
func (f failure) lostTime() string {
	for _, line := range f.output {
		if _, after, found := strings.Cut(line, starvedMark); found {
			return strings.TrimSpace(starvedMark + after)
		}
	}
	return ""
}

// parent is the name of the test without its subtests.
func parent(name string) string {
	pkg, test, _ := strings.Cut(name, ": ")
	test, _, _ = strings.Cut(test, "/")
	return pkg + ": " + test
}

// retryStarved runs each test once more that failed for want of processors. Its
// second outcome replaces the first. Nothing else is ever retried. The error is of a
// second run that could not take place.
func (c *counts) retryStarved(run func(pkg, test string, into *counts) error) error {
	var names []string
	lost := map[string]string{}
	for _, f := range c.failures {
		if reported := f.lostTime(); reported != "" && !slices.Contains(names, parent(f.name)) {
			names = append(names, parent(f.name))
			lost[parent(f.name)] = reported
		}
	}
	var errs []error
	for _, name := range names[:min(len(names), mostStarved+1)] {
		var second counts
		pkg, test, _ := strings.Cut(name, ": ")
		err := run(pkg, test, &second)
		if second.passed+second.failed == 0 {
			errs = append(errs, fmt.Errorf("second run of %s: %w", name, errors.Join(err, errors.New("no test ran"))))
			continue
		}
		c.forget(name)
		if second.failed == 0 {
			c.starved = append(c.starved, starvation{name, lost[name]})
		}
		second.packages = nil
		c.add(second)
	}
	return errors.Join(errs...)
}

// forget removes what is known of a test and its subtests.
func (c *counts) forget(name string) {
	of := func(other string) bool { return parent(other) == name }
	c.failures = slices.DeleteFunc(c.failures, func(f failure) bool { return of(f.name) })
	c.skipped = slices.DeleteFunc(c.skipped, func(s skip) bool { return of(s.test) })
	c.tests = slices.DeleteFunc(c.tests, func(t testTime) bool { return of(t.name) })
	for other, outcome := range c.outcomes {
		if !of(strings.Replace(other, ":_", ": ", 1)) {
			continue
		}
		delete(c.outcomes, other)
		switch outcome {
		case "pass":
			c.passed--
		case "fail":
			c.failed--
		}
	}
}
