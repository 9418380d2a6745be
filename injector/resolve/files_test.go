//go:build linux

package resolve

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A container controls its files: their links must not lead to the node's files, and a pipe
// must not block the injector.
func TestReadBelowStaysInTheContainer(t *testing.T) {
	root := t.TempDir()
	etc := filepath.Join(root, "etc")
	for _, err := range []error{
		os.Mkdir(etc, 0o755),
		os.WriteFile(filepath.Join(etc, "real"), []byte("ours"), 0o644),
		os.Symlink("/etc/real", filepath.Join(etc, "absolute")),
		os.Symlink("../../../../../../../../etc/hostname", filepath.Join(etc, "climbing")),
		unix.Mkfifo(filepath.Join(etc, "pipe"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if text, err := readBelow(root, "etc/absolute"); err != nil || text != "ours" {
		t.Errorf("absolute link: %q, %v, want the container's file", text, err)
	}
	for _, file := range []string{"climbing", "pipe", "missing"} {
		if text, err := readBelow(root, "etc/"+file); err == nil {
			t.Errorf("%s: read %q, want an error", file, text)
		}
	}
}
