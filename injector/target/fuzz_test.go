//go:build linux

package target

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Other processes control the files about them: a process chooses its name, and a program
// that mounts chooses the text of its mountinfo.
func FuzzCgroupFiles(f *testing.F) {
	const id = "0123456789abcdef"
	f.Add("4:cpu,cpuacct:/kubepods/pod1/"+id+"\n0::/x\n", "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n", "pod1", id)
	f.Add("0::/../../pod1/cri-containerd-"+id+".scope\n", "33 31 0:30 /a /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "pod1", id)
	f.Add("", "\n - \n", "", "")
	f.Add(":::\n", "1 2 3 4 5 - cgroup", "/", "/")
	f.Fuzz(func(t *testing.T, memberships, mountinfo, pod, id string) {
		found, _ := resolveCgroups(memberships, parseCgroupMounts(mountinfo))
		for _, dir := range found.V1 {
			if dir == "" {
				t.Errorf("%q, %q: a hierarchy without a directory: %+v", memberships, mountinfo, found)
			}
		}
		_, _ = found.podDir(id), podIn(memberships, id)
		if member := memberOf(memberships, pod); strings.ContainsAny(member, "/\n") {
			t.Errorf("memberOf(%q, %q) = %q, want one word", memberships, pod, member)
		}
		if name := nameInMounts(mountinfo); strings.ContainsAny(name, "/\n") {
			t.Errorf("nameInMounts(%q) = %q, want one word", mountinfo, name)
		}
	})
}

func FuzzProcess(f *testing.F) {
	f.Add("1 (sh) S 0 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 77 1 1", "Name:\tsh\nNSpid:\t12\t1\n")
	f.Add("1 (a) b) Z", "NSpid:\n")
	f.Add(")", "")
	f.Fuzz(func(t *testing.T, stat, status string) {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "7"), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"stat": stat, "status": status} {
			if err := os.WriteFile(filepath.Join(dir, "7", name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if p, err := readProcess(dir, 7); err == nil && p.first && p.depth == 0 {
			t.Errorf("%q, %q: the first process of no namespace", stat, status)
		}
	})
}
