package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPageOf(t *testing.T) {
	code := `package x

import "a/path/with words in it"

type t struct {
	// +kubebuilder:validation:XValidation:rule="self > 1",message="want a much \"larger\" number"
	A int ` + "`json:\"some words in it\"`" + `
}

func f(name string, n int) error {
	note("short text")
	if name == "" {
		return fmt.Errorf("target %s: cannot inject %d faults"+
			"; choose %q", name, n, why("nobody knows it"))
	}
	return errors.New("first " + name + " second third")
}

const help = "A first paragraph\nof help.\n\nA second one:\n\n  squall run x.yaml\n"
`
	page, texts, err := pageOf("x.go", []byte(code))
	if err != nil {
		t.Fatal(err)
	}
	want := map[int]string{
		6:  "- want a much \"larger\" number.",
		13: "- target X: cannot inject X faults; choose X.",
		14: "- nobody knows it.",
		16: "- first X second third.",
		19: "- A first paragraph of help. A second one:",
	}
	for i, line := range strings.Split(strings.TrimSuffix(page, "\n"), "\n") {
		if line != want[i+1] {
			t.Errorf("line %d = %q, want %q", i+1, line, want[i+1])
		}
	}
	if texts != len(want) {
		t.Errorf("%d texts, want %d", texts, len(want))
	}
}

func TestRun(t *testing.T) {
	root, out := t.TempDir(), filepath.Join(t.TempDir(), "messages")
	for name, text := range map[string]string{"a/b.go": "three words here", "a/b_test.go": "words of a test", "c/d.go": "not asked for here"} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("package p\n\nconst text = \""+text+"\"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := run(root, out, []string{"a"}); n != 1 || err != nil {
		t.Fatalf("run() = %d, %v, want 1 text", n, err)
	}
	page, err := os.ReadFile(filepath.Join(out, "a/b.go.md"))
	if err != nil || string(page) != "\n\n- three words here.\n" {
		t.Errorf("a/b.go.md = %q, %v", page, err)
	}
	if _, err := run(root, out, []string{"none"}); err == nil {
		t.Error("run() of a directory that is not there has no error")
	}
}
