package cgroup

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestSweepEndsFrozenProcesses(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to make cgroups")
	}
	prefix := fmt.Sprintf("squall-test%d-", os.Getpid())
	t.Cleanup(func() { _ = Sweep(prefix) })
	name := prefix + "frozen"
	if err := Make(name); err != nil {
		t.Skipf("cannot make cgroups here: %v", err)
	}
	if err := Make(name + "/below"); err != nil {
		t.Fatal(err)
	}
	child := exec.Command("sleep", "600")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	hierarchies, err := Hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hierarchies {
		if err := os.WriteFile(h.Path+"/"+name+"/below/cgroup.procs", fmt.Append(nil, child.Process.Pid), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := Freeze(name); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is nothing to do
		if err := Sweep(prefix); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the frozen process is still there")
	}
	if left, err := groups(prefix); err != nil || len(left) > 0 {
		t.Errorf("groups(%q) = %v, %v, want none", prefix, left, err)
	}
}
