//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/testcontainer"
)

// guards lists the guards of an arena's injection, by the name of their process and their
// command line.
func (a *arena) guards() []int {
	a.t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		a.t.Fatal(err)
	}
	var found []int
	for _, path := range lines {
		line, _ := os.ReadFile(path) // or it has ended
		if strings.HasPrefix(string(line), v1beta1.GuardName+"\x00") && strings.Contains(string(line), a.uid()) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			found = append(found, pid)
		}
	}
	return found
}

// awaitGuarded waits until a guard has cleaned and is gone, without another cleaner.
func (a *arena) awaitGuarded(t *testing.T) {
	t.Helper()
	testcontainer.Eventually(t, "nothing is left, and no guard", func() error {
		if left, guards := a.journals(), a.guards(); len(left)+len(guards) > 0 {
			return fmt.Errorf("journals %v, guards %v", left, guards)
		}
		return nil
	})
}

// An injector is killed, and only its guard cleans: the original state is back. An injector
// that ends normally ends its guard too, with the same state.
//
// rule 58
func TestGuardCleansAfterAKilledInjector(t *testing.T) {
	for _, w := range workloads() {
		guarded := registry[w.kind].outlives
		if !guarded && !w.reverts {
			t.Errorf("%s: it does not revert itself, and its kind has no guard", w.name)
		}
		// A connection of DNS may stay although its kind reverts itself. The workload with
		// everything combines others of this list.
		if !guarded || w.reverts && w.kind != v1beta1.KindDNS || w.name == "network by everything" {
			continue
		}
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			a := newArena(t, w)
			a.env = append(a.env, "SQUALL_GUARD=true")
			before := a.state()
			var killed time.Time
			asks := a.held
			a.held = func() {
				if asks != nil {
					asks()
				}
				if guards := a.guards(); len(guards) != 1 {
					t.Errorf("while it holds the guards %v run, want one", guards)
				}
				killed = time.Now()
			}
			a.injectTraced(syscall.SIGKILL, permitAll)
			a.awaitGuarded(t)
			t.Logf("cleaned, and gone, %s after the SIGKILL", time.Since(killed).Round(time.Millisecond))
			a.expectClean(t, before)

			a.injectTraced(syscall.SIGTERM, permitAll)
			if guards := a.guards(); len(guards) > 0 {
				t.Errorf("the injector has ended, its guards %v have not", guards)
			}
			a.expectClean(t, before)
		})
	}
}

// Killed before anything is undone, an injector that cleans has a guard as well.
func TestGuardCleansWhatAKilledInjectorBeganToClean(t *testing.T) {
	a := newArena(t, workloadNamed(t, "disk-pressure"))
	a.env = append(a.env, "SQUALL_GUARD=true")
	before := a.state()
	ended := false
	a.held = func() { ended = true }
	a.injectTraced(syscall.SIGTERM, func(step string) verdict {
		if ended && step == "remove ~/ready" {
			return kill
		}
		return permit
	})
	a.awaitGuarded(t)
	a.expectClean(t, before)
}

// Once its guard was killed, the effect of a killed injector stays, for the cleaner and its
// tests.
func TestInjectionStaysWhenTheGuardWasKilledFirst(t *testing.T) {
	a := newArena(t, workloadNamed(t, "disk-pressure"))
	a.env = append(a.env, "SQUALL_GUARD=true")
	before := a.state()
	a.held = func() {
		for _, pid := range a.guards() {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
	}
	a.injectTraced(syscall.SIGKILL, permitAll)
	testcontainer.Eventually(t, "the guard that was killed is gone", func() error {
		if guards := a.guards(); len(guards) > 0 {
			return fmt.Errorf("guards %v", guards)
		}
		return nil
	})
	if len(a.journals()) == 0 {
		t.Error("there is no journal, want one")
	}
	a.heal(t, "nothing")
	a.expectClean(t, before)
}

// A runtime kills all processes of a container whose first one has ended, if they share the
// node's process namespace. It finds them by their cgroup, and so does the kernel when
// memory runs out. The guard is in another cgroup of the pod.
func TestGuardOutlivesItsContainer(t *testing.T) {
	pod := "pod" + string(uuid.NewUUID())
	a := newArena(t, workloadNamed(t, "disk-pressure"))
	a.env = append(a.env, "SQUALL_GUARD=true")
	before := a.state()
	containers := podCgroups(t, pod)
	a.launched = func(pid int) { // before its first step
		for _, dir := range containers {
			if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
				t.Error(err)
			}
		}
	}
	a.held = func() {
		guards := a.guards()
		if len(guards) != 1 {
			t.Errorf("guards %v, want one", guards)
		}
		for _, dir := range containers {
			inside, err := readFile(filepath.Join(dir, "cgroup.procs"))
			beside, besideErr := readFile(filepath.Join(filepath.Dir(dir), v1beta1.GuardName, "cgroup.procs"))
			if err != nil || besideErr != nil || len(strings.Fields(inside)) != 1 || !slices.Equal(strings.Fields(beside), strings.Fields(fmt.Sprint(guards[0]))) {
				t.Errorf("in %s %q, %v, and beside it %q, %v; want the injector, and its guard %v", dir, inside, err, beside, besideErr, guards)
			}
		}
	}
	a.injectTraced(syscall.SIGKILL, permitAll)
	a.awaitGuarded(t)
	a.expectClean(t, before)

	a.injectTraced(syscall.SIGTERM, permitAll)
	for _, dir := range containers {
		if _, err := os.Stat(filepath.Join(filepath.Dir(dir), v1beta1.GuardName)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the cgroup of the guard beside %s: %v, want it removed", dir, err)
		}
	}
}

// podCgroups makes the cgroup of a container, with the kubelet's names, in all hierarchies
// in which a container may be found.
func podCgroups(t *testing.T, pod string) []string {
	t.Helper()
	roots := []string{"/sys/fs/cgroup"}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil {
		roots = nil
		for _, name := range []string{"memory", "pids", "freezer", "devices", "systemd", "unified"} {
			if dir := filepath.Join("/sys/fs/cgroup", name); !errors.Is(statErr(dir), os.ErrNotExist) {
				roots = append(roots, dir)
			}
		}
	}
	var made []string
	for _, root := range roots {
		dir := filepath.Join(root, pod, "container")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			for _, gone := range []string{dir, filepath.Join(root, pod, v1beta1.GuardName), filepath.Join(root, pod)} {
				testcontainer.Eventually(t, "cgroup "+gone+" removed", func() error {
					if err := os.Remove(gone); !errors.Is(err, os.ErrNotExist) {
						return err
					}
					return nil
				})
			}
		})
		made = append(made, dir)
	}
	return made
}

func statErr(path string) error {
	_, err := os.Stat(path)
	return err
}

// A guard lives as long as its disruption, on every target, so it must use little memory.
func TestGuardIsSmall(t *testing.T) {
	a := newArena(t, workloadNamed(t, "disk-pressure"))
	a.env = append(a.env, "SQUALL_GUARD=true")
	p := a.inject(a.injection)
	p.awaitReady()
	guards := a.guards()
	if len(guards) != 1 {
		t.Fatalf("guards %v, want one", guards)
	}
	text, err := readFile(fmt.Sprintf("%s/%d/status", target.DefaultProc, guards[0]))
	if err != nil {
		t.Fatal(err)
	}
	held := map[string]int{}
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(line, ":"); found {
			if fields := strings.Fields(value); len(fields) == 2 {
				held[name], _ = strconv.Atoi(fields[0])
			}
		}
	}
	t.Logf("the guard holds %d kB resident, %d kB of it its own", held["VmRSS"], held["RssAnon"])
	if held["VmRSS"] == 0 || held["VmRSS"] > 30<<10 || held["RssAnon"] > 12<<10 {
		t.Errorf("the guard holds %v, want at most 30 MiB resident and 12 MiB of its own", held)
	}
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code = %d, want 0", code)
	}
}
