//go:build linux

package cpupressure

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/patience"
	"github.com/squall-chaos/squall/test/testcontainer"
	"github.com/squall-chaos/squall/test/testneeds"
)

// cpusOf limits the container to this many CPUs, and gives it the highest weight, so that
// other load on this machine does not show in the figures.
func (c *container) cpusOf(t *testing.T, n int) {
	t.Helper()
	file, effective := "", ""
	if isV2() {
		write(t, filepath.Join(c.Dirs[""], "cpu.weight"), "10000")
		file, effective = filepath.Join(c.Dirs[""], "cpuset.cpus"), cgroupRoot+"/cpuset.cpus.effective"
	} else {
		write(t, filepath.Join(c.Dirs["cpu"], "cpu.shares"), "262144")
		file = filepath.Join(c.Dirs["cpuset"], "cpuset.cpus")
		effective = file
	}
	allowed := cpus(t, effective)
	if len(allowed) < n {
		testneeds.Missing(t, testneeds.Processors, fmt.Sprintf("want %d, have %v", n, allowed))
	}
	if isV2() && len(allowed) > n {
		write(t, cgroupRoot+"/cgroup.subtree_control", "+cpuset")
	}
	if len(allowed) > n {
		write(t, file, strings.Trim(strings.ReplaceAll(fmt.Sprint(allowed[len(allowed)-n:]), " ", ","), "[]"))
	}
}

// cpus reads a list of CPUs. A kernel without cpusets allows all.
func cpus(t *testing.T, file string) []int {
	t.Helper()
	if _, err := os.Stat(file); err != nil {
		file = "/sys/devices/system/cpu/online"
	}
	list, err := parseCPUList(read(t, file))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func count(text string) *intstr.IntOrString {
	parsed := intstr.Parse(text)
	return &parsed
}

// inject injects and cleans at the end of the test.
func inject(t *testing.T, params v1beta1.CPUPressure, loaded *target.Target) *Injector {
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
	// The test's own context is over when its cleanups run.
	if err := injector.Clean(context.WithoutCancel(t.Context())); err != nil {
		t.Errorf("Clean = %v", err)
	}
	if left := burning(t, injector.target.Injection); len(left) > 0 {
		t.Errorf("after Clean burners %v run, want none", left)
	}
}

func burning(t *testing.T, injection v1beta1.Injection) []int {
	t.Helper()
	pids, err := burners.Of(&target.Target{Injection: injection}).PIDs()
	if err != nil {
		t.Fatal(err)
	}
	return pids
}

func TestBurnsTheShareAskedFor(t *testing.T) {
	tests := []struct {
		name  string
		count *intstr.IntOrString
		cpus  int
		want  float64 // cores
	}{
		{"50% of one CPU", count("50%"), 1, 0.5},
		{"20% of one CPU", count("20%"), 1, 0.2},
		{"one core spread over two CPUs", count("1"), 2, 1.0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newContainer(t)
			c.cpusOf(t, test.cpus)
			injector := inject(t, v1beta1.CPUPressure{Count: test.count}, c.load(t))
			c.wantsCores(t, test.want, 0.1)
			clean(t, injector)
			if got := c.measure(t); got.least() > 0.01 {
				t.Errorf("after Clean the cgroup uses %.3f cores, want none", got.least())
			}
			clean(t, injector)
		})
	}
}

func TestBurnsAllOfTheAllowedCPUAndNoOther(t *testing.T) {
	c := newContainer(t)
	c.cpusOf(t, 1)
	inject(t, v1beta1.CPUPressure{}, c.load(t))
	if testneeds.Virtual() {
		c.wantsAllOfAVirtualCPU(t)
		return
	}
	before := c.usedByCPU(t)
	c.wantsCores(t, 1, 0.05)
	for cpu, used := range c.usedByCPU(t) {
		if used -= before[cpu]; used > 10*time.Millisecond && !slices.Contains(cpus(t, filepath.Join(c.Dirs["cpuset"], "cpuset.cpus")), cpu) {
			t.Errorf("CPU %d was used for %s, which is not the one that is allowed", cpu, used)
		}
	}
	pid := burning(t, c.injection())[0]
	list, err := allowedList(read(t, "/proc/"+strconv.Itoa(pid)+"/status"))
	if err != nil || strings.ContainsAny(list, ",-") {
		t.Errorf("the burner may use CPUs %s, %v, want the one of its cgroup", list, err)
	}
}

// A container that gets or loses CPUs is burned on those that it has. rule 56d
func TestBurnsOnTheCPUsThatTheTargetHasNow(t *testing.T) {
	c := newContainer(t)
	c.cpusOf(t, 2)
	file := filepath.Join(c.Dirs["cpuset"], "cpuset.cpus")
	if isV2() {
		file = filepath.Join(c.Dirs[""], "cpuset.cpus")
	}
	if _, err := os.Stat(file); err != nil {
		testneeds.Missing(t, testneeds.Cgroups, err)
	}
	both := cpus(t, file)
	allow := func(n int) { write(t, file, strings.Trim(strings.ReplaceAll(fmt.Sprint(both[:n]), " ", ","), "[]")) }
	allow(1)
	inject(t, v1beta1.CPUPressure{Count: count("1")}, c.load(t))
	for _, n := range []int{2, 1} {
		allow(n)
		burner := burning(t, c.injection())[0]
		pinned := func() bool {
			var on []string
			statuses, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", burner))
			for _, status := range statuses {
				content, err := os.ReadFile(status)
				if err != nil {
					return false // the thread has ended since
				}
				list, err := allowedList(string(content))
				if err == nil && !strings.ContainsAny(list, ",-") && !slices.Contains(on, list) {
					on = append(on, list)
				}
			}
			return len(on) == n
		}
		patience.Within(t, time.Minute, fmt.Sprintf("with %d CPUs the burner is pinned to each of them", n), pinned)
		c.wantsCores(t, 1, 0.1)
	}
}

// wantsAllOfAVirtualCPU is for the only CPU of a virtual machine, of which its host may
// give only a part. The cgroup must leave nothing idle.
func (c *container) wantsAllOfAVirtualCPU(t *testing.T) {
	t.Helper()
	patience.Measure(t, "all of a virtual CPU", func() error {
		before := idle(t)
		used := c.measure(t).least()
		left := (idle(t) - before).Seconds() / measured.Seconds()
		if used > 1.05 {
			t.Fatalf("the cgroup uses %.3f cores, want one at most", used)
		}
		if used < 0.3 || used/(used+left) < 0.8 {
			return fmt.Errorf("the cgroup uses %.3f cores, and %.3f are idle, want all", used, left)
		}
		return nil
	})
}

func TestQuotaHoldsForThePressureToo(t *testing.T) {
	c := newContainer(t)
	if isV2() {
		write(t, filepath.Join(c.Dirs[""], "cpu.max"), "30000 100000")
	} else {
		write(t, filepath.Join(c.Dirs["cpu"], "cpu.cfs_period_us"), "100000")
		write(t, filepath.Join(c.Dirs["cpu"], "cpu.cfs_quota_us"), "30000")
	}
	inject(t, v1beta1.CPUPressure{}, c.load(t))
	patience.Measure(t, "a quota of 0.3", func() error {
		before := c.throttled(t)
		got := c.measure(t)
		if got.least() > 0.35 {
			t.Fatalf("with a quota of 0.3 the cgroup uses %.3f cores", got.least())
		}
		if c.throttled(t) == before {
			return fmt.Errorf("the cgroup uses %.3f cores and never comes to the quota", got.most())
		}
		return nil
	})
}

func TestJoinsOnlyTheCgroupsOfCPUTime(t *testing.T) {
	c := newContainer(t)
	if isV2() {
		t.Skip(testneeds.OnlyVersion1)
	}
	inject(t, v1beta1.CPUPressure{Count: count("1%")}, c.load(t))
	pids := burning(t, c.injection())
	if len(pids) != 1 {
		t.Fatalf("burners = %v, want one", pids)
	}
	for _, controller := range append(others, joined...) {
		inside := strings.Contains(membership(t, pids[0], controller), c.ID)
		if want := slices.Contains(joined, controller); inside != want {
			t.Errorf("burner in the target's cgroup of %q: %v, want %v", controller, inside, want)
		}
	}
}

func TestBurnerHasPriorityInsideTheTarget(t *testing.T) {
	c := newContainer(t)
	inject(t, v1beta1.CPUPressure{Count: count("1%")}, c.load(t))
	pid := burning(t, c.injection())[0]
	threads, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
	if err != nil || len(threads) < 2 {
		t.Fatalf("threads of the burner: %v, %v", threads, err)
	}
	for _, thread := range threads {
		stat := read(t, thread)
		nice := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])[16]
		if nice != "-20" {
			t.Errorf("nice of %s = %s, want -20", thread, nice)
		}
	}
}

func TestBurnerEndsWithTheInjector(t *testing.T) {
	c := newContainer(t)
	injector := startInjector(t, c.ID)
	if found := burning(t, c.injection()); len(found) != 1 {
		t.Fatalf("burners = %v, want one", found)
	}
	if err := injector.Process.Kill(); err != nil { // SIGKILL: no code of it can run any more
		t.Fatal(err)
	}
	testcontainer.Eventually(t, "no burner outlives its injector", func() error {
		if left := burning(t, c.injection()); len(left) > 0 {
			return fmt.Errorf("burners %v run", left)
		}
		return nil
	})
	if err := New(v1beta1.CPUPressure{}, c.load(t), nil).Clean(t.Context()); err != nil {
		t.Errorf("Clean after a crash = %v", err)
	}
}

// TestInjectsFromACgroupNamespace injects as in a chaos pod whose runtime gives it a cgroup
// namespace, as with version 2.
func TestInjectsFromACgroupNamespace(t *testing.T) {
	chaosPod, c := newContainer(t), newContainer(t)
	injector := exec.Command("/proc/self/exe", "enclose", c.ID)
	injector.Env = append(os.Environ(), seesProcesses+"="+testcontainer.Proc(t, os.Getpid(), c.first.Process.Pid))
	testcontainer.Injected(t, injector, chaosPod.Group)
	found := burning(t, c.injection())
	if len(found) != 1 {
		t.Fatalf("burners = %v, want one", found)
	}
	controller := "cpu"
	if isV2() {
		controller = ""
	}
	if got := membership(t, found[0], controller); !strings.Contains(got, c.ID) {
		t.Errorf("the burner is in %s, want it in the target's cgroup %s", got, c.ID)
	}
}

func TestBurnerEndsWithTheTarget(t *testing.T) {
	c := newContainer(t)
	loaded := c.load(t)
	injector := inject(t, v1beta1.CPUPressure{}, loaded)
	c.kill()
	for _, dir := range c.Dirs {
		testcontainer.RemoveCgroup(t, dir)
	}
	if left := burning(t, c.injection()); len(left) > 0 {
		t.Errorf("burners %v outlive the target", left)
	}
	clean(t, injector) // a target that is gone counts as cleaned
	clean(t, injector)
}

// rule 58
func TestCleanEndsWhatAnotherProcessLeft(t *testing.T) {
	c, neighbour := newContainer(t), newContainer(t)
	startInjector(t, c.ID)
	inject(t, v1beta1.CPUPressure{Count: count("1%")}, neighbour.load(t))
	found, err := Audit(t.Context(), "/proc", nil)
	if err != nil || !slices.ContainsFunc(found, func(m v1beta1.Mark) bool {
		return m.Disruption.UID == c.injection().Disruption.UID && m.Target == c.injection().Target.UID
	}) {
		t.Errorf("Audit = %+v, %v, want the burner of %s in it", found, err, c.ID)
	}
	cleaner := New(v1beta1.CPUPressure{}, c.load(t), nil)
	if left, err := cleaner.Left(t.Context()); err != nil || len(left) != 1 {
		t.Errorf("Left = %q, %v, want the one burner of this target", left, err)
	}
	clean(t, cleaner)
	if left, err := cleaner.Left(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("after cleaning: Left = %q, %v", left, err)
	}
	if len(burning(t, neighbour.injection())) != 1 {
		t.Error("Clean ended the burner of another disruption")
	}
}

// rule 58
func TestPartOfTheTargetGone(t *testing.T) {
	alive, gone := newContainer(t), newContainer(t)
	loaded := alive.load(t)
	loaded.Containers = append(loaded.Containers, gone.load(t).Containers...)
	gone.kill()
	injector := New(v1beta1.CPUPressure{Count: count("1%")}, loaded, nil)
	if err := injector.Inject(t.Context()); err == nil {
		t.Error("Inject = nil, want an error that names the container that is gone")
	}
	if len(burning(t, alive.injection())) != 1 {
		t.Error("want the burner of the first container to run until Clean")
	}
	clean(t, injector)
}

func TestRefusedCountBurnsNothing(t *testing.T) {
	c := newContainer(t)
	injector := New(v1beta1.CPUPressure{Count: count("0")}, c.load(t), nil)
	if err := injector.Inject(t.Context()); err == nil {
		t.Error("Inject with count 0 = nil, want an error")
	}
	if left := burning(t, c.injection()); len(left) > 0 {
		t.Errorf("burners %v run", left)
	}
}

func TestNodeLevelBurnsOutsideTheChaosPod(t *testing.T) {
	chaosPod := newContainer(t)
	controller := "cpu"
	if isV2() {
		controller = ""
	}
	enter(t, chaosPod.Dirs[controller])
	injection := chaosPod.injection()
	injection.Level, injection.Target.Containers = v1beta1.LevelNode, nil
	loaded, err := target.Load(t.Context(), injection, "")
	if err != nil {
		t.Fatal(err)
	}
	injector := inject(t, v1beta1.CPUPressure{Count: count("1%")}, loaded)
	pids := burning(t, injection)
	if len(pids) != 1 {
		t.Fatalf("burners = %v, want one", pids)
	}
	if got, want := membership(t, pids[0], controller), membership(t, 1, controller); got != want {
		t.Errorf("the burner is in %s, want it where the node's first process is: %s", got, want)
	}
	clean(t, injector)
}

// enter moves this process into a cgroup until the test ends.
func enter(t *testing.T, dir string) {
	t.Helper()
	self := strconv.Itoa(os.Getpid())
	write(t, filepath.Join(dir, "cgroup.procs"), self)
	t.Cleanup(func() { write(t, filepath.Join(filepath.Dir(dir), "cgroup.procs"), self) })
}

// membership is the cgroup path of a process in one hierarchy.
func membership(t *testing.T, pid int, controller string) string {
	t.Helper()
	for line := range strings.Lines(read(t, "/proc/"+strconv.Itoa(pid)+"/cgroup")) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if fields[1] == controller {
			return fields[2]
		}
	}
	t.Fatalf("process %d is in no cgroup of %q", pid, controller)
	return ""
}
