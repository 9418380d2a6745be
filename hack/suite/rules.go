package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

// unproved names each rule with a test that did not run and pass in this run.
func (s *suite) unproved(proofs []proof) []string {
	var all counts
	for _, r := range s.results {
		all.add(r.tests)
	}
	var missing []string
	for _, p := range proofs {
		how := all.outcome(p.test)
		if target, isMake := strings.CutPrefix(p.test, "make "); isMake {
			target, _, _ = strings.Cut(target, ": ")
			how = s.stageOutcome(target)
		}
		if how != passed {
			missing = append(missing, fmt.Sprintf("rule %s is not proved: %s %s", p.rule, p.test, how))
		}
	}
	return missing
}

// passed is the outcome of a test that proves its rule.
const passed = "passed"

// outcome is the result of a test together with all of its subtests. Stages and
// kernels count together: each of these tests has passed when it passed once and
// never failed. A test with a skipped subtest proves less than its name says.
func (c *counts) outcome(test string) string {
	name := strings.ReplaceAll(test, " ", "_")
	results := map[string]string{}
	for ran, result := range c.outcomes {
		ran = withoutKernel(ran)
		if ran != name && !strings.HasPrefix(ran, name+"/") {
			continue
		}
		if before := results[ran]; before == "" || before == "skip" || result == "fail" {
			results[ran] = result
		}
	}
	var skipped []string
	for ran, result := range results {
		switch result {
		case "fail":
			return "failed"
		case "skip":
			skipped = append(skipped, ran)
		}
	}
	switch {
	case len(results) == 0:
		return "did not run"
	case results[name] == "skip":
		return "was skipped"
	case len(skipped) == 0:
		return passed
	}
	first := slices.Min(skipped)
	return fmt.Sprintf("was proved only in part: %d subtests skipped: %s: %s", len(skipped), strings.TrimPrefix(first, name+"/"), c.reason(first))
}

// reason is why a test was skipped.
func (c *counts) reason(test string) string {
	for _, s := range c.skipped {
		if withoutKernel(strings.ReplaceAll(s.test, " ", "_")) == test {
			return s.reason
		}
	}
	return "no reason given"
}

// withoutKernel is the name of a test without the kernel that it ran on: kerneltest
// puts "@qemu" or "@uml" behind the package.
func withoutKernel(test string) string {
	folder, function, _ := strings.Cut(test, ":")
	if folder, _, onKernel := strings.Cut(folder, "@"); onKernel {
		return folder + ":" + function
	}
	return test
}

func (s *suite) stageOutcome(name string) string {
	for _, r := range s.results {
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
