package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// proof is a test that a rule of docs/rules.md names: "activities: TestJudge",
// "workflows: TestStuck/it tries again by itself", or "make verify: WORD".
type proof struct{ rule, test string }

var (
	row    = regexp.MustCompile(`(?m)^\| ([A-Z]?\d+[a-z]?) \| .+ \| (.+) \|$`)
	quoted = regexp.MustCompile("`([^`:]+: [^`]+)`")
)

// proofs are all tests that the list of rules names. Whether it is complete is
// for the tests of ./test.
func proofs(rules string) []proof {
	var all []proof
	for _, found := range row.FindAllStringSubmatch(rules, -1) {
		for _, test := range quoted.FindAllStringSubmatch(found[2], -1) {
			all = append(all, proof{found[1], test[1]})
		}
	}
	return all
}

// unproved names each rule a test of which did not run and pass in this run.
func (s *suite) unproved(proofs []proof) []string {
	var missing []string
	for _, p := range proofs {
		if how := s.outcome(p.test); how != "passed" {
			missing = append(missing, fmt.Sprintf("rule %s is not proved: %s %s", p.rule, p.test, how))
		}
	}
	return missing
}

// outcome is what became of a test in this run. One that several stages ran
// has passed when it passed in one and failed in none.
func (s *suite) outcome(test string) string {
	if target, _, _ := strings.Cut(test, ": "); strings.HasPrefix(target, "make ") {
		return s.stageOutcome(strings.TrimPrefix(target, "make "))
	}
	name := strings.ReplaceAll(test, " ", "_")
	how := "did not run"
	for _, r := range s.results.all() {
		switch r.tests.outcomes[name] {
		case "fail":
			return "failed"
		case "pass":
			how = "passed"
		case "skip":
			if how != "passed" {
				how = "was skipped"
			}
		}
	}
	return how
}

func (s *suite) stageOutcome(name string) string {
	for _, r := range s.results.all() {
		if r.name == name && r.err == nil {
			return "passed"
		}
	}
	return "did not pass"
}

// rules is the stage that compares docs/rules.md with what ran. It is the last
// one: tests of any stage may prove a rule.
func (s *suite) rules(context.Context, *counts) error {
	content, err := os.ReadFile(filepath.Join(s.root, "docs", "rules.md"))
	if err != nil {
		return err
	}
	all := proofs(string(content))
	missing := s.unproved(all)
	for _, line := range missing {
		s.say("    %s", line)
	}
	if len(missing) > 0 || len(all) == 0 {
		return fmt.Errorf("%d of %d tests that docs/rules.md names did not prove their rule", len(missing), len(all))
	}
	s.say("    all %d tests that docs/rules.md names passed", len(all))
	return nil
}
