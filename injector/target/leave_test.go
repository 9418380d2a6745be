//go:build linux

package target

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/squall-chaos/squall/test/testcontainer"
)

// The cases are cgroups of a pod from container runtimes and kubelets, and other cgroups.
func TestPodDirs(t *testing.T) {
	const uid, underscored = "0a1b2c3d-1111-2222-3333-444455556666", "0a1b2c3d_1111_2222_3333_444455556666"
	for _, test := range []struct {
		name, dir, want string
	}{
		{"cgroupfs", "/sys/fs/cgroup/kubepods/burstable/pod" + uid + "/0123", "/x/sys/fs/cgroup/kubepods/burstable/pod" + uid},
		{"systemd, containerd", "/sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + underscored + ".slice/cri-containerd-0123.scope",
			"/x/sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + underscored + ".slice"},
		{"systemd, CRI-O with crun", "/sys/fs/cgroup/kubepods.slice/kubepods-pod" + underscored + ".slice/crio-0123.scope/container",
			"/x/sys/fs/cgroup/kubepods.slice/kubepods-pod" + underscored + ".slice"},
		{"the pod's own", "/sys/fs/cgroup/kubepods/pod" + uid, ""},
		{"its own is all that it sees", "/sys/fs/cgroup", ""},
		{"a session", "/sys/fs/cgroup/user.slice/user-0.slice/session-1.scope", ""},
		{"unknown", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var want []string
			if test.want != "" {
				want = []string{test.want}
			}
			if diff := cmp.Diff(want, Cgroups{Unified: test.dir}.podDirs("/x")); diff != "" {
				t.Errorf("version 2 (-want +got):\n%s", diff)
			}
			found := Cgroups{V1: map[string]string{"memory": test.dir, "devices": test.dir, "cpu": "/elsewhere" + test.dir}}
			if diff := cmp.Diff(want, found.podDirs("/x")); diff != "" {
				t.Errorf("version 1 (-want +got):\n%s", diff)
			}
		})
	}
}

// A process leaves its container by the node's cgroups if they are mounted here, else by
// those of the node's first process.
func TestLeaveContainer(t *testing.T) {
	node := testcontainer.Proc(t, os.Getpid()) // no test may enter this machine's own
	for _, test := range []struct {
		name   string
		unseen bool
	}{{"cgroups that are mounted here", false}, {"cgroups of the node's first process", true}} {
		t.Run(test.name, func(t *testing.T) {
			container, pid := inContainer(t)
			leave := func() error {
				made, err := LeaveContainer(node, pid, "guard")
				if err != nil || len(made) != 1 {
					t.Errorf("LeaveContainer = %q, %v, want one directory", made, err)
				}
				return nil
			}
			if test.unseen {
				leave = hidingCgroups(leave)
			}
			if err := OnThrowawayThread(leave); err != nil {
				t.Fatal(err)
			}
			inside, err := os.ReadFile(filepath.Join(container, "cgroup.procs"))
			beside, besideErr := os.ReadFile(filepath.Join(filepath.Dir(container), "guard/cgroup.procs"))
			if err != nil || besideErr != nil || len(inside) > 0 || strings.TrimSpace(string(beside)) != strconv.Itoa(pid) {
				t.Errorf("in the container %q, %v, and beside it %q, %v; want process %d beside it", inside, err, beside, besideErr, pid)
			}
		})
	}
}

// hidingCgroups hides the cgroups from f, on its own thread alone.
func hidingCgroups(f func() error) func() error {
	return func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return err
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return err
		}
		if err := unix.Unmount("/sys/fs/cgroup", unix.MNT_DETACH); err != nil {
			return err
		}
		return f()
	}
}

// inContainer starts a process in the cgroup of a container, in one hierarchy.
func inContainer(t *testing.T) (container string, pid int) {
	t.Helper()
	roots := []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup/memory", "/sys/fs/cgroup"}
	at := slices.IndexFunc(roots, func(root string) bool {
		_, err := os.Stat(filepath.Join(root, "cgroup.procs"))
		return err == nil
	})
	if at < 0 {
		t.Fatalf("no cgroups in %q", roots)
	}
	pod := filepath.Join(roots[at], "pod"+string(uuid.NewUUID()))
	container = filepath.Join(pod, "container")
	if err := os.MkdirAll(container, 0o755); err != nil {
		t.Fatal(err)
	}
	sleeper := exec.Command("sleep", "1000")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		sleeper.Process.Kill()
		sleeper.Wait()
		for _, dir := range []string{filepath.Join(pod, "guard"), container, pod} {
			testcontainer.Eventually(t, "cgroup "+dir+" removed", func() error {
				if err := os.Remove(dir); !errors.Is(err, os.ErrNotExist) {
					return err
				}
				return nil
			})
		}
	})
	if err := os.WriteFile(filepath.Join(container, "cgroup.procs"), []byte(strconv.Itoa(sleeper.Process.Pid)), 0); err != nil {
		t.Fatal(err)
	}
	return container, sleeper.Process.Pid
}
