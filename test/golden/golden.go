// Package golden compares a test's result with a stored file. The test's flag
// -update rewrites the file; without it no file is written.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write golden files anew instead of comparing with them")

// Compare fails the test unless got is what the file has, and returns what it has. The
// path begins at the package of the test.
func Compare(t testing.TB, path, got string) (want string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(kept), got); diff != "" {
		t.Errorf("%s (-want +got); -update writes it anew:\n%s", path, diff)
	}
	return string(kept)
}
