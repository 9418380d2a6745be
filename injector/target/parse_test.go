//go:build linux

package target

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMentions(t *testing.T) {
	tests := []struct {
		name, file, id string
		want           bool
	}{
		{"cgroupfs driver", "0::/kubepods/besteffort/pod1/abc123\n", "abc123", true},
		{"systemd driver", "0::/kubepods.slice/cri-containerd-abc123.scope\n", "abc123", true},
		{"below the container's own cgroup", "0::/kubepods/abc123/init.scope\n", "abc123", true},
		{"in one of many lines", "4:memory:/x\n3:cpu:/abc123\n", "abc123", true},
		{"an ID that only begins the same", "0::/kubepods/abc1234\n", "abc123", false},
		{"an ID that only ends the same", "0::/kubepods/xabc123\n", "abc123", false},
		{"a longer one first, then it", "0::/kubepods/abc1234/abc123\n", "abc123", true},
		{"CRI-O", "0::/kubepods.slice/kubepods-pod1.slice/crio-abc123.scope\n", "abc123", true},
		{"CRI-O's watcher", "0::/kubepods.slice/kubepods-pod1.slice/crio-conmon-abc123.scope\n", "abc123", false},
		{"Podman's watcher first, then the container", "1:cpu:/libpod-conmon-abc123.scope\n0::/libpod-abc123.scope\n", "abc123", true},
		{"another container", "0::/kubepods/def\n", "abc123", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := mentions(test.file, test.id); got != test.want {
				t.Errorf("mentions(%q, %q) = %t, want %t", test.file, test.id, got, test.want)
			}
		})
	}
}

func TestContainersOfOtherPodsAreRefused(t *testing.T) {
	const uid, other = "0f9e8d7c-1234-4abc-8def-001122334455", "ffffffff-1234-4abc-8def-001122334455"
	const id = "abc123"
	under := strings.ReplaceAll
	for name, test := range map[string]struct {
		cgroups string
		refused bool
	}{
		"its own pod":                            {"4:memory:/kubepods/burstable/pod" + uid + "/" + id + "\n", false},
		"its own pod, systemd":                   {"0::/kubepods.slice/kubepods-burstable-pod" + under(uid, "-", "_") + ".slice/cri-containerd-" + id + ".scope/init\n", false},
		"another pod":                            {"0::/kubepods/pod" + other + "/" + id + "\n", true},
		"another pod, systemd":                   {"0::/kubepods.slice/kubepods-pod" + under(other, "-", "_") + ".slice/crio-" + id + ".scope\n", true},
		"a static pod":                           {"0::/kubepods/pod0123456789abcdef0123456789abcdef/" + id + "\n", true},
		"a hierarchy that names no pod":          {"0::/system.slice/" + id + "\n", false},
		"another pod, below a container of ours": {"0::/kubepods/pod" + uid + "/x/pod" + other + "/" + id + "\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			err := Container{ID: id, pod: podIn(test.cgroups, id)}.checkPod(uid)
			if refused := err != nil; refused != test.refused || refused && !strings.Contains(err.Error(), uid) {
				t.Errorf("checkPod = %v, want a refusal that names the pod: %t", err, test.refused)
			}
		})
	}
}

func TestParseStat(t *testing.T) {
	const numbers = " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20 21"
	tests := []struct {
		name, line string
		start      uint64
		ended      bool
		fails      bool
	}{
		{"a plain name", "7 (sleep) S" + numbers, 4242, false, false},
		{"a name with blanks and parentheses", "7 (a) Z (b) R" + numbers, 4242, false, false},
		{"a zombie", "7 (sleep) Z" + numbers, 4242, true, false},
		{"a line that is cut off", "7 (sleep) S 1 2", 0, false, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			start, ended, err := parseStat(test.line)
			if start != test.start || ended != test.ended || (err != nil) != test.fails {
				t.Errorf("parseStat(%q) = %d, %t, %v", test.line, start, ended, err)
			}
		})
	}
}

func TestFirstProcess(t *testing.T) {
	tests := []struct {
		name     string
		first, q process
	}{
		{"the oldest before number 1 of a namespace that it made, where all share the pod's",
			process{pid: 9, startTime: 40, depth: 2}, process{pid: 12, startTime: 60, first: true, depth: 3}},
		{"number 1 before an older process", process{pid: 9, startTime: 50, first: true, depth: 2}, process{pid: 8, startTime: 40, depth: 1}},
		{"the outer number 1 before one nested in it", process{pid: 90, startTime: 50, first: true, depth: 2}, process{pid: 8, startTime: 50, first: true, depth: 3}},
		{"without a number 1 the oldest", process{pid: 9, startTime: 40, depth: 1}, process{pid: 8, startTime: 50, depth: 1}},
		{"of the same age the lowest number", process{pid: 8, startTime: 40, depth: 1}, process{pid: 9, startTime: 40, depth: 1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if !test.first.before(test.q) || test.q.before(test.first) {
				t.Errorf("%+v must come before %+v", test.first, test.q)
			}
		})
	}
}

func TestResolveCgroups(t *testing.T) {
	const v1Mounts = `31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:5 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
`
	const v2Mounts = "41 31 0:38 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n"
	tests := []struct {
		name, memberships, mounts string
		want                      Cgroups
		problem                   string
	}{
		{"version 1 and a hybrid's unified hierarchy", "5:memory:/pods/a\n2:cpu,cpuacct:/pods/a\n0::/\n", v1Mounts,
			Cgroups{V1: map[string]string{
				"memory": "/sys/fs/cgroup/memory/pods/a", "cpu": "/sys/fs/cgroup/cpu,cpuacct/pods/a", "cpuacct": "/sys/fs/cgroup/cpu,cpuacct/pods/a",
			}, Unified: "/sys/fs/cgroup/unified"}, ""},
		{"version 2", "0::/kubepods.slice/a\n", v2Mounts, Cgroups{V1: map[string]string{}, Unified: "/sys/fs/cgroup/kubepods.slice/a"}, ""},
		{"a part of the hierarchy is mounted, the right one", "0::/pods/a/b\n", "41 31 0:38 /pods/a /here rw - cgroup2 cgroup2 rw\n",
			Cgroups{V1: map[string]string{}, Unified: "/here/b"}, ""},
		{"a part of the hierarchy is mounted, another one", "0::/pods/b\n", "41 31 0:38 /pods/a /here rw - cgroup2 cgroup2 rw\n",
			Cgroups{V1: map[string]string{}}, "hierarchy unified is not mounted where the injector could see /pods/b"},
		{"a path outside the namespace", "0::/../../pods/b\n", v2Mounts, Cgroups{},
			"path /../../pods/b is outside the cgroup namespace, and the node's cannot be entered"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := resolveCgroups(test.memberships, parseCgroupMounts(test.mounts))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("resolveCgroups (-want +got):\n%s", diff)
			}
			if (err == nil) != (test.problem == "") || err != nil && err.Error() != test.problem {
				t.Errorf("resolveCgroups: %v, want %q", err, test.problem)
			}
		})
	}
}

// A first process may make cgroups of its own. They do not hold all of its container.
func TestWhole(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for name, test := range map[string]struct{ unified, want string }{
		"the container's own":          {"/sys/fs/cgroup/kubepods/pod1/" + id, "/sys/fs/cgroup/kubepods/pod1/" + id},
		"systemd in it, cgroupfs":      {"/sys/fs/cgroup/kubepods/pod1/" + id + "/init.scope", "/sys/fs/cgroup/kubepods/pod1/" + id},
		"systemd in it, systemd":       {"/sys/fs/cgroup/kubepods.slice/pod1.slice/cri-containerd-" + id + ".scope/init.scope", "/sys/fs/cgroup/kubepods.slice/pod1.slice/cri-containerd-" + id + ".scope"},
		"an engine of its own":         {"/sys/fs/cgroup/pod1/" + id + "/system.slice/docker.service/x", "/sys/fs/cgroup/pod1/" + id},
		"a cgroup that is not its own": {"/sys/fs/cgroup/system.slice", "/sys/fs/cgroup/system.slice"},
		"none":                         {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (Container{ID: id, Cgroups: Cgroups{Unified: test.unified}}).Whole().Unified; got != test.want {
				t.Errorf("Whole() = %q, want %q", got, test.want)
			}
		})
	}
}

func TestDoTreatsANameThatIsNoNamespaceAnyMoreAsGone(t *testing.T) {
	// For a moment while a pod ends, /run/netns/… is a plain file.
	name := filepath.Join(t.TempDir(), "cni-0")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Do(name, func() error { return nil }); !errors.Is(err, ErrGone) {
		t.Errorf("Do(a plain file) = %v, want ErrGone", err)
	}
}
