//go:build linux

package main

import (
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
)

func TestWorkIsNeitherIdleNorStolen(t *testing.T) {
	got, err := parseWork("cpu  100 20 30 9999 8888 4 6 7777 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n")
	if err != nil || got != 1600*time.Millisecond {
		t.Errorf("parseWork() = %s, %v, want 1.6s", got, err)
	}
	for _, bad := range []string{"", "cpu 1 2", "cpu0 1 2 3 4 5 6 7", "cpu a 2 3 4 5 6 7"} {
		if _, err := parseWork(bad); err == nil {
			t.Errorf("parseWork(%q) is no error", bad)
		}
	}
}

func TestMountsAreThoseOfEveryInstance(t *testing.T) {
	const first = "1401 359 0:106 / / rw,relatime - overlay overlay rw,upperdir=/snapshots/565\n" +
		"1419 1401 0:29 /pod/one /sys/fs/cgroup/cpu ro,nosuid master:94 - cgroup cgroup rw,cpu\n"
	const second = "495 1968 0:466 / / rw,relatime - overlay overlay rw,upperdir=/snapshots/361\n" +
		"827 495 0:29 /pod/two /sys/fs/cgroup/cpu ro,nosuid master:56 - cgroup cgroup rw,cpu\n"
	if got, want := mountsOf(second), mountsOf(first); got != want {
		t.Errorf("mountsOf() = %q of the container that was started again, want %q", got, want)
	}
	const covered = "900 495 0:9 / /data/file rw - tmpfs tmpfs rw\n"
	if got, want := mountsOf(first+covered), mountsOf(first)+"/data/file rw tmpfs\n"; got != want {
		t.Errorf("mountsOf() = %q with a mount more, want %q", got, want)
	}
}

func TestGuardsAreThoseThatAnInjectorStarted(t *testing.T) {
	guard, other := exec.Command("sleep", "1000"), exec.Command("sleep", "1000")
	guard.Args[0] = v1beta1.GuardName
	for _, started := range []*exec.Cmd{guard, other} {
		if err := started.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			started.Process.Kill()
			started.Wait()
		})
	}
	if got := guardsOf(os.Getpid()); !slices.Equal(got, []int{guard.Process.Pid}) {
		t.Errorf("guards = %v, want %d", got, guard.Process.Pid)
	}
	if got := guardsOf(other.Process.Pid); len(got) > 0 {
		t.Errorf("guards of another = %v, want none", got)
	}
}
