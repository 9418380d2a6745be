package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// checkout writes a small module whose name is that of the product.
func checkout(t *testing.T, files map[string]string) *suite {
	t.Helper()
	root := t.TempDir()
	files["go.mod"] = "module github.com/squall-chaos/squall\n\ngo 1.26\n"
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return newSuite(root, io.Discard)
}

func testFile(body string) string {
	return "package p\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { " + body + " }\n"
}

// Two packages whose names end alike, one that fails, one without tests.
func TestEveryPackageIsBuiltAndTested(t *testing.T) {
	s := checkout(t, map[string]string{
		"api/a/a_test.go":     testFile(""),
		"api/b/a/a_test.go":   testFile("t.Error(1)"),
		"api/c/c_test.go":     testFile("select {}"),
		"api/without/code.go": "package without\n",
	})
	binaries, err := s.list(t.Context(), s.root, "./...")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.compileTests(t.Context(), s.root, t.TempDir(), binaries, false); err != nil {
		t.Fatal(err)
	}
	var c counts
	r := newReading(&c, s.logf, io.Discard)
	for _, b := range binaries {
		if err := s.runTests(t.Context(), r, b, "-test.timeout=2s"); err != nil {
			t.Error(err)
		}
	}
	r.end()
	if c.passed != 1 || c.outcomes["api/a:_TestA"] != "pass" || c.outcomes["api/b/a:_TestA"] != "fail" || c.outcomes["api/c:_TestA"] != "fail" || len(c.packages) != 3 {
		t.Errorf("%d passed, outcomes %v, packages %v; want api/a to pass and the others to fail", c.passed, c.outcomes, c.packages)
	}
	for _, p := range c.packages {
		if p.processor == 0 {
			t.Errorf("%s took no time of the processors", p.name)
		}
	}
}

func TestABinaryThatDoesNotStartFails(t *testing.T) {
	var c counts
	r := newReading(&c, func(string, ...any) {}, io.Discard)
	err := r.run(exec.Command("false"), "github.com/squall-chaos/squall/api")
	r.end()
	if err == nil || c.failed != 1 || c.failures[0].name != "api" {
		t.Errorf("run() = %v, failures %v, want one of api", err, c.failures)
	}
}

func TestTestsThatDoNotCompileAreAnError(t *testing.T) {
	s := checkout(t, map[string]string{"a/a_test.go": testFile("undefined()")})
	if binaries, err := s.list(t.Context(), s.root, "./..."); err != nil || s.compileTests(t.Context(), s.root, t.TempDir(), binaries, false) == nil {
		t.Errorf("compileTests() = nil (%v), want an error", err)
	}
}

// Each job starts once, in the stage of its package.
func TestJobs(t *testing.T) {
	s := newSuite(".", io.Discard)
	for _, name := range []string{"api", "hack/vm", "injector", "injector/cpupressure", "injector/network", "test/survival", "hack/suite"} {
		s.binaries.all = append(s.binaries.all, testBinary{ImportPath: "github.com/squall-chaos/squall/" + name, oneByOne: strings.HasPrefix(name, "hack")})
	}
	for measure, want := range map[bool]string{true: "injector/network injector injector/cpupressure", false: "hack test/survival api"} {
		var got []string
		for _, j := range s.jobs(t.Context(), nil, measure) {
			got = append(got, j.name)
			if alone := j.takes == processors; alone != (j.name == "injector/cpupressure") {
				t.Errorf("%s runs alone: %t", j.name, alone)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("jobs(%t) = %q, want %q", measure, got, want)
		}
	}
}

// A misspelt package name would have no effect and raise no error.
func TestNamedPackagesExist(t *testing.T) {
	for _, name := range slices.Concat(measuring, longest, waiting) {
		found, err := filepath.Glob(filepath.Join("../..", name, "*_test.go"))
		if name == "hack" { // a job of all its packages
			found, err = filepath.Glob("../*/*_test.go")
		}
		if err != nil || len(found) == 0 {
			t.Errorf("%s has no tests (%v)", name, err)
		}
	}
	for _, name := range raced {
		if found, err := filepath.Glob(filepath.Join("../..", name, "*_test.go")); err != nil || len(found) == 0 {
			t.Errorf("%s has no tests (%v)", name, err)
		}
	}
}

// A test that make test leaves out, and no part runs, would run nowhere.
func TestWhatIsLeftToLongIsAPart(t *testing.T) {
	for name, left := range leftToLong {
		if !slices.Contains(longParts(), left.part) {
			t.Errorf("%s of %s is left to part %q, which does not exist", left.tests, name, left.part)
		}
		files, err := filepath.Glob(filepath.Join("../..", name, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(content), "func "+strings.Trim(left.tests, "^$"))
		}
		if !found {
			t.Errorf("%s has no test %s", name, left.tests)
		}
	}
}
