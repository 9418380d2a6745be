package revision

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestRevisionIsOneThatStays(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(t *testing.T, folder string)
		keep   bool
		want   string // of the error, or of the warning besides the commit
		fails  bool
	}{
		{"a commit of main", func(*testing.T, string) {}, true, "", false},
		{"a changed file", func(t *testing.T, folder string) { put(t, folder, "program.go", "changed") }, true, "program.go", true},
		{"a new file", func(t *testing.T, folder string) { put(t, folder, "more.go", "new") }, true, "more.go", true},
		{"a changed file, and nothing is written", func(t *testing.T, folder string) { put(t, folder, "program.go", "changed") }, false, " with changes that are in no commit", false},
		{"the document itself is renewed", func(t *testing.T, folder string) { put(t, folder, "docs/bench.md", "renewed") }, true, "", false},
		{"a commit that is not in main", func(t *testing.T, folder string) {
			run(t, folder, "checkout", "-q", "-b", "elsewhere")
			run(t, folder, "commit", "-q", "--allow-empty", "-m", "elsewhere")
		}, true, "not in branch main", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			run(t, folder, "init", "-q", "-b", "main")
			put(t, folder, "program.go", "program")
			put(t, folder, "docs/bench.md", "figures")
			run(t, folder, "add", ".")
			run(t, folder, "commit", "-q", "-m", "first")
			commit := run(t, folder, "rev-parse", "--short=10", "HEAD")
			c.change(t, folder)
			got, err := Of(folder, c.keep, "docs/bench.md")
			if c.fails {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("Of() = %q, %v, want an error that says %q", got, err, c.want)
				}
				return
			}
			if err != nil || got != commit+c.want {
				t.Errorf("Of() = %q, %v, want %q", got, err, commit+c.want)
			}
		})
	}
}

// TestMeasuredCommitsExist: readers find the commit of each figure.
func TestMeasuredCommitsExist(t *testing.T) {
	documents, err := filepath.Glob("../../docs/images/kinds/*.svg")
	if err != nil {
		t.Fatal(err)
	}
	figures := ""
	for _, document := range append(documents, "../../docs/bench.md") {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		figures += string(text)
	}
	if shallow, err := Git(".", "rev-parse", "--is-shallow-repository"); err != nil || shallow == "true" {
		t.Logf("the history is not here: shallow %s, %v", shallow, err)
		return
	}
	for _, found := range regexp.MustCompile(`at commit (\w+)`).FindAllStringSubmatch(figures, -1) {
		if _, err := Git(".", "merge-base", "--is-ancestor", found[1], "HEAD"); err != nil {
			t.Errorf("figures were measured at commit %s, which is not in the history: %v", found[1], err)
		}
	}
}

func put(t *testing.T, folder, name, text string) {
	t.Helper()
	file := filepath.Join(folder, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, folder string, args ...string) string {
	t.Helper()
	output, err := Git(folder, append([]string{"-c", "user.name=test", "-c", "user.email=test@example.com"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return output
}
