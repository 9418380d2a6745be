package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const someHeader = "It adds wrongly.\nRule: 1\nTest: ./sum TestSum\n\n"

// somePatch replaces the line that adds in sum.go.
func somePatch(by string) string {
	return "diff --git a/sum/sum.go b/sum/sum.go\n--- a/sum/sum.go\n+++ b/sum/sum.go\n@@ -3,3 +3,3 @@\n" +
		" func Sum(a, b int) int {\n-\treturn a + b\n+\t" + by + "\n }\n"
}

// aCheckout is a repository with a package that adds and its tests.
func aCheckout(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, content := range map[string]string{
		"go.mod":     "module example.com/adds\n\ngo 1.26\n",
		"sum/sum.go": "package sum\n\nfunc Sum(a, b int) int {\n\treturn a + b\n}\n",
		"sum/sum_test.go": `package sum

import "testing"

func TestSum(t *testing.T) {
	t.Run("of two", func(t *testing.T) {
		if Sum(2, 3) != 5 {
			t.Error("want 5")
		}
	})
}

func TestSkipped(t *testing.T) { t.Skip("needs more") }

func TestFails(t *testing.T) { t.Error("always") }
`,
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "x"}} {
		if out, err := exec.Command("git", append([]string{"-C", root}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	return root
}

func TestTry(t *testing.T) {
	root := aCheckout(t)
	l, err := newLaboratory(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, header, patch, want, why string }{
		{"one that is noticed", someHeader, somePatch("return a - b"), killed, ""},
		{"one that is not", someHeader, somePatch("return a - -b"), survived, "passed: ./sum TestSum"},
		{"one that panics", someHeader, somePatch(`panic("so")`), killed, ""},
		{"one whose second test notices", "Rule: 1\nTest: ./sum TestSum/of_t\nTest: ./sum TestSum\n", somePatch("return 0"), killed, ""},
		{"one that does not apply", someHeader, strings.Replace(somePatch("return 0"), "-\treturn a + b", "-\treturn b + a", 1), doesNotApply, "sum/sum.go"},
		{"one that does not compile", someHeader, somePatch("return nil"), doesNotCompile, "cannot use nil"},
		{"one whose test is skipped", "Rule: 1\nTest: ./sum TestSkipped\n", somePatch("return 0"), provesNothing, "needs more"},
		{"one whose test always fails", "Rule: 1\nTest: ./sum TestFails\n", somePatch("return 0"), provesNothing, "does not pass without the mutant"},
		{"one whose test is gone", "Rule: 1\nTest: ./sum TestGone\n", somePatch("return 0"), provesNothing, "matches no test"},
		{"one whose subtest is gone", "Rule: 1\nTest: ./sum TestSum/gone\n", somePatch("return 0"), provesNothing, "matches no test"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "m.patch")
			if err := os.WriteFile(file, []byte(c.header+"\n"+c.patch), 0o644); err != nil {
				t.Fatal(err)
			}
			mutants, err := read(filepath.Dir(file), "")
			if err != nil {
				t.Fatal(err)
			}
			l.passWithout(t.Context(), mutants)
			v := l.try(t.Context(), mutants[0])
			if v.outcome != c.want || !strings.Contains(v.why, c.why) {
				t.Errorf("try() = %+v, want %s because of %q", v, c.want, c.why)
			}
			if out, err := l.command(t.Context(), l.tree, "git", "status", "--porcelain"); out != "" || err != nil {
				t.Errorf("left in the worktree: %q, %v", out, err)
			}
		})
	}
	if err := l.close(); err != nil {
		t.Error(err)
	}
	if out, err := l.command(t.Context(), root, "git", "worktree", "list"); err != nil || strings.Count(out, "\n") != 1 {
		t.Errorf("worktrees afterwards: %q, %v; want the checkout alone", out, err)
	}
}

func TestHeadersThatAreRefused(t *testing.T) {
	for name, content := range map[string]string{
		"no patch":           someHeader,
		"no rule":            "Test: ./sum TestSum\n\n" + somePatch("return 0"),
		"no test":            "Rule: 1\n\n" + somePatch("return 0"),
		"a test of no place": "Rule: 1\nTest: TestSum\n\n" + somePatch("return 0"),
		"two patterns":       "Rule: 1\nTest: ./sum TestSum TestFails\n\n" + somePatch("return 0"),
	} {
		t.Run(name, func(t *testing.T) {
			if m, err := parse("m.patch", content); err == nil || !strings.HasPrefix(err.Error(), "m.patch: ") {
				t.Errorf("parse() = %+v, %v, want an error that names the file", m, err)
			}
		})
	}
}

func TestNamesChoose(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a-one", "b-two"} {
		if err := os.WriteFile(filepath.Join(dir, name+".patch"), []byte(someHeader+somePatch("return 0")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for pattern, want := range map[string]int{"": 2, "two": 1, "^a": 1, "three": 0} {
		all, err := read(dir, pattern)
		if len(all) != want || (err == nil) != (want > 0) {
			t.Errorf("read(%q) = %v, %v, want %d", pattern, all, err, want)
		}
	}
}
