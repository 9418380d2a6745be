package main

import (
	"slices"
	"testing"
)

func TestVictims(t *testing.T) {
	all := []process{
		{pid: 1, parent: 0, program: "squall-node1"},
		{pid: 2, parent: 1, program: "kubelet"},
		{pid: 3, parent: 1, program: "containerd-shim-runc-v2"},
		{pid: 4, parent: 3, program: "kubelet", cgroups: "0::/kubepods/pod1/aaa\n"}, // another user's container
		{pid: 5, parent: 4, program: "kubelet", cgroups: "0::/kubepods/pod1/aaa\n"},
		{pid: 6, parent: 3, program: "worker", cgroups: "0::/kubepods/pod1/bbb\n"},
		{pid: 7, parent: 6, program: "worker-guard", cgroups: "0::/kubepods/pod1/worker-guard\n"},
		{pid: 8, parent: 3, program: "worker-guard", cgroups: "0::/kubepods/pod1/worker-guard\n"}, // of another
	}
	for _, c := range []struct {
		name string
		got  int
		want int
	}{
		{"a machine's own, not a container's", daemon(all, "kubelet", 1), 2},
		{"a container's, the first of several", contained(all, "kubelet", "aaa"), 4},
		{"another program in the container", contained(all, "worker", "aaa"), 0},
		{"what only a container runs", daemon(all, "worker", 1), 0},
		{"nothing runs", daemon(nil, "kubelet", 1), 0},
	} {
		if c.got != c.want {
			t.Errorf("%s: process %d, want %d", c.name, c.got, c.want)
		}
	}
	if got := guards(all, "worker", 6); !slices.Equal(got, []int{7}) {
		t.Errorf("guards = %v, want the process 7 that it started", got)
	}
	if got := parent("Name:\tx\nPPid:\t42\nTracerPid:\t0\n"); got != 42 {
		t.Errorf("parent = %d, want 42", got)
	}
}
