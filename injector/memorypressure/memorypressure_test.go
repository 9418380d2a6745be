//go:build linux

package memorypressure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/patience"
	"github.com/squall-chaos/squall/test/testcontainer"
	"github.com/squall-chaos/squall/test/testneeds"
)

func percent(text string) v1beta1.MemoryPressure {
	return v1beta1.MemoryPressure{TargetPercent: v1beta1.Percentage{Text: text}}
}

// inject injects and cleans at the end of the test.
func inject(t *testing.T, params v1beta1.MemoryPressure, loaded *target.Target) *Injector {
	t.Helper()
	injector := New(params, loaded, nil)
	t.Cleanup(func() { clean(t, injector) })
	if err := injector.Inject(t.Context()); err != nil {
		t.Fatalf("Inject = %v", err)
	}
	return injector
}

func clean(t *testing.T, injector *Injector) {
	t.Helper()
	// The test's own context ends before its cleanups run. In a test the node's first process
	// may be another one; hogs are searched among all processes.
	ctx := context.WithoutCancel(t.Context())
	cleaner := New(injector.params, &target.Target{Injection: injector.target.Injection}, nil)
	if err := cleaner.Clean(ctx); err != nil {
		t.Errorf("Clean = %v", err)
	}
	if left, err := cleaner.Left(ctx); err != nil || len(left) > 0 {
		t.Errorf("after Clean there are %v, %v, want nothing", left, err)
	}
}

func TestHoldsTheShareAskedForAndLetsItGo(t *testing.T) {
	for _, test := range []struct {
		asked string
		want  int
	}{{"50%", 50}, {"80", 80}, {"100%", 95}} {
		t.Run(test.asked, func(t *testing.T) {
			c := newContainer(t, 16*mib)
			before := c.inUse(t)
			injector := inject(t, percent(test.asked), c.load(t))
			if used := c.inUse(t); used < share(limit, test.want-5) || used > share(limit, test.want+5) {
				t.Errorf("injected, and %s are in use, want %d%% of %s", size(used), test.want, size(limit))
			}
			c.awaitInUse(t, "held", test.want)
			for range 2 {
				clean(t, injector)
				if after := c.inUse(t); after > before+share(limit, 5) {
					t.Errorf("cleaned, and %s are in use, before it were %s", size(after), size(before))
				}
			}
			if c.killed(t) != 0 || !c.Running() {
				t.Errorf("%d processes were killed, the target runs: %t", c.killed(t), c.Running())
			}
		})
	}
}

// The use never exceeds the ramp and never falls. A hog that waits for the processor may be
// behind, by the machine's lost time and a quarter of the ramp. That detects a hog that
// fills everything at once, at the beginning or at the end. TestGoal checks the goal at
// each moment.
func TestARampIsLinear(t *testing.T) {
	const ramp, behind = 8 * time.Second, 2 * time.Second
	c := newContainer(t, 16*mib)
	params := percent("90%")
	params.RampDuration = &v1beta1.Duration{Duration: ramp}
	start := c.inUse(t)
	at := func(elapsed time.Duration) int64 {
		part := float64(max(0, min(elapsed, ramp))) / float64(ramp)
		return start + int64(part*float64(share(limit, 90)-start))
	}
	began := time.Now()
	injector := inject(t, params, c.load(t))
	begun := time.Now() // the ramp began in between
	wantState := func(when string, want v1beta1.EffectState) {
		t.Helper()
		if state, evidence, err := injector.Prove(t.Context()); state != want || err != nil {
			t.Errorf("%s: Prove = %s, %q, %v, want %s", when, state, evidence, err, want)
		}
	}
	wantState("as the ramp begins", v1beta1.EffectNothingMatchedYet)
	pids := c.hogs(t)
	if len(pids) != 1 {
		t.Fatalf("hogs = %v, want one", pids)
	}
	took := patience.Stopwatch(t)
	for highest := start; time.Since(begun) < ramp; <-time.After(interval) {
		_, delayed, _ := patience.RunDelay(pids[0]) // without this count the kernel excuses nothing
		_, lost := took()
		least := at(time.Since(begun)-behind-max(lost, delayed)) - share(limit, 5)
		used := c.inUse(t)
		most := at(time.Since(began)) + share(limit, 5)
		if used < least || used > most {
			t.Fatalf("after %s %s are in use, want %s to %s", time.Since(began), size(used), size(least), size(most))
		}
		if used < highest-slack(limit) {
			t.Fatalf("after %s %s are in use, before it were %s", time.Since(began), size(used), size(highest))
		}
		highest = max(highest, used)
	}
	c.awaitInUse(t, "after the ramp", 90)
	wantState("after the ramp", v1beta1.EffectProven)
}

func TestFollowsTheTargetUpAndDown(t *testing.T) {
	c := newContainer(t, 16*mib)
	inject(t, percent("75%"), c.load(t))
	for _, uses := range []int64{64 * mib, 90 * mib, 24 * mib, 48 * mib} {
		c.use(t, uses)
		c.awaitInUse(t, "the target uses "+size(uses), 75)
	}
}

// The target takes the memory of the hog, and more, up to its limit: the kernel kills no
// process.
func TestLetsGoBeforeTheTargetRunsOut(t *testing.T) {
	c := newContainer(t, 16*mib)
	injector := inject(t, percent("100%"), c.load(t))
	for uses := int64(16 * mib); uses <= 112*mib; uses += 2 * mib {
		c.use(t, uses)
		testcontainer.Eventually(t, "a twentieth of the limit is free, or nothing is held", func() error {
			if used := c.inUse(t); used > share(limit, 96) {
				return fmt.Errorf("%s of %s are in use", size(used), size(limit))
			}
			return nil
		})
	}
	if c.killed(t) != 0 || !c.Running() || len(c.hogs(t)) != 1 {
		t.Errorf("%d processes were killed, the target runs: %t, hogs: %v", c.killed(t), c.Running(), c.hogs(t))
	}
	c.use(t, 16*mib)
	c.awaitInUse(t, "the target uses little again", 95)
	clean(t, injector)
}

func TestNothingIsAddedWhileTheTargetUsesMore(t *testing.T) {
	c := newContainer(t, 100*mib)
	before := c.inUse(t)
	injector := inject(t, percent("50%"), c.load(t))
	if notes := injector.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "nothing is added") || !strings.Contains(notes[0], "container cart") {
		t.Errorf("notes = %q, want one that says that nothing is added", notes)
	}
	if after := c.inUse(t); after > before+share(limit, 5) {
		t.Errorf("%s are in use, before it were %s, want nothing added", size(after), size(before))
	}
	c.use(t, 16*mib)
	c.awaitInUse(t, "the target uses less", 50)
}

// Wrong inputs are found before anything is done.
func TestRefusals(t *testing.T) {
	c := newContainer(t, 16*mib)
	nowhere := c.load(t)
	nowhere.Containers[0].Cgroups = target.Cgroups{V1: map[string]string{"memory": "/sys/fs/cgroup/no-such-cgroup"}}
	gone := newContainer(t, mib)
	ended := gone.load(t)
	gone.Kill(t)
	for _, test := range []struct {
		name, asked string
		target      *target.Target
		want        string
	}{
		{"no percentage", "", c.load(t), `targetPercent ""`},
		{"more than all", "101%", c.load(t), `targetPercent "101%": want a percentage from "1%" to "100%"`},
		{"a limit that cannot be read", "50%", nowhere, "/sys/fs/cgroup/no-such-cgroup"},
		{"a target that has ended", "50%", ended, "target is gone"},
	} {
		t.Run(test.name, func(t *testing.T) {
			injector := New(percent(test.asked), test.target, nil)
			err := injector.Inject(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Inject = %v, want an error with %q", err, test.want)
			}
			if left, err := injector.Left(t.Context()); err != nil || len(left) > 0 {
				t.Errorf("after the refusal: %v, %v, want no hog", left, err)
			}
		})
	}
	if err := New(percent("50%"), ended, nil).Inject(t.Context()); !errors.Is(err, target.ErrGone) {
		t.Errorf("Inject into a target that has ended = %v, want target.ErrGone", err)
	}
}

// rule 58
func TestOneContainerOfTwoHasEnded(t *testing.T) {
	alive, gone := newContainer(t, 16*mib), newContainer(t, mib)
	loaded := alive.load(t)
	loaded.Containers = append(loaded.Containers, gone.load(t).Containers...)
	gone.Kill(t)
	if err := New(percent("50%"), loaded, nil).Inject(t.Context()); !errors.Is(err, target.ErrGone) {
		t.Errorf("Inject = %v, want target.ErrGone", err)
	}
	if found := alive.hogs(t); len(found) > 0 {
		t.Errorf("hogs %v run, want none before all can", found)
	}
}

func TestHogEndsWithTheInjector(t *testing.T) {
	c := newContainer(t, 16*mib)
	before := c.inUse(t)
	injector := startInjector(t, c.ID)
	c.awaitInUse(t, "held", 50)
	if found := c.hogs(t); len(found) != 1 {
		t.Fatalf("hogs = %v, want one", found)
	}
	if err := injector.Process.Kill(); err != nil { // SIGKILL: no code of it can run any more
		t.Fatal(err)
	}
	testcontainer.Eventually(t, "all that was held is free", func() error {
		if used := c.inUse(t); len(c.hogs(t)) > 0 || used > before+share(limit, 5) {
			return fmt.Errorf("hogs %v, %s in use, before it were %s", c.hogs(t), size(used), size(before))
		}
		return nil
	})
	clean(t, New(percent("50%"), c.load(t), nil))
}

func TestHogEndsWithTheTarget(t *testing.T) {
	c := newContainer(t, 16*mib)
	injector := inject(t, percent("50%"), c.load(t))
	c.Stop(t) // Stop removes its cgroups, so no process may be in them
	if left := c.hogs(t); len(left) > 0 {
		t.Errorf("hogs %v outlive the target", left)
	}
	clean(t, injector) // a target that is gone counts as cleaned
	clean(t, injector)
}

// rule 58
func TestCleanEndsWhatAnotherProcessLeft(t *testing.T) {
	c, neighbour := newContainer(t, 16*mib), newContainer(t, 16*mib)
	startInjector(t, c.ID)
	inject(t, percent("40%"), neighbour.load(t))
	found, err := Audit(t.Context(), "/proc", nil)
	marks := map[string]bool{}
	for _, mark := range found {
		marks[string(mark.Disruption.UID)+" "+string(mark.Target)] = true
	}
	if err != nil || !marks["disruption-"+c.ID+" pod-"+c.ID] || !marks["disruption-"+neighbour.ID+" pod-"+neighbour.ID] {
		t.Errorf("Audit = %+v, %v, want the hogs of both", found, err)
	}
	cleaner := New(percent("50%"), c.load(t), nil)
	if left, err := cleaner.Left(t.Context()); err != nil || len(left) != 1 {
		t.Errorf("Left = %q, %v, want the one hog of this target", left, err)
	}
	clean(t, cleaner)
	if len(neighbour.hogs(t)) != 1 {
		t.Error("Clean ended the hog of another disruption")
	}
	neighbour.awaitInUse(t, "the neighbour", 40)
}

func TestHogIsTheFirstToBeKilledAndHasPriority(t *testing.T) {
	c := newContainer(t, 16*mib)
	inject(t, percent("30%"), c.load(t))
	pids := c.hogs(t)
	if len(pids) != 1 {
		t.Fatalf("hogs = %v, want one", pids)
	}
	dir := "/proc/" + strconv.Itoa(pids[0])
	if score := read(t, dir+"/oom_score_adj"); strings.TrimSpace(score) != "1000" {
		t.Errorf("oom_score_adj of the hog = %s, want 1000", score)
	}
	stat := read(t, dir+"/stat")
	if nice := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])[16]; nice != "-20" {
		t.Errorf("nice of the hog = %s, want -20", nice)
	}
	memberships := read(t, dir+"/cgroup")
	if !strings.Contains(c.dir, "/memory/") {
		return // version 2 has one cgroup for everything
	}
	for line := range strings.Lines(memberships) {
		controller := strings.Split(line, ":")[1]
		inside := strings.Contains(line, c.ID)
		if want := strings.Contains(" memory cpu cpuacct ", " "+controller+" ") && (controller != "cpuacct" || inside); inside != want {
			t.Errorf("hog in the target's cgroup of %q: %t, want %t", controller, inside, want)
		}
	}
}

// Containers without a limit of their own share that of their pod. One hog fills it,
// instead of one for each container.
func TestContainersThatShareALimitGetOneHog(t *testing.T) {
	c := newContainer(t, 16*mib)
	if !strings.Contains(c.dir, "/memory/") {
		t.Skip(testneeds.OnlyVersion1) // version 2 has no processes in a pod's own cgroup
	}
	loaded := c.load(t)
	one := loaded.Containers[0]
	loaded.Containers = nil
	for _, name := range []string{"one", "two"} {
		dir := filepath.Join(c.dir, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { testcontainer.Eventually(t, "removed", func() error { return os.Remove(dir) }) })
		one.Name, one.Cgroups = name, target.Cgroups{V1: map[string]string{"memory": dir}}
		loaded.Containers = append(loaded.Containers, one)
	}
	injector := inject(t, percent("60%"), loaded)
	if found := c.hogs(t); len(found) != 1 {
		t.Errorf("hogs = %v, want one for the limit of the pod", found)
	}
	if notes := strings.Join(injector.Notes(), "\n"); !strings.Contains(notes, "no memory limit of its own") || !strings.Contains(notes, c.dir) {
		t.Errorf("notes = %s, want it said whose limit is filled", notes)
	}
	c.awaitInUse(t, "the pod", 60)
}

// rule 53: at level node no container is used. The hog is with the node's first process,
// which another process replaces here.
func TestNodeLevelFillsTheNode(t *testing.T) {
	c := newContainer(t, 16*mib)
	injection := injectionOn(c)
	injection.Level, injection.Target.Containers = v1beta1.LevelNode, nil
	loaded, err := target.Load(t.Context(), injection, testcontainer.Proc(t, c.PID))
	if err != nil {
		t.Fatal(err)
	}
	injector := inject(t, percent("70%"), loaded)
	if len(injector.Notes()) > 0 {
		t.Errorf("notes = %q, want none", injector.Notes())
	}
	c.awaitInUse(t, "the node", 70)
	pids := c.hogs(t)
	if len(pids) != 1 {
		t.Fatalf("hogs = %v, want one", pids)
	}
	stat := read(t, "/proc/"+strconv.Itoa(pids[0])+"/stat")
	if nice := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])[16]; nice == "-20" {
		t.Error("the hog of a node has priority before the kubelet")
	}
	clean(t, injector)
	clean(t, injector)
}

// This test uses the real node: with a goal below its use, nothing is added to it.
func TestTheNodeItselfIsMeasured(t *testing.T) {
	injection := v1beta1.Injection{Level: v1beta1.LevelNode, Target: v1beta1.InjectionTarget{Name: "node"}}
	injector := New(percent("1%"), &target.Target{Injection: injection}, nil)
	node, err := readNode()
	if err != nil {
		t.Fatal(err)
	}
	offers, err := injector.Probe()
	if err != nil || !strings.HasSuffix(offers, " "+size(node.limit)) {
		t.Errorf("Probe = %q, %v, want what the node has, %s", offers, err, size(node.limit))
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
