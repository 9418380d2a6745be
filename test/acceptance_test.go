package test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// rules is how many numbered rules the lifecycle has.
const rules = 61

// TestEveryRuleHasATest finds rules of the lifecycle that no test claims to
// prove. A claim is a comment that begins with the word rule and lists
// numbers: "rules 38-40, 44". That the claim is true is for the reviewer.
func TestEveryRuleHasATest(t *testing.T) {
	claimed := map[int][]string{}
	for _, file := range goFiles(t, "_test.go") {
		if filepath.Base(file) == "acceptance_test.go" {
			continue // this file speaks of claims without making any
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, number := range claims(string(content)) {
			claimed[number] = append(claimed[number], file)
		}
	}
	var missing []string
	for number := 1; number <= rules; number++ {
		if len(claimed[number]) == 0 {
			missing = append(missing, strconv.Itoa(number))
		}
	}
	if len(missing) > 0 {
		t.Errorf("no test cites: rule %s", strings.Join(missing, ", "))
	}
}

// TestEveryRuleOfTemporalHasATest does the same for the rules T1 to T8. T4 is
// kept by make verify, which runs workflowcheck.
func TestEveryRuleOfTemporalHasATest(t *testing.T) {
	claimed := map[string]bool{"T4": true}
	for _, file := range goFiles(t, "_test.go") {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range temporalClaim.FindAllString(string(content), -1) {
			for _, rule := range temporalRule.FindAllString(line, -1) {
				claimed[rule] = true
			}
		}
	}
	for n := 1; n <= 8; n++ {
		if rule := fmt.Sprint("T", n); !claimed[rule] {
			t.Errorf("no test cites: rule %s", rule)
		}
	}
}

func TestClaims(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{"// rule 14", "[14]"},
		{"x := 1 // rule 2, 5-7", "[2 5 6 7]"},
		{"// (rule 43a, 48a)", "[43 48]"},
		{"// Rules 3 and 4", "[3 4]"},
		{"rule 9 outside of a comment", "[]"},
		{`name: "rule 9 in a string"`, "[]"},
	} {
		if got := fmt.Sprint(claims(c.source)); got != c.want {
			t.Errorf("claims(%q) = %s, want %s", c.source, got, c.want)
		}
	}
}

var (
	claim         = regexp.MustCompile(`//.*\b[Rr]ules? ((?:\d+a?(?:-\d+)?(?:, | and )?)+)`)
	temporalClaim = regexp.MustCompile(`//.*\b[Rr]ules? .*\bT[1-8]\b.*`)
	temporalRule  = regexp.MustCompile(`\bT[1-8]\b`)
	span          = regexp.MustCompile(`(\d+)a?(?:-(\d+))?`)
)

// claims are the numbers that the comments of a file cite.
func claims(source string) []int {
	numbers := []int{}
	for _, found := range claim.FindAllStringSubmatch(source, -1) {
		for _, s := range span.FindAllStringSubmatch(found[1], -1) {
			first, _ := strconv.Atoi(s[1]) // the expression takes only digits
			last, err := strconv.Atoi(s[2])
			if err != nil {
				last = first
			}
			for n := first; n <= last && n <= rules; n++ {
				numbers = append(numbers, n)
			}
		}
	}
	return numbers
}

// goFiles are the files of the repository with a suffix, without what is
// generated, downloaded or running.
func goFiles(t *testing.T, suffix string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != ".." && strings.HasPrefix(entry.Name(), ".") || entry.IsDir() && entry.Name() == "bin" {
			return filepath.SkipDir
		}
		if !entry.IsDir() && strings.HasSuffix(path, suffix) {
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
