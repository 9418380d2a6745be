package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A test that is gone or was moved must not leave a hole in the list.
func TestListedSkipsExist(t *testing.T) {
	for name, reason := range mayBeSkipped {
		folder, test, _ := strings.Cut(name, ": ")
		function, _, _ := strings.Cut(test, "/")
		files, err := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(content), "func "+function+"(")
		}
		if !found || reason == "" {
			t.Errorf("%s (%q): there is no such test, or no reason", name, reason)
		}
	}
}
