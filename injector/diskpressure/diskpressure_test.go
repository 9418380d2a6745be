//go:build linux

package diskpressure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/patience"
	"github.com/squall-chaos/squall/test/testcontainer"
	"github.com/squall-chaos/squall/test/testneeds"
)

// newInjector makes an injector with a journal of its own, and cleans at the end of the
// test.
func newInjector(t *testing.T, path string, throttling v1beta1.DiskPressureThrottling, containers ...*container) *Injector {
	t.Helper()
	loaded, err := target.Load(t.Context(), injection(containers...), "")
	if err != nil {
		t.Fatal(err)
	}
	notes, err := journal.Open(t.TempDir(), loaded)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(notes.Close)
	injector := New(v1beta1.DiskPressure{Path: path, Throttling: throttling}, loaded, notes)
	t.Cleanup(func() { _ = injector.Clean(context.WithoutCancel(t.Context())) })
	return injector
}

func inject(t *testing.T, injector *Injector) {
	t.Helper()
	if err := injector.Inject(t.Context()); err != nil {
		t.Fatalf("Inject = %v", err)
	}
}

// cleanTwice cleans, compares with the original limits, and cleans again.
func cleanTwice(t *testing.T, injector *Injector, c *container, before string) {
	t.Helper()
	for range 2 {
		if err := injector.Clean(t.Context()); err != nil {
			t.Errorf("Clean = %v", err)
		}
		if diff := cmp.Diff(before, c.limits(t)); diff != "" {
			t.Errorf("limits before and after (-before +after):\n%s", diff)
		}
	}
}

func TestLimitsWhatTheTargetDoes(t *testing.T) {
	const mebi = 1 << 20
	tests := []struct {
		name       string
		throttling v1beta1.DiskPressureThrottling
		v1File     string
		v2Key      string
		limit      string
		how        string
		block      int
		blocks     int
		want       float64 // blocks per second
	}{
		{"bytes read", v1beta1.DiskPressureThrottling{ReadBytesPerSec: some(4 * mebi)}, "read_bps", "rbps", "4194304", "read", mebi / 4, 32, 16},
		{"bytes written", v1beta1.DiskPressureThrottling{WriteBytesPerSec: some(2 * mebi)}, "write_bps", "wbps", "2097152", "write", mebi / 4, 16, 8},
		{"read operations", v1beta1.DiskPressureThrottling{ReadIOPSPerSec: some(100)}, "read_iops", "riops", "100", "read", 4096, 200, 100},
		{"write operations", v1beta1.DiskPressureThrottling{WriteIOPSPerSec: some(50)}, "write_iops", "wiops", "50", "write", 4096, 100, 50},
	}
	d := newDisk(t)
	file := d.file(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newContainer(t, "first")
			before := c.limits(t)
			rate := func() float64 { return c.rate(t, test.how, file, test.block, test.blocks) }
			free := rate()
			for tries := 1; free < 3*test.want && tries < 5; tries++ {
				free = rate()
			}
			if free < 3*test.want {
				patience.Blame(t, "the disk does %.1f blocks/s without a limit of %.0f", free, test.want)
				testneeds.Missing(t, testneeds.FastDisk, fmt.Sprintf("%.1f blocks/s without a limit of %.0f", free, test.want))
			}
			injector := newInjector(t, d.dir, test.throttling, c)
			inject(t, injector)
			// Other load makes the disk slower. The kernel's own figures show that the limit is no
			// stricter than requested.
			if got := rate(); got > 1.2*test.want {
				t.Errorf("%s: %.1f blocks/s, want at most %.0f and 20%%", test.name, got, test.want)
			}
			at := limitAt(c, d.device, test.v1File, test.v2Key)
			if got := at.find(read(t, at.file)); got != test.limit {
				t.Errorf("limit %q, want %q", got, test.limit)
			}
			cleanTwice(t, injector, c, before)
			patience.Measure(t, "after Clean", func() error {
				if got := rate(); got < 2*test.want {
					return fmt.Errorf("%.1f blocks/s, want more than the limit of %.0f", got, test.want)
				}
				return nil
			})
		})
	}
}

func TestAdministratorsLimitsComeBack(t *testing.T) {
	d, other, c := newDisk(t), newDisk(t), newContainer(t, "first")
	set := func(d disk, v1File, v2Key, value string) {
		at := limitAt(c, d.device, v1File, v2Key)
		write(t, at.file, at.line(value))
	}
	set(d, "read_bps", "rbps", "8388608")
	set(d, "write_bps", "wbps", "1024")
	set(d, "write_iops", "wiops", "77")
	set(other, "read_bps", "rbps", "123456789")
	before := c.limits(t)

	injector := newInjector(t, d.dir, v1beta1.DiskPressureThrottling{
		ReadBytesPerSec: some(1 << 20), WriteBytesPerSec: some(1 << 20), ReadIOPSPerSec: some(30),
	}, c)
	inject(t, injector)
	during := []string{}
	for _, at := range []struct{ device, v1File, v2Key string }{
		{d.device, "read_bps", "rbps"}, {d.device, "write_bps", "wbps"},
		{d.device, "read_iops", "riops"}, {d.device, "write_iops", "wiops"},
		{other.device, "read_bps", "rbps"},
	} {
		at := limitAt(c, at.device, at.v1File, at.v2Key)
		during = append(during, at.find(read(t, at.file)))
	}
	// The expected limits are ours, the previous stricter one, ours, and two that the
	// parameters do not name.
	if diff := cmp.Diff([]string{"1048576", "1024", "30", "77", "123456789"}, during); diff != "" {
		t.Errorf("limits while injected (-want +got):\n%s", diff)
	}
	if notes := strings.Join(injector.Notes(), "\n"); !strings.Contains(notes, "limited to 1024 already") {
		t.Errorf("Notes = %q, want the stricter limit that stays", notes)
	}
	cleanTwice(t, injector, c, before)
}

// limitAt names a limit in the version of this machine.
func limitAt(c *container, device, v1File, v2Key string) limit {
	file := filepath.Join(c.dir, "blkio.throttle."+v1File+"_device")
	if _, err := os.Stat(file); err == nil {
		return limit{file: file, device: device}
	}
	return limit{file: filepath.Join(c.dir, "io.max"), device: device, key: v2Key}
}

func TestNothingChangesWithoutTheJournal(t *testing.T) {
	d, c := newDisk(t), newContainer(t, "first")
	before, dir := c.limits(t), filepath.Join(t.TempDir(), "journal")
	loaded, err := target.Load(t.Context(), injection(c), "")
	if err != nil {
		t.Fatal(err)
	}
	notes, err := journal.Open(dir, loaded)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(notes.Close)
	if err := os.RemoveAll(dir); err != nil { // as if the disk were full
		t.Fatal(err)
	}
	params := v1beta1.DiskPressure{Path: d.dir, Throttling: v1beta1.DiskPressureThrottling{ReadBytesPerSec: some(1 << 20)}}
	if err := New(params, loaded, notes).Inject(t.Context()); err == nil {
		t.Error("Inject = nil, want the journal's error")
	}
	if diff := cmp.Diff(before, c.limits(t)); diff != "" {
		t.Errorf("a limit was changed that is in no journal (-before +after):\n%s", diff)
	}
}

func TestLimitChangedMeanwhileIsLeft(t *testing.T) {
	d, c := newDisk(t), newContainer(t, "first")
	injector := newInjector(t, d.dir, v1beta1.DiskPressureThrottling{ReadBytesPerSec: some(1 << 20), ReadIOPSPerSec: some(30)}, c)
	before := c.limits(t)
	inject(t, injector)
	object := injector.journal.Changes()[0].Object
	if err := writeLimit(object, "555"); err != nil {
		t.Fatal(err)
	}
	var conflict *journal.ConflictError
	if err := injector.Clean(t.Context()); !errors.As(err, &conflict) || conflict.Object != object {
		t.Errorf("Clean = %v, want a conflict on %s", err, object)
	}
	if value, err := readLimit(object); value != "555" {
		t.Errorf("the changed limit is %q, %v, want it left at 555", value, err)
	}
	if err := writeLimit(object, unlimited); err != nil {
		t.Fatal(err)
	}
	cleanTwice(t, injector, c, before) // the other limit was restored nevertheless
}

// rule 58
func TestCleanFromTheJournalAfterACrash(t *testing.T) { crashAndClean(t, "inject") }

// TestInjectsFromACgroupNamespace injects as in a chaos pod whose runtime gives it a cgroup
// namespace, as with version 2.
func TestInjectsFromACgroupNamespace(t *testing.T) {
	crashAndClean(t, "enclose")
}

// crashAndClean kills an injector that injected, and cleans after it.
func crashAndClean(t *testing.T, role string) {
	t.Helper()
	d, c, chaosPod := newDisk(t), newContainer(t, "first"), newContainer(t, "first")
	before, dir := c.limits(t), t.TempDir()
	proc := testcontainer.Proc(t, os.Getpid(), c.first.Process.Pid)
	injector := chaosPod.start(t, role, dir, d.dir, c.ID, proc).Process
	if c.limits(t) == before {
		t.Fatal("the injector changed nothing")
	}
	if err := injector.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = injector.Wait()
	if c.limits(t) == before {
		t.Fatal("nothing is left to clean")
	}
	records, err := journal.List(dir)
	if err != nil || len(records) != 1 {
		t.Fatalf("List = %v, %v, want one record", records, err)
	}
	notes, err := journal.Reopen(dir, records[0].Injection)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(notes.Close)
	recovered, err := target.Recover(records[0].Injection, notes.Record().Containers, "")
	if err != nil {
		t.Fatal(err)
	}
	cleanTwice(t, New(v1beta1.DiskPressure{}, recovered, notes), c, before)
}

func TestInjectAgainKeepsTheOriginal(t *testing.T) {
	d, c := newDisk(t), newContainer(t, "first")
	before := c.limits(t)
	injector := newInjector(t, d.dir, v1beta1.DiskPressureThrottling{ReadBytesPerSec: some(1 << 20)}, c)
	inject(t, injector)
	inject(t, injector) // an injector that was restarted on the same journal
	cleanTwice(t, injector, c, before)
}

func TestSeveralContainers(t *testing.T) {
	d, one, two := newDisk(t), newContainer(t, "first"), newContainer(t, "first")
	before := one.limits(t)
	injector := newInjector(t, d.dir, v1beta1.DiskPressureThrottling{ReadBytesPerSec: some(1 << 20)}, one, two)
	inject(t, injector)
	for _, c := range []*container{one, two} {
		if !strings.Contains(c.limits(t), d.device) {
			t.Errorf("limits of %s: %q, want one on %s", c.ID, c.limits(t), d.device)
		}
	}
	cleanTwice(t, injector, one, before)
	cleanTwice(t, injector, two, before)
}

func TestContainerWithoutThePathIsLeftOut(t *testing.T) {
	if !strings.Contains(read(t, "/proc/filesystems"), "overlay") {
		testneeds.Missing(t, testneeds.Overlay)
	}
	d, has, sidecar := newDisk(t), newContainer(t, "first"), newOverlaid(t, newDisk(t), t.TempDir())
	beforeHas, beforeSidecar := has.limits(t), sidecar.limits(t)
	injector := newInjector(t, d.dir, v1beta1.DiskPressureThrottling{ReadBytesPerSec: some(1 << 20)}, has, sidecar)
	inject(t, injector)
	if has.limits(t) == beforeHas {
		t.Error("the container with the path is not limited")
	}
	if diff := cmp.Diff(beforeSidecar, sidecar.limits(t)); diff != "" {
		t.Errorf("the container without the path is limited (-before +after):\n%s", diff)
	}
	if notes := strings.Join(injector.Notes(), "\n"); !strings.Contains(notes, d.dir) {
		t.Errorf("Notes = %q, want the path that a container lacks", notes)
	}
	cleanTwice(t, injector, has, beforeHas)
}

// newOverlaid is a container whose root is an overlay, with its upper directory on the
// disk.
func newOverlaid(t *testing.T, upper disk, lower string) *container {
	t.Helper()
	for _, dir := range []string{filepath.Join(lower, "cache"), filepath.Join(upper.dir, "fs"), filepath.Join(upper.dir, "work")} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return newContainerWith(t, syscall.CLONE_NEWNS, "overlaid", lower, filepath.Join(upper.dir, "fs"), filepath.Join(upper.dir, "work"), t.TempDir())
}

// rule 58
func TestTargetGoneIsCleaned(t *testing.T) {
	d, gone, alive := newDisk(t), newContainer(t, "first"), newContainer(t, "first")
	before := alive.limits(t)
	injector := newInjector(t, d.dir, v1beta1.DiskPressureThrottling{ReadBytesPerSec: some(1 << 20)}, gone, alive)
	inject(t, injector)
	_ = gone.first.Process.Kill()
	_ = gone.first.Wait()
	testcontainer.RemoveCgroup(t, gone.dir)
	cleanTwice(t, injector, alive, before)
	if err := injector.Inject(t.Context()); !errors.Is(err, target.ErrGone) {
		t.Errorf("Inject = %v, want %v", err, target.ErrGone)
	}
	if diff := cmp.Diff(before, alive.limits(t)); diff != "" {
		t.Errorf("an Inject that fails changed limits (-before +after):\n%s", diff)
	}
}

func TestRefusedBeforeAnyChange(t *testing.T) {
	c := newContainer(t, "first")
	before := c.limits(t)
	limited := v1beta1.DiskPressureThrottling{ReadBytesPerSec: some(1 << 20)}
	tests := []struct {
		name, path string
		throttling v1beta1.DiskPressureThrottling
		want       string // in the error
	}{
		{"a relative path", "data", limited, "absolute"},
		{"a path that is not there", "/nowhere/at/all", limited, "/nowhere/at/all"},
		{"a negative limit", "/", v1beta1.DiskPressureThrottling{WriteBytesPerSec: some(-5)}, "writeBytesPerSec is -5"},
		{"a filesystem of the kernel", "/proc", limited, "type proc"},
		{"a filesystem in memory", "/dev/shm", limited, "type tmpfs"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			injector := newInjector(t, test.path, test.throttling, c)
			if err := injector.Inject(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Inject = %v, want an error with %q", err, test.want)
			}
			if changes := injector.journal.Changes(); len(changes) > 0 || c.limits(t) != before {
				t.Errorf("changes %v, limits %q, want nothing done", changes, c.limits(t))
			}
		})
	}
	t.Run("no limits: nothing to do, wherever the path leads", func(t *testing.T) {
		injector := newInjector(t, "/proc", v1beta1.DiskPressureThrottling{}, c)
		inject(t, injector)
		cleanTwice(t, injector, c, before)
	})
}

func TestPathIsTheContainersOwn(t *testing.T) {
	if !strings.Contains(read(t, "/proc/filesystems"), "overlay") {
		testneeds.Missing(t, testneeds.Overlay)
	}
	upper, volume := newDisk(t), newDisk(t)
	lower := t.TempDir()
	for link, to := range map[string]string{"absolute": volume.dir, "memory": "/cache"} {
		if err := os.Symlink(to, filepath.Join(lower, link)); err != nil {
			t.Fatal(err)
		}
	}
	c := newOverlaid(t, upper, lower)
	finder := finder{proc: target.DefaultProc, sys: "/sys"}
	tests := []struct {
		name, path, want, refused string
	}{
		{"the container's root is on the disk of its upper directory", "/", upper.device, ""},
		{"a directory of its own", "/cache/..", upper.device, ""},
		{"a mount in the container only", "/cache", "", "type tmpfs"},
		{"a link is followed inside the container", "/memory", "", "type tmpfs"},
		{"a link cannot lead out of the container", "/absolute", "", "no such path"},
		{"nor can dots", "/../../../..", upper.device, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := finder.disk(c.first.Process.Pid, test.path)
			if got != test.want || (err == nil) != (test.refused == "") {
				t.Fatalf("disk(%s) = %q, %v, want %q", test.path, got, err, test.want)
			}
			if err != nil && !strings.Contains(err.Error(), test.refused) {
				t.Errorf("disk(%s) = %v, want %q in it", test.path, err, test.refused)
			}
		})
	}
}

func TestAnotherDiskBelowThePathIsSeen(t *testing.T) {
	first, second := newDisk(t), newDisk(t)
	link := filepath.Join(t.TempDir(), "data")
	leadTo := func(d disk) {
		t.Helper()
		if err := errors.Join(os.Symlink(d.dir, link+".new"), os.Rename(link+".new", link)); err != nil {
			t.Fatal(err)
		}
	}
	leadTo(first)
	c := newContainer(t, "first")
	injector := newInjector(t, link, v1beta1.DiskPressureThrottling{ReadBytesPerSec: some(1 << 20)}, c)
	inject(t, injector)
	if moved, err := injector.Moved(t.Context()); moved != "" || err != nil {
		t.Errorf("Moved = %q, %v, want nothing", moved, err)
	}
	leadTo(second)
	if moved, err := injector.Moved(t.Context()); !strings.Contains(moved, second.device) || err != nil {
		t.Errorf("Moved = %q, %v, want disk %s", moved, err, second.device)
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if moved, err := injector.Moved(t.Context()); moved != "" || err != nil {
		t.Errorf("without the path: Moved = %q, %v, want nothing", moved, err)
	}
}

// With lower limits a target would stop rather than be slow.
func TestLeastLimits(t *testing.T) {
	d, c := newDisk(t), newContainer(t, "first")
	before := c.limits(t)
	for _, test := range []struct {
		name  string
		asked v1beta1.DiskPressureThrottling
		level v1beta1.Level
		want  string // empty: not refused
	}{
		{"bytes of a pod", v1beta1.DiskPressureThrottling{ReadBytesPerSec: some(65535)}, v1beta1.LevelPod, "readBytesPerSec is 65535: want at least 65536 at level pod"},
		{"the least bytes of a pod", v1beta1.DiskPressureThrottling{WriteBytesPerSec: some(65536)}, v1beta1.LevelPod, ""},
		{"operations of a pod", v1beta1.DiskPressureThrottling{ReadBytesPerSec: some(1 << 20), WriteIOPSPerSec: some(9)}, v1beta1.LevelPod, "writeIOPSPerSec is 9: want at least 10 at level pod"},
		{"the least operations of a pod", v1beta1.DiskPressureThrottling{ReadIOPSPerSec: some(10)}, v1beta1.LevelPod, ""},
		{"bytes of a node", v1beta1.DiskPressureThrottling{WriteBytesPerSec: some(1<<20 - 1)}, v1beta1.LevelNode, "writeBytesPerSec is 1048575: want at least 1048576 at level node"},
		{"operations of a node", v1beta1.DiskPressureThrottling{ReadIOPSPerSec: some(19)}, v1beta1.LevelNode, "readIOPSPerSec is 19: want at least 20 at level node"},
	} {
		t.Run(test.name, func(t *testing.T) {
			injector := newInjector(t, d.dir, test.asked, c)
			injector.target.Injection.Level = test.level
			err := injector.Inject(t.Context())
			if test.want == "" {
				if err != nil {
					t.Errorf("Inject = %v, want it accepted", err)
				}
				cleanTwice(t, injector, c, before)
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Inject = %v, want %q in it", err, test.want)
			}
			if len(injector.journal.Changes()) > 0 {
				t.Errorf("the journal holds %v, want nothing", injector.journal.Changes())
			}
			if diff := cmp.Diff(before, c.limits(t)); diff != "" {
				t.Errorf("limits (-before +after):\n%s", diff)
			}
		})
	}
}

// With the first limit in force the journal may have to wait for the disk: all limits must
// be in it before.
func TestAllLimitsAreInTheJournalBeforeTheFirstIsSet(t *testing.T) {
	d, c := newDisk(t), newContainer(t, "first")
	before := c.limits(t)
	injector := newInjector(t, d.dir, v1beta1.DiskPressureThrottling{ReadBytesPerSec: some(1 << 20), WriteIOPSPerSec: some(50)}, c)
	assignments, err := injector.assignments()
	if err != nil || len(assignments) != 2 {
		t.Fatalf("assignments = %v, %v, want two", assignments, err)
	}
	first := assignments[0]
	first.device = "999:999" // a disk that does not exist: the kernel refuses it
	if err := injector.apply([]assignment{first, assignments[1]}); err == nil {
		t.Fatal("apply = nil, want the kernel's refusal")
	}
	if changes := injector.journal.Changes(); len(changes) != 2 {
		t.Errorf("the journal holds %v, want both limits before the first is set", changes)
	}
	cleanTwice(t, injector, c, before)
}

func TestWithoutALimitThatIsNoted(t *testing.T) {
	d, c := newDisk(t), newContainer(t, "first")
	before := c.limits(t)
	injector := newInjector(t, d.dir, v1beta1.DiskPressureThrottling{}, c)
	inject(t, injector)
	if notes := injector.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "nothing is limited") {
		t.Errorf("Notes = %q, want that nothing is limited", notes)
	}
	cleanTwice(t, injector, c, before)
}

func TestNodeLevelIsRefusedInVersion1(t *testing.T) {
	c := newContainer(t, "first")
	if !strings.Contains(c.dir, "blkio") {
		t.Skip(testneeds.OnlyVersion1)
	}
	injector := newInjector(t, "/", v1beta1.DiskPressureThrottling{ReadBytesPerSec: some(1 << 20)}, c)
	injector.target.Injection.Level, injector.target.Containers = v1beta1.LevelNode, nil
	if err := injector.Inject(t.Context()); err == nil || !strings.Contains(err.Error(), "use level pod") {
		t.Errorf("Inject = %v, want it refused with a way out", err)
	}
}

func TestNodeLevelLimitsAllPodsTogether(t *testing.T) {
	c, d := newContainer(t, "first"), newDisk(t)
	if strings.Contains(c.dir, "blkio") {
		t.Skip(testneeds.OnlyVersion2)
	}
	kubepods := filepath.Join(filepath.Dir(c.dir), "kubepods")
	pods := &container{Group: &testcontainer.Group{Dirs: map[string]string{"": kubepods}}, dir: kubepods}
	if err := os.Mkdir(pods.dir, 0o755); err != nil {
		t.Skip(testneeds.NoPods, ": ", err)
	}
	t.Cleanup(func() { testcontainer.RemoveCgroup(t, pods.dir) })
	before, file := pods.limits(t), d.file(t)

	injector := newInjector(t, d.dir, v1beta1.DiskPressureThrottling{ReadIOPSPerSec: some(100)}, c)
	injector.target.Injection.Level, injector.target.Containers = v1beta1.LevelNode, nil
	inject(t, injector)
	if got := pods.rate(t, "read", file, 4096, 200); got > 120 {
		t.Errorf("a pod does %.0f operations/s, want at most 100", got)
	}
	if got := c.rate(t, "read", file, 4096, 200); got < 200 {
		t.Errorf("what is no pod does %.0f operations/s, want it free", got)
	}
	cleanTwice(t, injector, pods, before)
}
