package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// proof is a test that a rule of docs/rules.md names: "activities: TestJudge",
// "workflows: TestStuck/it tries again by itself", or "make verify: WORD". A long
// one is proved by a kept result of make test-long.
type proof struct {
	rule, test string
	long       bool
}

var (
	row    = regexp.MustCompile(`(?m)^\| ([A-Z]?\d+[a-z]?) \| .+ \| (.+) \|$`)
	quoted = regexp.MustCompile("`([^`:]+: [^`]+)`( \\(long\\))?")
)

// proofs are all tests that the list of rules names. The tests of ./test find out
// whether the list is complete.
func proofs(rules string) []proof {
	var all []proof
	for _, found := range row.FindAllStringSubmatch(rules, -1) {
		for _, test := range quoted.FindAllStringSubmatch(found[2], -1) {
			all = append(all, proof{rule: found[1], test: test[1], long: test[2] != ""})
		}
	}
	return all
}

// proofs are those of docs/rules.md.
func (s *suite) proofs() ([]proof, error) {
	content, err := os.ReadFile(filepath.Join(s.root, "docs", "rules.md"))
	return proofs(string(content)), err
}

// unproved names each rule with a test that did not run and pass, in this run or,
// of a long one, in the result of make test-long that is kept.
func (s *suite) unproved(proofs []proof, long map[string]string) []string {
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
		if p.long {
			how = cmp.Or(long[p.test], "is marked (long) and has no result that counts: run make test-long and commit "+longFolder)
		}
		if q, listed := inQuarantine(p.test); listed {
			how = "is in quarantine and proves nothing: " + q.reason
		}
		if how != passed {
			missing = append(missing, fmt.Sprintf("rule %s is not proved: %s %s", p.rule, p.test, how))
		}
	}
	return missing
}

const (
	// passed is the outcome of a test that proves its rule.
	passed = "passed"
	// didNotRun is the outcome of a test that no stage had.
	didNotRun = "did not run"
)

// outcome is the result of a test together with all of its subtests. Stages and
// kernels count together: each of these tests has passed when it passed once and
// never failed. A test with a skipped subtest proves less than its name promises.
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
		return didNotRun
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
func (s *suite) rules(ctx context.Context, _ *counts) error {
	all, err := s.proofs()
	if err != nil {
		return err
	}
	long, problems := s.longOutcomes(ctx)
	missing := s.unproved(all, long)
	for _, line := range slices.Concat(problems, missing) {
		s.logf("    %s", line)
	}
	if len(missing)+len(problems) > 0 || len(all) == 0 {
		return fmt.Errorf("%d of %d tests that docs/rules.md names did not prove their rule; %d results of make test-long do not count", len(missing), len(all), len(problems))
	}
	s.logf("    all %d tests that docs/rules.md names passed", len(all))
	return nil
}
