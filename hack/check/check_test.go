package main

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestChoose(t *testing.T) {
	packages := []goPackage{
		{ImportPath: module + "test"},
		{ImportPath: module + "test/apiserver"},
		{ImportPath: module + "world", Imports: []string{module + "test/apiserver"}},
		{ImportPath: module + "untested"},
		{ImportPath: module + "pure", TestImports: []string{"testing"}},
		{ImportPath: module + "pure/outside", XTestImports: []string{"testing", module + "pure"}},
		{ImportPath: module + "direct", TestImports: []string{"testing", module + "test/apiserver"}},
		{ImportPath: module + "through", XTestImports: []string{"testing", module + "world"}},
		{ImportPath: module + "root", TestImports: []string{"testing", module + "test/testneeds"}},
		{ImportPath: module + "exec", TestImports: []string{"testing", "os/exec"}},
		{ImportPath: module + "runs", Imports: []string{"os/exec"}, TestImports: []string{"testing"}},
		{ImportPath: module + "two", TestImports: []string{"os/exec", module + "world"}},
	}
	plain, needing := choose(packages)
	for i, name := range plain {
		plain[i] = strings.TrimPrefix(name, module)
	}
	if want := []string{"pure", "pure/outside", "runs"}; !slices.Equal(plain, want) {
		t.Errorf("choose() = %q, want %q", plain, want)
	}
	if want := map[string]int{"an API server": 3, "root": 1, "other programs": 2}; !maps.Equal(needing, want) {
		t.Errorf("choose() counts needs %v, want %v", needing, want)
	}
}

// TestNeedsExist notices a package of the list that was renamed: all that import
// it would count as plain.
func TestNeedsExist(t *testing.T) {
	packages, err := list("../..")
	if err != nil {
		t.Fatal(err)
	}
	for name := range needs {
		if !slices.ContainsFunc(packages, func(p goPackage) bool { return p.ImportPath == name }) {
			t.Errorf("package %s does not exist", name)
		}
	}
}

func TestResults(t *testing.T) {
	const stream = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"fine\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:3: got 1, want 2\n"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestC","Output":"=== RUN   TestC\n"}
{"Action":"output","Package":"p","Test":"TestC","Output":"    c_test.go:3: needs snow\n"}
{"Action":"output","Package":"p","Test":"TestC","Output":"--- SKIP: TestC (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestC"}
{"Action":"output","Package":"p","Output":"FAIL p\n"}
{"Action":"fail","Package":"p"}
{"ImportPath":"q","Action":"build-output","Output":"q.go:1: syntax error\n"}
{"Action":"skip","Package":"empty"}
not JSON
`
	for _, size := range []int{1, 7, len(stream)} {
		var out bytes.Buffer
		r := newResults(&out)
		for part := range slices.Chunk([]byte(stream), size) {
			if n, err := r.Write(part); n != len(part) || err != nil {
				t.Fatalf("Write() = %d, %v, want %d", n, err, len(part))
			}
		}
		if got, want := out.String(), "    b_test.go:3: got 1, want 2\nFAIL p\nq.go:1: syntax error\nnot JSON\n"; got != want {
			t.Errorf("in parts of %d bytes it printed\n%s, want\n%s", size, got, want)
		}
		got := r.summary(3, map[string]int{"root": 2, "an API server": 5})
		want := "1 tests in 3 plain packages passed, 1 skipped (needs snow: 1); not run: packages that need an API server: 5, root: 2 (make test-unit, as root)"
		if got != want {
			t.Errorf("summary() = %q, want %q", got, want)
		}
	}
}

func TestHint(t *testing.T) {
	for _, test := range []struct {
		name, printed string
		user          int
		want          string
	}{
		{"passed", "ok  \tp\t1.0s\n", 1000, ""},
		{"nothing matches", "ok  \tp\t0.1s [no tests to run]\n", 0, `none matches "TestX"`},
		{"only behind a tag", "?   \tp\t[no test files]\n", 0, "build tag"},
		{"another system", "package p: build constraints exclude all Go files in /p\n", 0, "another system"},
		{"no root", "a_test.go:1: needs root; it is required (SQUALL_REQUIRE=1)\n", 1000, "sudo -E"},
		{"root, and another need", "a_test.go:1: needs rootless mounts\n", 0, ""},
		{"no API server", "a_test.go:1: no kube-apiserver below /c: run ...\n", 0, "devcluster build"},
		{"no Temporal", "a_test.go:1: no Temporal server: run ...\n", 0, "devcluster build"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := hint(test.printed, "TestX", test.user)
			if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("hint() = %v, want %q", err, test.want)
			}
		})
	}
}

func TestLoopNeedsAPackageWithTests(t *testing.T) {
	for _, directory := range []string{"", "nowhere", "testdata"} {
		if err := loop(t.TempDir(), directory, "", io.Discard); !errors.Is(err, errNoPackage) {
			t.Errorf("loop(%q) = %v, want %v", directory, err, errNoPackage)
		}
	}
}
