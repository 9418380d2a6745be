//go:build linux

package cpupressure

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/patience"
	"github.com/squall-chaos/squall/test/testcontainer"
	"github.com/squall-chaos/squall/test/testneeds"
)

const cgroupRoot = "/sys/fs/cgroup"

// joined are the version 1 controllers a burner joins, others those it must not join.
var (
	joined = []string{"cpu", "cpuacct", "cpuset"}
	others = []string{"memory", "freezer", "pids", "devices", "blkio"}
)

// container is a stand-in for a container: cgroups named by an ID, and a
// first process in them.
type container struct {
	*testcontainer.Group
	first *exec.Cmd
}

// newContainer makes a container and removes it at the end of the test, which fails if a
// process is still in its cgroups then.
func newContainer(t *testing.T) *container {
	t.Helper()
	testneeds.BeRoot(t)
	c := &container{first: exec.Command("/proc/self/exe", "first")}
	if isV2() {
		write(t, cgroupRoot+"/cgroup.subtree_control", "+cpu")
		c.Group = testcontainer.NewGroup(t, "")
	} else {
		c.Group = testcontainer.NewGroup(t, append(joined, others...)...)
		write(t, filepath.Join(c.Dirs["cpuset"], "cpuset.mems"), read(t, cgroupRoot+"/cpuset/cpuset.mems"))
		write(t, filepath.Join(c.Dirs["cpuset"], "cpuset.cpus"), read(t, cgroupRoot+"/cpuset/cpuset.cpus"))
	}
	hold, err := c.first.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hold.Close() })
	if err := c.first.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	c.Add(t, c.first.Process.Pid)
	return c
}

func isV2() bool {
	_, err := os.Stat(cgroupRoot + "/cgroup.controllers")
	return err == nil
}

// kill ends the first process like a container that ends.
func (c *container) kill() {
	_ = c.first.Process.Kill()
	_ = c.first.Wait()
}

// injection is the document of a chaos pod for this container.
func (c *container) injection() v1beta1.Injection {
	return testcontainer.Injection(v1beta1.KindCPUPressure, c.ID)
}

func (c *container) load(t *testing.T) *target.Target {
	t.Helper()
	loaded, err := target.Load(t.Context(), c.injection(), "")
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// used is the CPU time the cgroup has had.
func (c *container) used(t *testing.T) time.Duration {
	t.Helper()
	if !isV2() {
		return number(t, read(t, filepath.Join(c.Dirs["cpuacct"], "cpuacct.usage"))) * time.Nanosecond
	}
	for line := range strings.Lines(read(t, filepath.Join(c.Dirs[""], "cpu.stat"))) {
		if usec, found := strings.CutPrefix(line, "usage_usec "); found {
			return number(t, strings.TrimSpace(usec)) * time.Microsecond
		}
	}
	t.Fatal("no usage_usec in cpu.stat")
	return 0
}

// measured is how long a use of CPUs is measured.
const measured = 1500 * time.Millisecond

// usage is the use of a cgroup over a period. The period began at some moment between
// began[0] and began[1], and ended likewise.
type usage struct {
	used         time.Duration
	began, ended [2]time.Time
	// missed is the time that the burners did not get: they waited for a CPU, or the host of a
	// virtual machine had it.
	missed time.Duration
}

// least is how many cores the cgroup used at least, most how many at most: a test may
// itself have to wait while it reads the use.
func (u usage) least() float64 { return float64(u.used) / float64(u.ended[1].Sub(u.began[0])) }

func (u usage) most() float64 { return float64(u.used) / float64(u.ended[0].Sub(u.began[1])) }

// measure measures the use of the cgroup.
func (c *container) measure(t *testing.T) usage {
	t.Helper()
	var u usage
	u.missed = -c.missed(t)
	u.began[0] = time.Now()
	u.used = -c.used(t)
	u.began[1] = time.Now()
	<-time.After(measured) // the measured period itself
	u.ended[0] = time.Now()
	u.used += c.used(t)
	u.ended[1] = time.Now()
	u.missed += c.missed(t)
	t.Logf("%.3f cores, missed %s", u.least(), u.missed)
	return u
}

// wantsCores wants the cgroup to use this many cores. Time that its burners did not get
// because of other load counts as used, up to half of that.
func (c *container) wantsCores(t *testing.T, want, give float64) {
	t.Helper()
	patience.Measure(t, fmt.Sprintf("%.1f cores", want), func() error {
		got := c.measure(t)
		if got.least() > want+give {
			t.Fatalf("the cgroup uses %.3f cores, want %.1f and at most %.2f more", got.least(), want, give)
		}
		missed := got.missed.Seconds() / measured.Seconds()
		if got.most()+min(missed, want/2) < want-give {
			return fmt.Errorf("the cgroup uses %.3f cores and missed %.3f, want %.1f and at most %.2f less", got.most(), missed, want, give)
		}
		return nil
	})
}

// missed is the time that the burners of this target have not got so far.
func (c *container) missed(t *testing.T) time.Duration {
	t.Helper()
	var all time.Duration
	for _, pid := range burning(t, c.injection()) {
		_, delayed, err := patience.RunDelay(pid)
		if err != nil {
			continue // without this count the kernel excuses nothing
		}
		all += delayed + patience.Steal()
	}
	return all
}

// usedByCPU is the cgroup's use so far, by CPU; nil where version 2 does not count that.
func (c *container) usedByCPU(t *testing.T) []time.Duration {
	t.Helper()
	if isV2() {
		return nil
	}
	var all []time.Duration
	for _, nanoseconds := range strings.Fields(read(t, filepath.Join(c.Dirs["cpuacct"], "cpuacct.usage_percpu"))) {
		all = append(all, number(t, nanoseconds))
	}
	return all
}

// throttled is in how many periods the cgroup reached its quota so far.
func (c *container) throttled(t *testing.T) int {
	t.Helper()
	dir := c.Dirs["cpu"]
	if isV2() {
		dir = c.Dirs[""]
	}
	for line := range strings.Lines(read(t, filepath.Join(dir, "cpu.stat"))) {
		if periods, found := strings.CutPrefix(line, "nr_throttled "); found {
			return int(number(t, strings.TrimSpace(periods)))
		}
	}
	t.Fatal("no nr_throttled in cpu.stat")
	return 0
}

// idle is how long the machine's CPUs together had nothing to do: the fourth figure of
// /proc/stat, in hundredths of a second.
func idle(t *testing.T) time.Duration {
	t.Helper()
	return number(t, strings.Fields(read(t, "/proc/stat"))[4]) * 10 * time.Millisecond
}

func number(t *testing.T, text string) time.Duration {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(n)
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

func write(t *testing.T, path, value string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(value), 0); err != nil {
		t.Fatal(err)
	}
}

// TestMain runs the test binary as the other processes too: the burner, the first process
// of a container, and an injector that can be killed.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 {
		os.Exit(m.Run())
	}
	switch os.Args[1] {
	case BurnCommand:
		exitWith(Burn(context.Background(), os.Args[2:]))
	case "first":
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
	case "inject":
		exitWith(injectAndHang(os.Args[2]))
	case "enclose":
		exitWith(enclose(os.Args[2]))
	default:
		os.Exit(m.Run())
	}
}

func exitWith(err error) {
	if err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
}

// seesProcesses is the environment variable with injectAndHang's directory of processes, if
// it is not the default.
const seesProcesses = "SQUALL_TEST_PROC"

// injectAndHang is an injector that reports when it has injected and never cleans.
func injectAndHang(id string) error {
	c := &container{Group: &testcontainer.Group{ID: id}}
	loaded, err := target.Load(context.Background(), c.injection(), os.Getenv(seesProcesses))
	if err != nil {
		return err
	}
	if err := New(v1beta1.CPUPressure{}, loaded, nil).Inject(context.Background()); err != nil {
		return err
	}
	_, _ = os.Stdout.WriteString("injected\n")
	_, err = io.Copy(io.Discard, os.Stdin) // until the test ends
	return err
}

// enclose is injectAndHang in a cgroup namespace of its own, as in a chaos pod. It begins
// once it was moved into the cgroup that becomes the namespace's root.
func enclose(id string) error {
	if _, err := bufio.NewReader(os.Stdin).ReadByte(); err != nil {
		return err
	}
	runtime.LockOSThread() // the namespace is the thread's, and then the new program's
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return err
	}
	return unix.Exec("/proc/self/exe", []string{"injector", "inject", id}, os.Environ())
}

// startInjector starts injectAndHang and returns once it has injected.
func startInjector(t *testing.T, id string) *exec.Cmd {
	t.Helper()
	return testcontainer.Injected(t, exec.Command("/proc/self/exe", "inject", id), nil)
}
