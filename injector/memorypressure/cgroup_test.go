//go:build linux

package memorypressure

import (
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/testcontainer"
	"github.com/squall-chaos/squall/test/testneeds"
)

const limit = testcontainer.MemoryLimit

// container is a real target whose first process uses the requested amount of memory.
type container struct {
	*testcontainer.Container
	dir   string // of the cgroup that counts its memory
	wants string // the file with the amount the process must use
}

func newContainer(t *testing.T, uses int64) *container {
	t.Helper()
	// The kernel ends a container with the thread that started it, and a hog's thread ends
	// with the hog. So the two need different threads.
	runtime.LockOSThread()
	c := &container{wants: filepath.Join(t.TempDir(), "wants")}
	c.Container = testcontainer.Start(t, "/proc/self/exe", "eat", c.wants)
	file := c.File(t, "memory", "memory.limit_in_bytes", "memory.max")
	if _, err := os.Stat(file); err != nil {
		testneeds.Missing(t, testneeds.MemoryLimits, err)
	}
	c.dir = filepath.Dir(file)
	c.use(t, uses)
	return c
}

// use makes the target's own process use this many bytes.
func (c *container) use(t *testing.T, bytes int64) {
	t.Helper()
	write(t, c.wants, strconv.FormatInt(bytes, 10))
	testcontainer.Eventually(t, "the target uses what it was told to", func() error {
		used, err := os.ReadFile(c.wants + ".used")
		if err != nil || string(used) != strconv.FormatInt(bytes, 10) {
			return fmt.Errorf("it uses %q of %d: %w", used, bytes, err)
		}
		return nil
	})
}

// eat uses as much memory as the file demands, and reports that in another file. It
// allocates a mebibyte at a time, as programs do.
func eat(wants string) error {
	memory, err := unix.Mmap(-1, 0, limit, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	_ = unix.Madvise(memory, unix.MADV_NOHUGEPAGE)
	used := &filling{memory: memory}
	for ; ; time.Sleep(5 * time.Millisecond) {
		text, err := os.ReadFile(wants)
		wanted, parseErr := strconv.ParseInt(string(text), 10, 64)
		if err != nil || parseErr != nil || wanted == used.held {
			continue
		}
		if err := used.by(min(wanted-used.held, 1<<20)); err != nil {
			return err
		}
		if wanted != used.held {
			continue
		}
		if err := os.WriteFile(wants+".used", text, 0o644); err != nil {
			return err
		}
	}
}

// inUse is the memory that the kernel charges to the target.
func (c *container) inUse(t *testing.T) int64 {
	t.Helper()
	for _, name := range []string{"memory.usage_in_bytes", "memory.current"} {
		if data, err := os.ReadFile(filepath.Join(c.dir, name)); err == nil {
			return number(t, string(data))
		}
	}
	t.Fatalf("no usage in %s", c.dir)
	return 0
}

// killed is how often the kernel killed a process because memory ran out.
func (c *container) killed(t *testing.T) int64 {
	t.Helper()
	for _, name := range []string{"memory.oom_control", "memory.events"} {
		if data, err := os.ReadFile(filepath.Join(c.dir, name)); err == nil {
			count, err := field(string(data), "oom_kill")
			if err != nil {
				t.Fatal(err)
			}
			return count
		}
	}
	t.Fatalf("no count of processes that were killed in %s", c.dir)
	return 0
}

// awaitInUse waits until the target has that share of its limit in use, within a twentieth
// of the limit, and checks that it stays so.
func (c *container) awaitInUse(t *testing.T, when string, percent int) {
	t.Helper()
	off := func() error {
		used := c.inUse(t)
		if used < share(limit, percent-5) || used > share(limit, percent+5) {
			return fmt.Errorf("%s: %s of %s are in use, want %d%%", when, size(used), size(limit), percent)
		}
		return nil
	}
	began := time.Now()
	testcontainer.Eventually(t, when, off)
	t.Logf("%s: %.1f%% in use after %s", when, 100*float64(c.inUse(t))/limit, time.Since(began).Round(time.Millisecond))
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); <-time.After(10 * time.Millisecond) {
		if err := off(); err != nil {
			t.Errorf("it does not stay so: %v", err)
			return
		}
	}
}

func injectionOn(c *container) v1beta1.Injection {
	injection := testcontainer.Injection(v1beta1.KindMemoryPressure, c.ID)
	injection.Deadline = metav1.NewTime(time.Now().Add(time.Hour))
	return injection
}

func (c *container) load(t *testing.T) *target.Target {
	t.Helper()
	loaded, err := target.Load(t.Context(), injectionOn(c), "")
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// hogs returns the hogs of this target.
func (c *container) hogs(t *testing.T) []int {
	t.Helper()
	pids, err := hogs.Of(&target.Target{Injection: injectionOn(c)}).PIDs()
	if err != nil {
		t.Fatal(err)
	}
	return pids
}

func number(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func write(t *testing.T, path, value string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(value), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestMain runs the test binary as the other processes too: the hog, the target's first
// process, and an injector that can be killed.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 {
		os.Exit(m.Run())
	}
	switch os.Args[1] {
	case HogCommand:
		exitWith(Hog(context.Background(), os.Args[2:]))
	case "eat":
		exitWith(eat(os.Args[2]))
	case "inject":
		exitWith(injectAndHang(os.Args[2]))
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

// injectAndHang is an injector that reports when it has injected and never cleans.
func injectAndHang(id string) error {
	c := &container{Container: &testcontainer.Container{ID: id}}
	loaded, err := target.Load(context.Background(), injectionOn(c), "")
	if err != nil {
		return err
	}
	if err := New(v1beta1.MemoryPressure{TargetPercent: v1beta1.Percentage{Text: "50%"}}, loaded, nil).Inject(context.Background()); err != nil {
		return err
	}
	_, _ = os.Stdout.WriteString("injected\n")
	_, err = io.Copy(io.Discard, os.Stdin) // until the test ends
	return err
}

// startInjector starts injectAndHang and returns once it has injected.
func startInjector(t *testing.T, id string) *exec.Cmd {
	t.Helper()
	return testcontainer.Injected(t, exec.Command("/proc/self/exe", "inject", id), nil)
}
