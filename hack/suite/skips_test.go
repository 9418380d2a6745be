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

func TestSkipsThatTheKernelExcuses(t *testing.T) {
	const reason = "is about cgroups of version 1"
	for _, c := range []struct {
		test, reason  string
		version2Alone bool
		allowed       bool
	}{
		{"injector/cpupressure: TestJoins", reason, true, true},
		{"injector/cpupressure: TestJoins", reason, false, false},
		{"injector/cpupressure: TestJoins", "is about cgroups of version 2 alone", true, false},
		{"injector/cpupressure: TestJoins", "needs root", true, false},
		{"injector/cpupressure@uml: TestJoins", reason, false, true},
		{"injector/cpupressure@other: TestJoins", reason, true, false},
	} {
		if why := (skip{c.test, c.reason}).allowedWith(c.version2Alone); (why != "") != c.allowed {
			t.Errorf("%s, %q, version 2 alone: %t: allowed %q, want allowed: %t", c.test, c.reason, c.version2Alone, why, c.allowed)
		}
	}
}

func TestVersion2Alone(t *testing.T) {
	v2, hybrid := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(hybrid, "unified"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{filepath.Join(v2, "cgroup.controllers"), filepath.Join(hybrid, "unified", "cgroup.controllers")} {
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for root, want := range map[string]bool{v2: true, hybrid: false, filepath.Join(v2, "none"): false} {
		if got := version2Alone(root); got != want {
			t.Errorf("version2Alone(%s) = %t, want %t", root, got, want)
		}
	}
}
