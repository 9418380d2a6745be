package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// A name that no package has would shuffle nothing, and two would hide one.
func TestShuffledPackagesExist(t *testing.T) {
	if !slices.IsSorted(shuffled) || len(slices.Compact(slices.Clone(shuffled))) != len(shuffled) {
		t.Errorf("the list is not sorted, or names a package twice: %q", shuffled)
	}
	for _, name := range shuffled {
		if found, err := filepath.Glob(filepath.Join("../..", name, "*_test.go")); err != nil || len(found) == 0 {
			t.Errorf("%s has no tests (%v)", name, err)
		}
	}
}

// The test binary of a listed package gets the seed; with every seed all tests run, and
// the order of a seed is the same each time. A failure names the order.
func TestShuffleFollowsTheSeed(t *testing.T) {
	defer func(before []string) { shuffled = before }(shuffled)
	shuffled = []string{"api/a"}
	var body strings.Builder
	body.WriteString("package p\n\nimport \"testing\"\n")
	for name := 'A'; name <= 'H'; name++ {
		fmt.Fprintf(&body, "func Test%c(t *testing.T) { t.Error() }\n", name)
	}
	s := checkout(t, map[string]string{"api/a/a_test.go": body.String(), "api/b/b_test.go": body.String()})
	directory := t.TempDir()
	binaries, err := s.list(t.Context(), s.root, "./...")
	if err == nil {
		err = s.compileTests(t.Context(), s.root, directory, binaries, false)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.binaries.all = binaries
	ran := func(seed uint64) map[string]string {
		s.seed = seed
		var c counts
		if err := s.unit(t.Context(), &c); err != nil {
			t.Fatal(err)
		}
		orders := map[string]string{}
		for _, f := range c.failures {
			pkg, test, _ := strings.Cut(f.name, ": Test")
			orders[pkg] += test
			named := strings.Contains(strings.Join(f.output, ""), fmt.Sprintf("-shuffle=%d", seed))
			if want := pkg == "api/a" && seed != 0; named != want {
				t.Errorf("seed %d: the failure %s names its order: %t, want %t", seed, f.name, named, want)
			}
		}
		return orders
	}
	first, again, other := ran(7), ran(7), ran(8)
	if first["api/a"] != again["api/a"] || first["api/a"] == other["api/a"] || len(first["api/a"]) != 8 {
		t.Errorf("ran %q, again %q, with another seed %q; want all, twice alike and once not", first["api/a"], again["api/a"], other["api/a"])
	}
	for _, in := range []string{first["api/b"], ran(0)["api/a"]} {
		if in != "ABCDEFGH" {
			t.Errorf("tests that are not shuffled ran as %q", in)
		}
	}
}

func TestSeed(t *testing.T) {
	s, _ := inCheckout(t, 1)
	hash, err := s.git(t.Context(), "rev-parse", "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		suite    *suite
		variable string
		want     string
	}{
		"of the commit":      {s, "", "commit " + hash[:8] + " " + hash[:8] + " <nil>"},
		"given":              {s, "18446744073709551615", "SQUALL_SEED ffffffffffffffff <nil>"},
		"zero":               {s, "0", ` 00000000 SQUALL_SEED="0": want a number above 0`},
		"no number":          {s, "on", ` 00000000 SQUALL_SEED="on": want a number above 0`},
		"without a commit":   {newSuite(t.TempDir(), io.Discard), "", "no commit"},
		"given, without one": {newSuite(t.TempDir(), io.Discard), "5", "SQUALL_SEED 00000005 <nil>"},
	} {
		t.Run(name, func(t *testing.T) {
			seed, from, err := c.suite.findSeed(t.Context(), c.variable)
			if got := fmt.Sprintf("%s %08x %v", from, seed, err); !strings.HasPrefix(got, c.want) {
				t.Errorf("findSeed(%q) = %q, want %q", c.variable, got, c.want)
			}
		})
	}
}

func TestARunPrintsItsSeedFirst(t *testing.T) {
	for given, want := range map[string]string{
		"12": `^ +\d+\.\d s  seed 12, of SQUALL_SEED; .* again: SQUALL_SEED=12\n`,
		"x":  `^ +\d+\.\d s  --- seed FAILED: SQUALL_SEED="x": want a number above 0\n`,
	} {
		t.Setenv(seedVariable, given)
		var out strings.Builder
		nothing := func(context.Context, *counts) error { return nil }
		passed := newSuite(".", &out).run(t.Context(), []stage{{name: "unit", limit: time.Minute, run: nothing}})
		if !regexp.MustCompile(want).MatchString(out.String()) || passed != (given == "12") {
			t.Errorf("run() = %t and printed %q, want %s", passed, out.String(), want)
		}
	}
}

// The suite and test/sample read the same variable: one value repeats a run.
func TestSampleReadsTheSameVariable(t *testing.T) {
	content, err := os.ReadFile("../../test/sample/sample.go")
	if want := "const Variable = \"" + seedVariable + "\""; err != nil || !strings.Contains(string(content), want) {
		t.Errorf("test/sample/sample.go has no %s (%v)", want, err)
	}
}
