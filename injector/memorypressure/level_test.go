//go:build linux

package memorypressure

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// tree is a hierarchy of cgroups made of plain files.
type tree map[string]map[string]string

func (tree tree) make(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for dir, files := range tree {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		files["cgroup.procs"] = ""
		for name, content := range files {
			if err := os.WriteFile(filepath.Join(root, dir, name), []byte(content+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return root
}

func v1(limit, usage, cache string) map[string]string {
	return map[string]string{"memory.limit_in_bytes": limit, "memory.usage_in_bytes": usage, "memory.stat": "inactive_file 1\ntotal_inactive_file " + cache}
}

func v2(limit, usage, cache string) map[string]string {
	return map[string]string{"memory.max": limit, "memory.current": usage, "memory.stat": "anon 5\ninactive_file " + cache}
}

const noLimit = "9223372036854771712"

func TestReadLevels(t *testing.T) {
	for _, test := range []struct {
		name  string
		tree  tree
		wants []level
	}{
		{"version 1: limits of its own and above, without the page cache",
			tree{".": v1(noLimit, "900", "0"), "kubepods": v1("4000000", "800", "0"), "kubepods/pod": v1(noLimit, "700", "0"), "kubepods/pod/own": v1("1000000", "600", "100")},
			[]level{{"kubepods/pod/own", 1000000, 500}, {"kubepods", 4000000, 800}}},
		{"version 2: the root has no limit",
			tree{".": {}, "kubepods": v2("4000000", "800", "0"), "kubepods/pod": v2("max", "700", "0"), "kubepods/pod/own": v2("1000000", "600", "100")},
			[]level{{"kubepods/pod/own", 1000000, 500}, {"kubepods", 4000000, 800}}},
		{"more page cache than is in use: nothing is",
			tree{".": {}, "kubepods": v2("max", "800", "0"), "kubepods/pod": v2("max", "0", "0"), "kubepods/pod/own": v2("1000000", "600", "700")},
			[]level{{"kubepods/pod/own", 1000000, 0}}},
		{"no limit anywhere",
			tree{".": {}, "kubepods": v2("max", "800", "0"), "kubepods/pod": v2("max", "0", "0"), "kubepods/pod/own": v2("max", "600", "0")}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := test.tree.make(t)
			got, err := readLevels(filepath.Join(root, "kubepods/pod/own"))
			if err != nil {
				t.Fatal(err)
			}
			node := got[len(got)-1]
			if node.name != "" || node.limit < 1<<26 || node.used <= 0 || node.used > node.limit {
				t.Errorf("the node = %+v, want this machine's memory", node)
			}
			for n := range test.wants {
				test.wants[n].name = filepath.Join(root, test.wants[n].name)
			}
			if diff := cmp.Diff(test.wants, got[:len(got)-1], cmp.AllowUnexported(level{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("readLevels (-want +got):\n%s", diff)
			}
		})
	}
}

func TestALimitThatCannotBeReadIsRefused(t *testing.T) {
	for name, broken := range map[string]tree{
		"no limit file in a cgroup that is not the root": {".": {}, "own": {}},
		"a limit that is no number":                      {".": {}, "own": v2("much", "1", "0")},
		"no page cache in memory.stat":                   {".": {}, "own": {"memory.max": "1000", "memory.current": "5", "memory.stat": "anon 5"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(broken.make(t), "own")
			if levels, err := readLevels(dir); err == nil || !strings.Contains(err.Error(), dir) {
				t.Errorf("readLevels = %+v, %v, want an error that names %s", levels, err, dir)
			}
		})
	}
	if _, err := readLevels(filepath.Join(t.TempDir(), "gone")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("readLevels of a cgroup that is gone: %v, want fs.ErrNotExist", err)
	}
}

func TestParseNode(t *testing.T) {
	got, err := parseNode("MemTotal:  1000 kB\nMemFree:  1 kB\nMemAvailable:  400 kB\nSwapTotal: 0 kB\n")
	if want := (level{"", 1000 << 10, 600 << 10}); err != nil || got != want {
		t.Errorf("parseNode = %+v, %v, want %+v", got, err, want)
	}
	if _, err := parseNode("MemTotal: 1000 kB\n"); err == nil || !strings.Contains(err.Error(), "MemAvailable") {
		t.Errorf("parseNode without MemAvailable: %v, want it named", err)
	}
}
