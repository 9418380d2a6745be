//go:build linux

package target

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestReadProcReadsAll(t *testing.T) {
	for _, size := range []int{0, 1, 1023, 1024, 1025, 100_000} {
		path := filepath.Join(t.TempDir(), "file")
		want := bytes.Repeat([]byte("squall "), size/7+1)[:size]
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadProc(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("ReadProc() of %d bytes = %d bytes, %v", size, len(got), err)
		}
	}
	if _, err := ReadProc("/proc/0/stat"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ReadProc() of what is not there = %v", err)
	}
}
