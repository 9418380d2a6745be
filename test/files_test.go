package test

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// goFiles are the files of the repository with a suffix, without what is
// generated, downloaded or running.
func goFiles(t *testing.T, suffix string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != ".." && strings.HasPrefix(entry.Name(), ".") || entry.IsDir() && entry.Name() == "bin" {
			return filepath.SkipDir
		}
		if !entry.IsDir() && strings.HasSuffix(path, suffix) {
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
