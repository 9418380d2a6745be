//go:build linux

package target

import "testing"

func TestMemberOf(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for name, test := range map[string]struct{ file, pod, want string }{
		"cgroup driver":       {"4:memory:/kubepods/burstable/pod1-2/" + id + "\n0::/\n", "pod1-2", id},
		"systemd, containerd": {"0::/kubepods.slice/kubepods-pod1_2.slice/cri-containerd-" + id + ".scope\n", "kubepods-pod1_2.slice", id},
		"below the container": {"0::/kubepods/pod1-2/" + id + "/init/x\n", "pod1-2", id},
		"seen from another":   {"0::/../../pod1-2/" + id + "\n", "pod1-2", id},
		"another pod":         {"0::/kubepods/pod1-22/" + id + "\n", "pod1-2", ""},
		"the pod itself":      {"0::/kubepods/pod1-2\n", "pod1-2", ""},
		"nothing":             {"", "pod1-2", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := memberOf(test.file, test.pod); got != test.want {
				t.Errorf("memberOf = %q, want %q", got, test.want)
			}
		})
	}
}

func TestPodDir(t *testing.T) {
	for name, test := range map[string]struct {
		cgroups Cgroups
		want    string
	}{
		"version 1": {Cgroups{V1: map[string]string{"cpu": "/sys/fs/cgroup/cpu/kubepods/pod7/abc"}}, "/sys/fs/cgroup/cpu/kubepods/pod7"},
		"version 2": {Cgroups{Unified: "/sys/fs/cgroup/kubepods.slice/kubepods-pod7.slice/cri-containerd-abc.scope"}, "/sys/fs/cgroup/kubepods.slice/kubepods-pod7.slice"},
		"deeper":    {Cgroups{Unified: "/sys/fs/cgroup/pod7/abc/init"}, "/sys/fs/cgroup/pod7"},
		"unknown":   {Cgroups{Problem: "not mounted"}, ""},
		"elsewhere": {Cgroups{Unified: "/sys/fs/cgroup/system.slice"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.cgroups.podDir("abc"); got != test.want {
				t.Errorf("podDir = %q, want %q", got, test.want)
			}
		})
	}
}

func TestNameInMounts(t *testing.T) {
	const others = "690 600 0:54 / /proc rw - proc proc rw\n" +
		"701 690 8:1 /var/lib/kubelet/pods/1-2/volumes/containers/x/1 /data rw - ext4 /dev/sda1 rw\n"
	last := "702 690 8:1 /var/lib/kubelet/pods/1-2/containers/web-1/9f0c11d2 /dev/termination-log rw - ext4 /dev/sda1 rw\n"
	if got := nameInMounts(others + last); got != "web-1" {
		t.Errorf("name = %q, want web-1", got)
	}
	if got := nameInMounts(others + "\n703\n"); got != "" {
		t.Errorf("name without the kubelet's file = %q, want none", got)
	}
}

func TestPodIn(t *testing.T) {
	for name, test := range map[string]struct{ file, want string }{
		"cgroup driver":       {"4:memory:/kubepods/burstable/pod1-2/abc\n0::/\n", "pod1-2"},
		"systemd, containerd": {"0::/kubepods.slice/kubepods-pod1_2.slice/cri-containerd-abc.scope\n", "kubepods-pod1_2.slice"},
		"below the container": {"0::/kubepods/pod1-2/abc/init\n", "pod1-2"},
		"seen from another":   {"0::/../../pod1-2/abc\n", "pod1-2"},
		"without a pod":       {"0::/abc\n", ""},
		"another container":   {"0::/kubepods/pod1-2/abcd\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := podIn(test.file, "abc"); got != test.want {
				t.Errorf("podIn = %q, want %q", got, test.want)
			}
		})
	}
}
