package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// longFolder has a file for each part of make test-long that proves rules.
const longFolder = "test/long"

// longAge is how many commits a result of make test-long may be behind.
const longAge = 200

// longResult is a part of make test-long that passed, as longFolder keeps it.
type longResult struct {
	Part string `json:"part"`
	// Commit is what was tested, with nothing changed in the checkout.
	Commit string `json:"commit"`
	// Date is the day of the run, such as 2026-11-29.
	Date string `json:"date"`
	// Outcomes are those of the tests that docs/rules.md marks (long), as the page names them.
	Outcomes map[string]string `json:"outcomes"`
}

// keepingResult is a part that writes its result for docs/rules.md when it passed.
func (s *suite) keepingResult(part stage) stage {
	run := part.run
	part.run = func(ctx context.Context, c *counts) error {
		commit, unchanged := s.checkout(ctx)
		if err := errors.Join(run(ctx, c), c.verdict(part.least)); err != nil {
			return err
		}
		after, still := s.checkout(ctx)
		if !unchanged || !still || after != commit {
			s.logf("    not kept as a proof of rules: the checkout was changed, so the result belongs to no commit")
			return nil
		}
		return s.keepResult(longResult{Part: part.name, Commit: commit, Date: time.Now().UTC().Format(time.DateOnly)}, c)
	}
	return part
}

// keepResult writes the outcomes of the tests that rules name with (long) and that
// are among c. Without such tests the part has no file.
func (s *suite) keepResult(r longResult, c *counts) error {
	all, err := s.proofs()
	if err != nil {
		return err
	}
	r.Outcomes = map[string]string{}
	for _, p := range all {
		if how := c.outcome(p.test); p.long && how != didNotRun {
			r.Outcomes[p.test] = how
		}
	}
	file := filepath.Join(s.root, longFolder, r.Part+".json")
	if len(r.Outcomes) == 0 {
		if err := os.Remove(file); !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	s.logf("    commit %s: it proves %d tests of docs/rules.md", filepath.Join(longFolder, r.Part+".json"), len(r.Outcomes))
	return os.WriteFile(file, append(content, '\n'), 0o644)
}

// checkout returns the commit of the checkout, and whether the files are those of
// the commit. Results of other parts may be new.
func (s *suite) checkout(ctx context.Context) (commit string, unchanged bool) {
	commit, err := s.git(ctx, "rev-parse", "HEAD")
	changed, statusErr := s.git(ctx, "status", "--porcelain", "--", ".", ":!"+longFolder)
	return commit, err == nil && statusErr == nil && changed == ""
}

// longOutcomes are the outcomes that committed results of make test-long show. A
// result that does not count is among the problems instead.
func (s *suite) longOutcomes(ctx context.Context) (outcomes map[string]string, problems []string) {
	outcomes = map[string]string{}
	files, _ := filepath.Glob(filepath.Join(s.root, longFolder, "*.json")) // the pattern is valid
	for _, file := range files {
		r, err := s.readResult(ctx, file)
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v", filepath.Join(longFolder, filepath.Base(file)), err))
			continue
		}
		for test, how := range r.Outcomes {
			if outcomes[test] != passed {
				outcomes[test] = how
			}
		}
	}
	return outcomes, problems
}

func (s *suite) readResult(ctx context.Context, file string) (longResult, error) {
	var r longResult
	content, err := os.ReadFile(file)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(content, &r); err != nil {
		return r, err
	}
	if want := strings.TrimSuffix(filepath.Base(file), ".json"); r.Part != want || !slices.Contains(longParts(), r.Part) {
		return r, fmt.Errorf("result of part %q; want one of %s, in a file of that name", r.Part, strings.Join(longParts(), ", "))
	}
	date, err := time.Parse(time.DateOnly, r.Date)
	if err != nil {
		return r, err
	}
	behind, err := s.commitsBehind(ctx, r.Commit)
	if err != nil {
		return r, err
	}
	days := int(time.Now().UTC().Truncate(24*time.Hour).Sub(date).Hours() / 24)
	s.logf("    part %s of make test-long passed %d days and %d commits ago", r.Part, days, behind)
	if behind > longAge {
		return r, fmt.Errorf("the result is %d commits and %d days old, and %d commits are allowed: run make test-long PART=%s and commit the file", behind, days, longAge, r.Part)
	}
	return r, nil
}

// commitsBehind is how many commits HEAD has that commit has not. It is an error
// when commit is not an ancestor of HEAD.
func (s *suite) commitsBehind(ctx context.Context, commit string) (int, error) {
	if len(commit) != 40 || strings.Trim(commit, "0123456789abcdef") != "" {
		return 0, fmt.Errorf("commit %q: want 40 hexadecimal digits", commit)
	}
	if _, err := s.git(ctx, "merge-base", "--is-ancestor", commit, "HEAD"); err != nil {
		if shallow, _ := s.git(ctx, "rev-parse", "--is-shallow-repository"); shallow == "true" {
			return 0, fmt.Errorf("this shallow clone does not show commit %.12s among the ancestors of HEAD: run git fetch --deepen=%d, or clone with the whole history", commit, longAge+1)
		}
		return 0, fmt.Errorf("commit %.12s is not an ancestor of HEAD: run make test-long again for this part and commit the file", commit)
	}
	count, err := s.git(ctx, "rev-list", "--count", commit+"..HEAD")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(count)
}

// git returns what git prints about the checkout.
func (s *suite) git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", s.root}, args...)...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
