package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A directory that a page links to becomes a page, also where it has nothing but
// directories.
func TestDirectoriesBecomePages(t *testing.T) {
	root, source := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "overlays/small"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "overlays/small/one.yaml"), []byte("a: 1"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := copyLinked(root, source, "overlays"); err != nil {
		t.Fatal(err)
	}
	for page, want := range map[string]string{
		"overlays/README.md": "[small](small/README.md)", "overlays/small/README.md": "[one.yaml](one.yaml)", "overlays/small/one.yaml": "a: 1",
	} {
		if text, err := os.ReadFile(filepath.Join(source, page)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s has %q, %v; want %s in it", page, text, err, want)
		}
	}
}
