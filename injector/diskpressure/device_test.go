//go:build linux

package diskpressure

import (
	"os"
	"path/filepath"
	"testing"
)

// TestWhole builds the part of sysfs that distinguishes disks from partitions.
func TestWhole(t *testing.T) {
	sys := t.TempDir()
	for dir, files := range map[string]map[string]string{
		"devices/vda":      {"dev": "254:0\n"},
		"devices/vda/vda1": {"dev": "254:1\n", "partition": "1\n"},
		"devices/dm-0":     {"dev": "252:0\n"},
	} {
		if err := os.MkdirAll(filepath.Join(sys, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, content := range files {
			if err := os.WriteFile(filepath.Join(sys, dir, name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.MkdirAll(filepath.Join(sys, "dev/block"), 0o755); err != nil {
		t.Fatal(err)
	}
	for device, dir := range map[string]string{"254:0": "vda", "254:1": "vda/vda1", "252:0": "dm-0"} {
		if err := os.Symlink("../../devices/"+dir, filepath.Join(sys, "dev/block", device)); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct{ name, device, want string }{
		{"a whole disk", "254:0", "254:0"},
		{"a partition is limited by its disk", "254:1", "254:0"},
		{"a device mapper's device as it is", "252:0", "252:0"},
		{"a device that the kernel does not know", "99:0", ""},
	}
	for _, test := range tests {
		got, err := finder{sys: sys}.whole(test.device)
		if got != test.want || (err != nil) != (test.want == "") {
			t.Errorf("%s: whole(%s) = %q, %v, want %q", test.name, test.device, got, err, test.want)
		}
	}
}
