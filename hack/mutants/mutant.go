package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// mutant is a patch that breaks the product.
type mutant struct {
	// name is that of the file, without .patch.
	name, file string
	// rule is a number of docs/rules.md, or a page and words of it.
	rule string
	// tests are those of which at least one must fail.
	tests []testRun
}

// testRun is a package, such as ./activities/chaospod, with what go test -run takes.
type testRun struct{ folder, pattern string }

func (r testRun) String() string { return r.folder + " " + r.pattern }

// read returns the mutants of a folder whose names match, in order of their names.
func read(folder, pattern string) ([]mutant, error) {
	matches, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.patch"))
	if err != nil {
		return nil, err
	}
	var all []mutant
	var errs []error
	for _, file := range files {
		if !matches.MatchString(strings.TrimSuffix(filepath.Base(file), ".patch")) {
			continue
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		m, err := parse(file, string(content))
		all, errs = append(all, m), append(errs, err)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no mutant in %s matches %q", folder, pattern)
	}
	return all, errors.Join(errs...)
}

// parse reads the header of a patch: what the mutant does in words, a line
// "Rule: 43a" and lines "Test: ./activities/chaospod TestJudge".
func parse(file, content string) (mutant, error) {
	m := mutant{name: strings.TrimSuffix(filepath.Base(file), ".patch"), file: file}
	header, _, isPatch := strings.Cut(content, "\ndiff --git ")
	if !isPatch {
		return m, fmt.Errorf("%s: want a header, then what git diff prints", file)
	}
	for line := range strings.Lines(header) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch word {
		case "Rule":
			m.rule = rest
		case "Test":
			folder, pattern, found := strings.Cut(rest, " ")
			if !found || !strings.HasPrefix(folder, "./") || strings.Contains(pattern, " ") {
				return m, fmt.Errorf("%s: %q: want a package and a pattern, such as Test: ./activities TestFinish", file, line)
			}
			m.tests = append(m.tests, testRun{folder, pattern})
		}
	}
	if m.rule == "" || len(m.tests) == 0 {
		return m, fmt.Errorf("%s: want a line Rule: NUMBER and a line Test: PACKAGE PATTERN", file)
	}
	return m, nil
}
