//go:build linux

package diskpressure

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/squall-chaos/squall/api/v1beta1"
)

func some(n int64) *int64 { return &n }

func TestPlan(t *testing.T) {
	tests := []struct {
		name  string
		asked v1beta1.DiskPressureThrottling
		v2    bool
		want  map[string]string // object to value; nil: refused
	}{
		{"nothing asked, nothing to do", v1beta1.DiskPressureThrottling{}, false, map[string]string{}},
		{"zero is no limit, not a full stop", v1beta1.DiskPressureThrottling{ReadBytesPerSec: some(0)}, true, map[string]string{}},
		{
			"version 1 has a file for each limit",
			v1beta1.DiskPressureThrottling{ReadBytesPerSec: some(1), WriteBytesPerSec: some(2), ReadIOPSPerSec: some(3), WriteIOPSPerSec: some(4)}, false,
			map[string]string{
				"/cg/blkio.throttle.read_bps_device 7:1":   "1",
				"/cg/blkio.throttle.write_bps_device 7:1":  "2",
				"/cg/blkio.throttle.read_iops_device 7:1":  "3",
				"/cg/blkio.throttle.write_iops_device 7:1": "4",
			},
		},
		{
			"version 2 has one file with keys",
			v1beta1.DiskPressureThrottling{ReadBytesPerSec: some(1), WriteBytesPerSec: some(2), ReadIOPSPerSec: some(3), WriteIOPSPerSec: some(4)}, true,
			map[string]string{
				"/cg/io.max 7:1 rbps": "1", "/cg/io.max 7:1 wbps": "2",
				"/cg/io.max 7:1 riops": "3", "/cg/io.max 7:1 wiops": "4",
			},
		},
		{"only what is asked", v1beta1.DiskPressureThrottling{WriteBytesPerSec: some(9)}, true, map[string]string{"/cg/io.max 7:1 wbps": "9"}},
		{"negative bytes are refused", v1beta1.DiskPressureThrottling{ReadBytesPerSec: some(-1)}, true, nil},
		{"negative operations are refused", v1beta1.DiskPressureThrottling{WriteIOPSPerSec: some(-1)}, false, nil},
		{"operations beyond 32 bits are the most there is", v1beta1.DiskPressureThrottling{ReadIOPSPerSec: some(1 << 32)}, true, map[string]string{"/cg/io.max 7:1 riops": "4294967294"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			assignments, err := plan(test.asked, "/cg", test.v2, "7:1")
			if (err != nil) != (test.want == nil) {
				t.Fatalf("plan = %v, %v, want refused: %v", assignments, err, test.want == nil)
			}
			if err != nil {
				return
			}
			got := map[string]string{}
			for _, a := range assignments {
				got[a.object()] = a.value
				if back, err := parseObject(a.object()); err != nil || back != a.limit {
					t.Errorf("parseObject(%q) = %v, %v, want %v: a cleaner would not find it", a.object(), back, err, a.limit)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFindAndLine(t *testing.T) {
	const v1 = "7:0 1048576\n254:0 2048\n"
	const v2 = "7:0 rbps=1048576 wbps=max riops=max wiops=120\n254:0 rbps=max wbps=2048 riops=max wiops=max\n"
	tests := []struct {
		name    string
		limit   limit
		content string
		found   string
		restore string // the line that restores the previous value
	}{
		{"version 1, limited", limit{"f", "7:0", ""}, v1, "1048576", "7:0 1048576"},
		{"version 1, another disk", limit{"f", "254:0", ""}, v1, "2048", "254:0 2048"},
		{"version 1, no line", limit{"f", "7:1", ""}, v1, unlimited, "7:1 0"},
		{"version 1, a number that only begins alike", limit{"f", "54:0", ""}, v1, unlimited, "54:0 0"},
		{"version 1, empty file", limit{"f", "7:0", ""}, "", unlimited, "7:0 0"},
		{"version 2, limited", limit{"f", "7:0", "rbps"}, v2, "1048576", "7:0 rbps=1048576"},
		{"version 2, the last key", limit{"f", "7:0", "wiops"}, v2, "120", "7:0 wiops=120"},
		{"version 2, another key of the line", limit{"f", "7:0", "wbps"}, v2, unlimited, "7:0 wbps=max"},
		{"version 2, another disk", limit{"f", "254:0", "wbps"}, v2, "2048", "254:0 wbps=2048"},
		{"version 2, no line", limit{"f", "7:1", "rbps"}, v2, unlimited, "7:1 rbps=max"},
		{"version 2, empty file", limit{"f", "7:0", "rbps"}, "", unlimited, "7:0 rbps=max"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			found := test.limit.find(test.content)
			if found != test.found {
				t.Errorf("find = %q, want %q", found, test.found)
			}
			if line := test.limit.line(found); line != test.restore {
				t.Errorf("line(%q) = %q, want %q", found, line, test.restore)
			}
		})
	}
}

func TestParseObject(t *testing.T) {
	blank := limit{file: "/sys/fs/cgroup/a b/io.max", device: "7:0", key: "rbps"}
	if got, err := parseObject(blank.object()); err != nil || got != blank {
		t.Errorf("parseObject(%q) = %v, %v, want %v", blank.object(), got, err, blank)
	}
	for _, object := range []string{"", "/a", "/a b", "7:0"} {
		if got, err := parseObject(object); err == nil {
			t.Errorf("parseObject(%q) = %v, want an error", object, got)
		}
	}
}

func TestStricter(t *testing.T) {
	tests := []struct {
		name, before, asked, want string
	}{
		{"no limit before", unlimited, "100", "100"},
		{"a looser limit before", "200", "100", "100"},
		{"a stricter limit before stays", "50", "100", "50"},
		{"the same limit", "100", "100", "100"},
		{"numbers are compared, not words", "9", "100", "9"},
		{"a limit beyond 63 bits is looser", "18446744073709551615", "100", "100"},
	}
	for _, test := range tests {
		if got := stricter(test.before, test.asked); got != test.want {
			t.Errorf("%s: stricter(%s, %s) = %s, want %s", test.name, test.before, test.asked, got, test.want)
		}
	}
}

func TestCheckLeastOfANode(t *testing.T) {
	tests := []struct {
		name    string
		asked   v1beta1.DiskPressureThrottling
		refused bool
	}{
		{"no limit", v1beta1.DiskPressureThrottling{}, false},
		{"enough for the injector", v1beta1.DiskPressureThrottling{ReadBytesPerSec: some(1 << 20), WriteIOPSPerSec: some(20)}, false},
		{"too few bytes to read the injector's program", v1beta1.DiskPressureThrottling{ReadBytesPerSec: some(1<<20 - 1)}, true},
		{"too few operations", v1beta1.DiskPressureThrottling{WriteIOPSPerSec: some(19)}, true},
	}
	for _, test := range tests {
		if err := checkLeast(test.asked, v1beta1.LevelNode); (err != nil) != test.refused {
			t.Errorf("%s: checkLeast = %v, want refused: %v", test.name, err, test.refused)
		}
	}
}

// Root writes to the objects in a journal. A forged journal must reach disk limits of
// cgroups, and nothing else of the node.
func TestAJournalReachesNothingButDiskLimits(t *testing.T) {
	dir := t.TempDir()
	const content = "1:1 rbps=5"
	put := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	link := filepath.Join(dir, "blkio.throttle.link")
	if err := os.Symlink(put("shadow"), link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{put("passwd"), put("io.max"), put("blkio.throttle.read_bps_device"), link} {
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		object := path + " 1:1 rbps"
		if value, err := readLimit(object); err == nil {
			t.Errorf("readLimit(%s) = %q, want an error", object, value)
		}
		if err := writeLimit(object, "7"); err == nil {
			t.Errorf("writeLimit(%s) = nil, want an error", object)
		}
		if after, err := os.ReadFile(path); string(after) != string(before) {
			t.Errorf("%s is %q, %v, want it left at %q", path, after, err, before)
		}
	}
}
