package mounts

import (
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

func TestFind(t *testing.T) {
	tests := []struct {
		name, id string
		want     Mount
		upper    string
	}{
		{"a disk", "21", Mount{"21", "254:1", "/", "ext4", "/dev/vda1", "rw", true}, ""},
		{"blanks in paths", "30", Mount{"30", "254:16", "/mnt/data one", "xfs", "/dev/vdb", "rw,attr2", false}, ""},
		{"an overlay's writes go to its upper directory", "31", Mount{"31", "0:51", "/", "overlay", "overlay", `rw,lowerdir=/l/1:/l/2,upperdir=/var/lib/up\040per/fs,workdir=/w,xino=off`, false}, "/var/lib/up per/fs"},
		{"an overlay without one", "32", Mount{"32", "0:52", "/ro", "overlay", "overlay", "ro,lowerdir=/l/1:/l/2", false}, ""},
		{"a network filesystem", "34", Mount{"34", "0:41", "/share", "nfs4", "10.0.0.1:/export", "rw", false}, ""},
		{"no such mount", "2", Mount{}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := Find(table, test.id)
			if (err != nil) != (test.want == Mount{}) {
				t.Fatalf("Find(%s) = %v, %v", test.id, got, err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Find(%s) (-want +got):\n%s", test.id, diff)
			}
			if upper, _ := got.Upper(); upper != test.upper {
				t.Errorf("upper = %q, want %q", upper, test.upper)
			}
		})
	}
}

func TestID(t *testing.T) {
	if got := ID("pos:\t0\nflags:\t012\nmnt_id:\t334\nino:\t2\n"); got != "334" {
		t.Errorf("ID = %q, want 334", got)
	}
}
