package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// inCheckout is a suite whose root is a new repository with so many commits and
// docs/rules.md, and the hash of the first commit.
func inCheckout(t *testing.T, commits int) (s *suite, first string) {
	t.Helper()
	s = newSuite(t.TempDir(), io.Discard)
	var stream strings.Builder
	for i := range commits {
		fmt.Fprintf(&stream, "commit refs/heads/main\ncommitter a <a@example.com> %d +0000\ndata 1\nx\n", 1e9+i)
		fmt.Fprintf(&stream, "M 644 inline docs/rules.md\ndata %d\n%s\n", len(longRules), longRules)
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"fast-import", "--quiet"}, {"checkout", "-q", "-f", "main"}} {
		cmd := exec.Command("git", append([]string{"-C", s.root}, args...)...)
		cmd.Stdin = strings.NewReader(stream.String())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	first, err := s.git(t.Context(), "rev-list", "--max-parents=0", "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	return s, first
}

func (s *suite) write(t *testing.T, name, content string) {
	t.Helper()
	file := filepath.Join(s.root, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// asked runs the stage rules after a stage in which the test that is not long
// passed, and returns its output.
func (s *suite) asked(t *testing.T) (printed string, err error) {
	t.Helper()
	var out strings.Builder
	s.out = &out
	s.results = []result{{name: "unit", tests: counts{outcomes: map[string]string{"api:_TestA": "pass", "api:_TestA/at_once": "pass"}}}}
	err = s.rules(t.Context(), nil)
	return out.String(), err
}

func TestRulesAreProvedByAKeptResult(t *testing.T) {
	const both = `"api: TestA": "passed", "api: TestC d": "passed"`
	for name, c := range map[string]struct {
		commits      int
		part, commit string // empty: qemu, the first commit
		outcomes     string
		printed      string
		fails        bool
	}{
		"of the last commit":          {commits: 1, outcomes: both, printed: "part qemu of make test-long passed 3 days and 0 commits ago"},
		"200 commits behind":          {commits: 201, outcomes: both, printed: "3 days and 200 commits ago"},
		"201 commits behind":          {commits: 202, outcomes: both, printed: "test/long/qemu.json: the result is 201 commits and 3 days old, and 200 commits are allowed: run make test-long PART=qemu", fails: true},
		"of a commit of another line": {commits: 1, commit: strings.Repeat("a", 40), outcomes: both, printed: "commit aaaaaaaaaaaa is not an ancestor of HEAD", fails: true},
		"of what is no commit":        {commits: 1, commit: "--all", outcomes: both, printed: `commit "--all": want 40 hexadecimal digits`, fails: true},
		"of a part that there is not": {commits: 1, part: "other", outcomes: both, printed: `result of part "other"`, fails: true},
		"without one of the tests":    {commits: 1, outcomes: `"api: TestA": "passed"`, printed: "rule 7 is not proved: api: TestC d is marked (long) and has no result that counts", fails: true},
		"a test was proved in part":   {commits: 1, outcomes: `"api: TestA": "was proved only in part: so", "api: TestC d": "passed"`, printed: "rule 7 is not proved: api: TestA was proved only in part: so", fails: true},
		"a long test passed in unit":  {commits: 1, outcomes: `"api: TestC d": "passed"`, printed: "rule 7 is not proved: api: TestA is marked (long)", fails: true},
		"no JSON":                     {commits: 1, outcomes: `"api`, printed: "test/long/qemu.json: ", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			s, first := inCheckout(t, c.commits)
			part, commit := c.part, c.commit
			if part == "" {
				part = "qemu"
			}
			if commit == "" {
				commit = first
			}
			date := time.Now().UTC().AddDate(0, 0, -3).Format(time.DateOnly)
			s.write(t, "test/long/qemu.json", fmt.Sprintf(`{"part": %q, "commit": %q, "date": %q, "outcomes": {%s}}`, part, commit, date, c.outcomes))
			printed, err := s.asked(t)
			if (err != nil) != c.fails || !strings.Contains(printed, c.printed) {
				t.Errorf("rules() = %v and printed %q, want %q", err, printed, c.printed)
			}
		})
	}
}

func TestAShallowCloneNamesTheRemedy(t *testing.T) {
	origin, first := inCheckout(t, 3)
	s := newSuite(filepath.Join(t.TempDir(), "clone"), io.Discard)
	if out, err := exec.Command("git", "clone", "-q", "--depth=1", "file://"+origin.root, s.root).CombinedOutput(); err != nil {
		t.Fatalf("git clone: %v: %s", err, out)
	}
	s.write(t, "test/long/qemu.json", fmt.Sprintf(`{"part": "qemu", "commit": %q, "date": "2026-01-01", "outcomes": {}}`, first))
	if printed, err := s.asked(t); err == nil || !strings.Contains(printed, "run git fetch --deepen=201") {
		t.Errorf("rules() = %v and printed %q, want what to do", err, printed)
	}
}

func TestAPartKeepsWhatItProves(t *testing.T) {
	ran := counts{passed: 3, outcomes: map[string]string{"api@qemu:_TestA": "pass", "api@qemu:_TestA/at_once": "pass", "api@qemu:_TestA/x": "skip", "api@qemu:_TestC_d": "pass", "api@qemu:_TestE": "pass"}}
	for name, c := range map[string]struct {
		least  int
		before string // a file that is there before
		during string // one that is written meanwhile
		commit bool   // one is made meanwhile
		tests  counts
		err    error
		want   string // without commit and date
	}{
		"a part that passed":              {tests: ran, want: `{"part": "qemu", "outcomes": {"api: TestA": "was proved only in part: 1 subtests skipped: x: no reason given", "api: TestC d": "passed"}}`},
		"one that failed":                 {tests: ran, err: errors.New("so")},
		"one that lost tests":             {tests: ran, least: 4},
		"a checkout that was changed":     {tests: ran, before: "docs/rules.md"},
		"one with a new file":             {tests: ran, before: "new.go"},
		"one that was changed meanwhile":  {tests: ran, during: "docs/rules.md"},
		"one of two commits":              {tests: ran, commit: true},
		"beside the result of another":    {tests: ran, before: "test/long/uml.json", want: `{"part": "qemu", "outcomes": {"api: TestA": "was proved only in part: 1 subtests skipped: x: no reason given", "api: TestC d": "passed"}}`},
		"one without such tests any more": {tests: counts{passed: 3, outcomes: map[string]string{"api:_TestE": "pass"}}, before: "test/long/qemu.json"},
	} {
		t.Run(name, func(t *testing.T) {
			s, commit := inCheckout(t, 1)
			if c.before != "" {
				s.write(t, c.before, longRules+"\nmore")
			}
			part := s.keepingResult(stage{name: "qemu", least: c.least, run: func(_ context.Context, all *counts) error {
				all.add(c.tests)
				all.passed = c.tests.passed
				if c.commit {
					if _, err := s.git(t.Context(), "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "--allow-empty", "-m", "x"); err != nil {
						t.Error(err)
					}
				}
				if c.during != "" {
					s.write(t, c.during, longRules+"\nmore")
				}
				return c.err
			}})
			err := part.run(t.Context(), &counts{})
			if failed := c.err != nil || c.least > 3; (err != nil) != failed {
				t.Errorf("run() = %v, want that of the part", err)
			}
			content, err := os.ReadFile(filepath.Join(s.root, "test/long/qemu.json"))
			if (err == nil) != (c.want != "") {
				t.Fatalf("the result: %v, want %q", err, c.want)
			}
			today := fmt.Sprintf(`"commit": %q, "date": %q, `, commit, time.Now().UTC().Format(time.DateOnly))
			got := strings.Replace(strings.Join(strings.Fields(string(content)), " "), today, "", 1)
			if got = strings.NewReplacer("{ ", "{", " }", "}").Replace(got); got != c.want {
				t.Errorf("the result is %s, want %s with %s", got, c.want, today)
			}
		})
	}
}
