package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	mutantRule = regexp.MustCompile(`(?m)^Rule: (.+)$`)
	mutantTest = regexp.MustCompile(`(?m)^Test: \./(\S+) (\S+)$`)
	literal    = regexp.MustCompile("\"(?:[^\"\\\\\n]|\\\\.)*\"")
)

// TestMutantsAreFresh finds patches of test/mutants that do not apply any more, or
// that name a rule or a test which is gone. make mutants shows that the tests fail.
func TestMutantsAreFresh(t *testing.T) {
	files, err := filepath.Glob("mutants/*.patch")
	if err != nil || len(files) < 15 {
		t.Fatalf("%d mutants, %v; want 15 or more", len(files), err)
	}
	folders, sources := testFunctions(t)
	var numbers []string
	for _, r := range rules(t) {
		numbers = append(numbers, r.number)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("git", "apply", "--check", "test/"+file)
		cmd.Dir = ".."
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s does not apply: %v: %s; make it anew, or remove it with the code", file, err, out)
		}
		rule, tests := mutantRule.FindStringSubmatch(string(content)), mutantTest.FindAllStringSubmatch(string(content), -1)
		if rule == nil || len(tests) == 0 {
			t.Errorf("%s: want a line Rule: and a line Test:", file)
			continue
		}
		if !slices.Contains(numbers, rule[1]) && !promised(t, rule[1]) {
			t.Errorf("%s breaks rule %q; want a number of docs/rules.md, or a page and words of it", file, rule[1])
		}
		for _, test := range tests {
			if why := matchesNothing(test[1], test[2], folders, sources[test[1]]); why != "" {
				t.Errorf("%s: %s", file, why)
			}
		}
	}
}

// promised is true of "docs/guarantees.md: some words" if the page has these words.
func promised(t *testing.T, rule string) bool {
	t.Helper()
	page, text, found := strings.Cut(rule, ": ")
	if !found || !strings.HasPrefix(page, "docs/") {
		return false
	}
	content, err := os.ReadFile("../" + page)
	if err != nil {
		t.Error(err)
		return false
	}
	return strings.Contains(string(content), text)
}

// matchesNothing returns why go test -run pattern runs nothing in a folder: a
// function of it must match, and for each further part a quoted text of its files.
func matchesNothing(folder, pattern string, folders map[string][]string, source string) string {
	for i, part := range strings.Split(pattern, "/") {
		matches, err := regexp.Compile(part)
		if err != nil {
			return err.Error()
		}
		found := false
		if i == 0 {
			for function, where := range folders {
				found = found || matches.MatchString(function) && slices.Contains(where, folder)
			}
		}
		if i > 0 {
			found = slices.ContainsFunc(literal.FindAllString(source, -1), func(quoted string) bool {
				text, err := strconv.Unquote(quoted)
				return err == nil && matches.MatchString(strings.ReplaceAll(text, " ", "_"))
			})
		}
		if !found {
			return "no test of " + folder + " matches " + strconv.Quote(part)
		}
	}
	return ""
}

func TestMatchesNothing(t *testing.T) {
	folders := map[string][]string{"TestJudge": {"activities/chaospod"}, "TestFinish": {"activities"}}
	const source = "t.Run(\"still \\\"running\\\": wait\", func"
	for pattern, runs := range map[string]bool{
		"TestJudge": true, "TestJ": true, "TestJudge/still_\"running\"": true, "TestFinish": false, "TestJudge/running_still": false, "TestJudge(": false,
	} {
		if why := matchesNothing("activities/chaospod", pattern, folders, source); (why == "") != runs {
			t.Errorf("matchesNothing(%q) = %q, want that it runs a test: %t", pattern, why, runs)
		}
	}
}
