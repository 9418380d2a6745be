package diskpressure

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const table = `21 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
22 21 0:20 / /proc rw - proc proc rw
30 21 254:16 /pvc\040one /mnt/data\040one rw - xfs /dev/vdb rw,attr2
31 21 0:51 / / rw master:5 - overlay overlay rw,lowerdir=/l/1:/l/2,upperdir=/var/lib/up\040per/fs,workdir=/w,xino=off
32 21 0:52 / /ro ro - overlay overlay ro,lowerdir=/l/1:/l/2
33 21 0:40 / /cache rw - tmpfs tmpfs rw,size=65536k
34 21 0:41 / /share rw - nfs4 10.0.0.1:/export rw
`

func TestFindMount(t *testing.T) {
	tests := []struct {
		name, id string
		want     mount
		upper    string
	}{
		{"a disk", "21", mount{"254:1", "/", "ext4", "/dev/vda1", "rw"}, ""},
		{"blanks in paths", "30", mount{"254:16", "/mnt/data one", "xfs", "/dev/vdb", "rw,attr2"}, ""},
		{"an overlay's writes go to its upper directory", "31", mount{"0:51", "/", "overlay", "overlay", `rw,lowerdir=/l/1:/l/2,upperdir=/var/lib/up\040per/fs,workdir=/w,xino=off`}, "/var/lib/up per/fs"},
		{"an overlay without one", "32", mount{"0:52", "/ro", "overlay", "overlay", "ro,lowerdir=/l/1:/l/2"}, ""},
		{"a network filesystem", "34", mount{"0:41", "/share", "nfs4", "10.0.0.1:/export", "rw"}, ""},
		{"no such mount", "2", mount{}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := findMount(table, test.id)
			if (err != nil) != (test.want == mount{}) {
				t.Fatalf("findMount(%s) = %v, %v", test.id, got, err)
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(mount{})); diff != "" {
				t.Errorf("findMount(%s) (-want +got):\n%s", test.id, diff)
			}
			if upper, _ := got.upper(); upper != test.upper {
				t.Errorf("upper = %q, want %q", upper, test.upper)
			}
		})
	}
}

func TestMountID(t *testing.T) {
	if got := mountID("pos:\t0\nflags:\t012\nmnt_id:\t334\nino:\t2\n"); got != "334" {
		t.Errorf("mountID = %q, want 334", got)
	}
}

// TestWhole builds the part of sysfs that tells disks from partitions.
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
