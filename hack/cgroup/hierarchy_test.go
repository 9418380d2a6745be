package cgroup

import (
	"reflect"
	"testing"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name, mountinfo string
		want            []Hierarchy
	}{
		{
			name: "hybrid: controllers, a named one and the unified one",
			mountinfo: `31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate
`,
			want: []Hierarchy{
				{Path: "/sys/fs/cgroup/cpu,cpuacct", Options: "cpu,cpuacct"},
				{Path: "/sys/fs/cgroup/systemd", Options: "none,name=systemd"},
				{Path: "/sys/fs/cgroup/unified", Unified: true},
			},
		},
		{
			name:      "only unified",
			mountinfo: "31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n",
			want:      []Hierarchy{{Path: "/sys/fs/cgroup", Unified: true}},
		},
		{
			name: "a second mount of the same elsewhere: the first counts",
			mountinfo: `32 31 0:29 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
99 1 0:29 / /var/lib/x/pids rw - cgroup cgroup rw,pids
`,
			want: []Hierarchy{{Path: "/sys/fs/cgroup/pids", Options: "pids"}},
		},
		{name: "nothing mounted", mountinfo: "22 27 0:21 / /proc rw - proc proc rw\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := parse(test.mountinfo); !reflect.DeepEqual(got, test.want) {
				t.Errorf("parse(...) = %+v, want %+v", got, test.want)
			}
		})
	}
}
