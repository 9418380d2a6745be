//go:build linux

package target

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/testcontainer"
)

// A runtime first creates a container, with its cgroup, its mount namespace and the
// kubelet's file, and starts it later. rule 56b
func TestContainerThatIsOnlyCreatedIsNoSuccessor(t *testing.T) {
	const name = "app-created"
	first := testcontainer.Start(t, testcontainer.Sleeps...)
	injection := injectionOf(first)
	injection.Target.Containers[0].Name = name
	proc := procDir(t, map[int]int{first.PID: first.PID})
	before, err := Load(t.Context(), injection, proc)
	if err != nil {
		t.Fatal(err)
	}
	first.Kill(t)

	dir := filepath.Join(t.TempDir(), "pods", "u-1", "containers", name)
	file := filepath.Join(dir, "1a2b3c4d")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(file, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	// Like a runtime's, the first process is forked and executes the application later.
	runtime := testcontainer.Start(t, "unshare", "--mount", "sh", "-c",
		`mount --bind "$0" "$0"; mkfifo "$0.start"; (read start < "$0.start"; exec sleep 1000) & wait`, file)
	var created int
	testcontainer.Eventually(t, "the container is created", func() error {
		if _, err := os.Stat(file + ".start"); err != nil {
			return err
		}
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", runtime.PID, runtime.PID))
		if err != nil {
			return err
		}
		if created, err = strconv.Atoi(strings.TrimSpace(string(children))); err != nil {
			return err
		}
		if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", created)); err != nil || string(comm) != "sh\n" {
			return fmt.Errorf("%s: %w", comm, errors.Join(err, errors.New("not the shell")))
		}
		return nil
	})
	if err := os.Symlink(fmt.Sprintf("/proc/%d", created), filepath.Join(proc, strconv.Itoa(created))); err != nil {
		t.Fatal(err)
	}
	if now, err := before.Renewed(); !errors.Is(err, ErrGone) {
		t.Errorf("before its start: %+v, %v, want none", now, err)
	}
	if err := os.WriteFile(file+".start", []byte("\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	testcontainer.Eventually(t, "the container is started", func() error {
		now, err := before.Renewed()
		if err == nil && now.Containers[0].PID != created {
			err = fmt.Errorf("process %d, want %d", now.Containers[0].PID, created)
		}
		return err
	})
}

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

// Load finds containers that restarted after the target was selected by their names in the
// pod's cgroup. A container that finished is away.
func TestLoadFindsWhatStartedAgain(t *testing.T) {
	const pod, old = "12345678-90ab-cdef-1234-567890abcdef", "a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0"
	now := testcontainer.Start(t, testcontainer.Sleeps...)
	proc := t.TempDir()
	dir := filepath.Join(proc, strconv.Itoa(now.PID))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"stat", "status", "ns", "comm", "root"} {
		if err := os.Symlink(fmt.Sprintf("/proc/%d/%s", now.PID, file), filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
	}
	for file, content := range map[string]string{
		"cgroup":    "0::/kubepods.slice/kubepods-pod" + strings.ReplaceAll(pod, "-", "_") + ".slice/cri-containerd-" + now.ID + ".scope\n",
		"mountinfo": "1 2 0:1 /var/lib/kubelet/pods/" + pod + "/containers/app/1a2b3c4d /dev/termination-log rw - ext4 /dev/x rw\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	injection := v1beta1.Injection{Level: v1beta1.LevelPod, Target: v1beta1.InjectionTarget{UID: pod,
		Containers: []v1beta1.InjectionContainer{{Name: "app", ID: old}, {Name: "helper", ID: old[1:] + "1"}}}}
	found, err := Load(t.Context(), injection, proc)
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Containers) != 1 || found.Containers[0].Name != "app" || found.Containers[0].ID != now.ID || len(found.Away) != 1 || found.Away[0].Name != "helper" {
		t.Errorf("containers %+v, away %+v; want app as it runs now, and helper away", found.Containers, found.Away)
	}
	if got := found.Injection.Target.Containers; len(got) != 1 || got[0].ID != now.ID {
		t.Errorf("the injection names %+v, want the container that runs", got)
	}
	injection.Target.UID = "another0-90ab-cdef-1234-567890abcdef"
	if _, err := Load(t.Context(), injection, proc); !errors.Is(err, ErrGone) {
		t.Errorf("Load() in another pod = %v, want ErrGone", err)
	}
}
