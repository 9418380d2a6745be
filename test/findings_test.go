package test

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// finding is a row of docs/security-findings.md.
var finding = regexp.MustCompile(`(?m)^\| (N?\d+b?) \| .+ \| (.+) \| (.+) \|$`)

// TestEveryFindingIsFixedOrBound finds findings of the first review that the page leaves
// out, and tests and rules of such that are no more.
func TestEveryFindingIsFixedOrBound(t *testing.T) {
	content, err := os.ReadFile("../docs/security-findings.md")
	if err != nil {
		t.Fatal(err)
	}
	folders, sources := testFunctions(t)
	known := map[string]bool{}
	for _, r := range rules(t) {
		known[r.number] = true
	}
	var numbers []string
	for _, row := range finding.FindAllStringSubmatch(string(content), -1) {
		number, became, proof := row[1], row[2], row[3]
		numbers = append(numbers, number)
		if !strings.HasPrefix(became, "fixed") && !strings.HasPrefix(became, "bound: ") {
			t.Errorf("finding %s is %q: say that it is fixed, or bound and why", number, became)
		}
		tests := quoted.FindAllStringSubmatch(proof, -1)
		for _, q := range tests {
			if !slices.Contains(folders[q[2]], q[1]) || q[3] != "" && !strings.Contains(sources[q[1]], strconv.Quote(q[3])) {
				t.Errorf("finding %s names the test %s, which is not there", number, strings.Trim(q[0], "`"))
			}
		}
		cited := spread(part.FindAllString(quoted.ReplaceAllString(proof, ""), -1))
		for _, rule := range cited {
			if !known[rule] {
				t.Errorf("finding %s names rule %s, which docs/rules.md does not have", number, rule)
			}
		}
		if len(tests)+len(cited) == 0 {
			t.Errorf("finding %s has neither test nor rule", number)
		}
	}
	first := slices.IndexFunc(numbers, func(number string) bool { return number[0] == 'N' })
	if want := spread([]string{"1-38"}); first < 0 || !slices.Equal(numbers[:first], want) {
		t.Errorf("findings %v, want each of %v once and in order", numbers, want)
	}
	if later := numbers[max(first, 0):]; len(slices.Compact(slices.Clone(later))) != len(later) {
		t.Errorf("findings %v, want each once", later)
	}
}

// Each row of docs/contributing/failures.md names a test that exists, or its bound.
func TestEveryFailureInTheLargeIsTestedOrBound(t *testing.T) {
	content, err := os.ReadFile("../docs/contributing/failures.md")
	if err != nil {
		t.Fatal(err)
	}
	folders, _ := testFunctions(t)
	rows := 0
	for line := range strings.Lines(string(content)) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| failure ") {
			continue
		}
		rows++
		tests := quoted.FindAllStringSubmatch(line, -1)
		for _, q := range tests {
			if !slices.Contains(folders[q[2]], q[1]) {
				t.Errorf("%s names a test that does not exist: %s", strings.TrimSpace(line), q[0])
			}
		}
		if len(tests) == 0 && !strings.Contains(line, "ound: ") {
			t.Errorf("%s has neither a test nor a bound", strings.TrimSpace(line))
		}
	}
	if rows < 13 {
		t.Errorf("%d rows, want 13 at least", rows)
	}
}
