package golden

import (
	"os"
	"path/filepath"
	"testing"
)

// failing is a test that remembers whether it failed.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Errorf(string, ...any) { f.failed = true }

func TestCompare(t *testing.T) {
	path := filepath.Join(t.TempDir(), "testdata", "file")
	compare := func(write bool, got string, fails bool) {
		t.Helper()
		*update = write
		defer func() { *update = false }()
		inner := &failing{TB: t}
		if kept := Compare(inner, path, got); inner.failed != fails || kept != "one\n" {
			t.Errorf("Compare(%q) failed: %t, want %t; the file has %q", got, inner.failed, fails, kept)
		}
	}
	compare(true, "one\n", false)
	compare(false, "one\n", false)
	compare(false, "two\n", true)
	if text, err := os.ReadFile(path); err != nil || string(text) != "one\n" {
		t.Errorf("the file has %q, %v: it was written without -update", text, err)
	}
}
