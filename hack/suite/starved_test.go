package main

import (
	"fmt"
	"strings"
	"testing"
)

const lostMuch = "    a_test.go:7: MACHINE: lost 41 of 60 s\n"

// failed is what a run counts in which TestA failed with the lines and TestB passed.
func failed(lines ...string) counts {
	return counts{passed: 1, failed: 2,
		failures: []failure{{"api: TestA/case", lines}, {"api: TestA", nil}},
		outcomes: map[string]string{"api:_TestA/case": "fail", "api:_TestA": "fail", "api:_TestB": "pass"}}
}

func TestAStarvedTestRunsOnceMore(t *testing.T) {
	for name, c := range map[string]struct {
		first      counts
		secondFail bool
		want       string
	}{
		"passed alone: it was starved":       {failed(lostMuch), false, "ran api TestA; 3 passed, 0 failed, starved [{api: TestA MACHINE: lost 41 of 60 s}]"},
		"failed alone: it failed":            {failed(lostMuch), true, "ran api TestA; 1 passed, 1 failed, starved []"},
		"lost nothing: it is never retried":  {failed("    a_test.go:7: 2, want 1\n"), false, "; 1 passed, 2 failed, starved []"},
		"passed at once: nothing is retried": {counts{passed: 3}, false, "; 3 passed, 0 failed, starved []"},
	} {
		t.Run(name, func(t *testing.T) {
			var ran []string
			got := c.first
			err := got.retryStarved(func(pkg, test string, into *counts) error {
				ran = append(ran, "ran "+pkg+" "+test)
				*into = counts{passed: 2, outcomes: map[string]string{"api:_TestA/case": "pass", "api:_TestA": "pass"}}
				if c.secondFail {
					*into = counts{failed: 1, failures: []failure{{"api: TestA", nil}}, outcomes: map[string]string{"api:_TestA": "fail"}}
				}
				return nil
			})
			reported := fmt.Sprintf("%s; %d passed, %d failed, starved %v", strings.Join(ran, ", "), got.passed, got.failed, got.starved)
			if reported != c.want || err != nil {
				t.Errorf("retryStarved() = %v: %q, want %q", err, reported, c.want)
			}
		})
	}
}

func TestASecondRunThatDoesNotTakePlaceIsAnError(t *testing.T) {
	c := failed(lostMuch)
	err := c.retryStarved(func(string, string, *counts) error { return nil })
	if err == nil || c.failed != 2 {
		t.Errorf("retryStarved() = %v with %d failed, want an error and 2", err, c.failed)
	}
}
