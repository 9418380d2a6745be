package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// notOnVersion2 names the packages that import containerd/cgroups or name
// /sys/fs/cgroup in their code or tests, and that no plan runs in QEMU, each with its reason.
var notOnVersion2 = map[string]string{
	"activities/chaospod": "writes the path into a pod and opens nothing",
	"hack/cgroup":         "of the development cluster; only make test-unit on GitHub runs its tests on version 2",
	"hack/devcluster":     "starts a whole cluster, which needs the host's cgroups",
	"hack/images/target":  "a target's own figures in a pod; v2node runs it on version 2",
	"hack/kerneltest":     "is what runs the tests in QEMU",
	"hack/machine":        "the machines of the development cluster; v2node is one with version 2",
	"hack/suite":          "asks for the version to judge a skip",
	"injector/target":     "reads paths from text that the tests give; the injector's other packages call it in QEMU",
	"test/testcontainer":  "makes the cgroups of the injector's tests, which run in QEMU",
	"test/bench":          "writes the path into a pod and opens nothing",
	"test/probe":          "reads figures in a target; v2node runs it on version 2",
	"test/promise":        "writes the path into a pod and opens nothing",
	"test/ui":             "writes the path into a pod and opens nothing",
}

// TestCgroupsAreTestedOnVersion2 refuses a package that depends on the layout of cgroups
// and that the plan does not run in QEMU, where version 2 is alone.
func TestCgroupsAreTestedOnVersion2(t *testing.T) {
	out, err := exec.Command("git", "-C", "../..", "ls-files", "*.go").Output()
	if err != nil {
		t.Fatal(err)
	}
	var using []string
	for file := range strings.Lines(string(out)) {
		file = strings.TrimSpace(file)
		if pkg := filepath.Dir(file); !slices.Contains(using, pkg) && usesCgroups(t, filepath.Join("../..", file), nil) {
			using = append(using, pkg)
		}
	}
	for _, pkg := range using {
		planned, why := runInQEMU(t, pkg), notOnVersion2[pkg]
		if !planned && why == "" {
			t.Errorf("%s depends on cgroups: add it to the plan of qemu, or to notOnVersion2 with a reason", pkg)
		}
		if planned && why != "" {
			t.Errorf("%s is in notOnVersion2 although the plan runs it in QEMU", pkg)
		}
	}
	for pkg := range notOnVersion2 {
		if !slices.Contains(using, pkg) {
			t.Errorf("notOnVersion2 names %s, which does not depend on cgroups", pkg)
		}
	}
}

func runInQEMU(t *testing.T, pkg string) bool {
	t.Helper()
	m, err := choose("qemu", false, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(m.packages, func(p testPackage) bool { return p.name == pkg && p.run != none })
}

// usesCgroups reports whether a file imports containerd/cgroups or has a text with
// /sys/fs/cgroup. Comments do not count. The source is that of the file if it is nil.
func usesCgroups(t *testing.T, file string, source any) bool {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	ast.Inspect(parsed, func(node ast.Node) bool {
		if text, is := node.(*ast.BasicLit); is && text.Kind == token.STRING {
			found = found || strings.Contains(text.Value, "/sys/fs/cgroup") || strings.Contains(text.Value, "github.com/containerd/cgroups")
		}
		return !found
	})
	return found
}

func TestUsesCgroups(t *testing.T) {
	for source, want := range map[string]bool{
		"package p\nimport _ \"github.com/containerd/cgroups/v3/cgroup2\"": true,
		"package p\nvar a = `/sys/fs/cgroup/cpu`":                          true,
		"package p\n// a is of /sys/fs/cgroup.\nvar a = \"/sys/fs\"":       false,
	} {
		if got := usesCgroups(t, "a.go", source); got != want {
			t.Errorf("usesCgroups(%q) = %t, want %t", source, got, want)
		}
	}
}
