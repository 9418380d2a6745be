package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tracked is a new repository that tracks empty files.
func tracked(t *testing.T, files ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, name := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}} {
		if out, err := exec.Command("git", append([]string{"-C", root}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	return root
}

func TestModules(t *testing.T) {
	defer func(before map[string]string) { unvetted = before }(unvetted)
	files := []string{"go.mod", "a/a.go", "hack/go.mod", "hack/x/x.go", "tools/go.mod", "tools/README.md", "around/go.mod", "around/in/go.mod", "around/in/deep/in.go", "large/go.mod", "large/main.go"}
	for name, c := range map[string]struct {
		files    []string
		unvetted []string
		want     string
	}{
		"those with Go files":    {files: files, want: "[. around/in hack large] <nil>"},
		"an exception":           {files: files, unvetted: []string{"large"}, want: "[. around/in hack] <nil>"},
		"a new module":           {files: append(files, "new/go.mod", "new/new.go"), unvetted: []string{"large"}, want: "[. around/in hack new] <nil>"},
		"no module in the root":  {files: []string{"a.go", "b/go.mod", "b/b.go"}, want: "[b] <nil>"},
		"an exception that went": {files: files, unvetted: []string{"gone"}, want: "[] unvetted in hack/check/modules.go names gone, which is no module with Go files"},
		"one without Go files":   {files: files, unvetted: []string{"tools"}, want: "[] unvetted in hack/check/modules.go names tools, which is no module with Go files"},
	} {
		t.Run(name, func(t *testing.T) {
			unvetted = map[string]string{}
			for _, module := range c.unvetted {
				unvetted[module] = "so"
			}
			found, err := modules(tracked(t, c.files...))
			if got := fmt.Sprint(found, " ", err); got != c.want {
				t.Errorf("modules() = %s, want %s", got, c.want)
			}
		})
	}
}

// make verify takes its modules from here, and no list of its own.
func TestVerifyTakesItsModulesFromHere(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	_, recipe, _ := strings.Cut(string(makefile), "\nverify: ")
	recipe, _, _ = strings.Cut(recipe, "\n\n")
	for _, line := range strings.Split(recipe, "\n") {
		checks := strings.Contains(line, "go vet") || strings.Contains(line, "staticcheck -")
		if checks && !strings.Contains(line, "go run ./check -modules") {
			t.Errorf("make verify has modules of its own: %s", line)
		}
	}
	for _, want := range []string{"go run ./check -modules", "go vet -tags site,e2e ./...", "staticcheck -tags site,e2e ./..."} {
		if !strings.Contains(recipe, want) {
			t.Errorf("the recipe of make verify has no %q", want)
		}
	}
	found, err := modules("../..")
	if err != nil || !slices.Contains(found, ".") || !slices.Contains(found, "hack") {
		t.Errorf("modules() = %q, %v; want the root and hack among them", found, err)
	}
}
