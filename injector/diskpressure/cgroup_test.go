//go:build linux

package diskpressure

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
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/testcontainer"
	"github.com/squall-chaos/squall/test/testneeds"
)

// container is a stand-in for a container: a cgroup named by an ID, and a
// first process in it.
type container struct {
	*testcontainer.Group
	dir   string // with the disk limits
	first *exec.Cmd
	// namespaces its processes get of their own
	namespaces uintptr
}

// newContainer makes a container whose first process runs the given role.
func newContainer(t *testing.T, role ...string) *container {
	t.Helper()
	return newContainerWith(t, 0, role...)
}

// newContainerWith is newContainer with namespaces of its own.
func newContainerWith(t *testing.T, namespaces uintptr, role ...string) *container {
	t.Helper()
	testneeds.BeRoot(t)
	controller := diskController(t)
	c := &container{Group: testcontainer.NewGroup(t, controller), namespaces: namespaces}
	c.dir = c.Dirs[controller]
	c.first = c.start(t, role...)
	return c
}

// diskController is the controller that limits disks on this machine, as NewGroup wants it.
func diskController(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat("/sys/fs/cgroup/blkio/blkio.throttle.read_bps_device"); err == nil {
		return "blkio"
	}
	available, _ := os.ReadFile("/sys/fs/cgroup/cgroup.controllers")
	if !strings.Contains(string(available), "io") {
		testneeds.Missing(t, testneeds.DiskLimits)
	}
	write(t, "/sys/fs/cgroup/cgroup.subtree_control", "+io")
	return ""
}

// start starts a process in the cgroup and returns once it runs.
func (c *container) start(t *testing.T, role ...string) *exec.Cmd {
	t.Helper()
	cmd, _ := c.run(t, role...)
	return cmd
}

// run starts a process, lets it begin once it is in the cgroup, and returns its first line.
func (c *container) run(t *testing.T, role ...string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", role...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: c.namespaces}
	input, _ := cmd.StdinPipe()
	output, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	c.Add(t, cmd.Process.Pid)
	if _, err := input.Write([]byte("in\n")); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatalf("%v: %v", role, err)
	}
	return cmd, strings.TrimSpace(line)
}

// limits is the content of all files with limits of the cgroup.
func (c *container) limits(t *testing.T) string {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(c.dir, "blkio.throttle.*_device"))
	if len(files) == 0 {
		files = []string{filepath.Join(c.dir, "io.max")}
	}
	var all strings.Builder
	for _, file := range files {
		fmt.Fprintf(&all, "%s:\n%s", filepath.Base(file), read(t, file))
	}
	return all.String()
}

// rate runs direct I/O in a process of the container, and returns the blocks per second.
func (c *container) rate(t *testing.T, how, file string, block, blocks int) float64 {
	t.Helper()
	_, output := c.run(t, how, file, strconv.Itoa(block), strconv.Itoa(blocks))
	took, err := time.ParseDuration(output)
	if err != nil {
		t.Fatal(err)
	}
	rate := float64(blocks) / took.Seconds()
	t.Logf("%s: %.1f blocks/s of %d bytes", how, rate, block)
	return rate
}

func injection(containers ...*container) v1beta1.Injection {
	document := v1beta1.Injection{
		Disruption: v1beta1.DisruptionRef{Namespace: "shop", Name: "slow", UID: "disruption-uid"},
		Kind:       v1beta1.KindDiskPressure,
		Level:      v1beta1.LevelPod,
		Target:     v1beta1.InjectionTarget{Namespace: "shop", Name: "db-0", UID: types.UID("pod-uid"), NodeName: "node"},
	}
	for _, c := range containers {
		document.Target.Containers = append(document.Target.Containers, v1beta1.InjectionContainer{Name: "db", ID: c.ID})
	}
	return document
}

// disk is a real filesystem on a disk of its own.
type disk struct {
	device string // major:minor
	dir    string // where it is mounted
}

func newDisk(t *testing.T) disk {
	t.Helper()
	testneeds.BeRoot(t)
	image := filepath.Join(t.TempDir(), "image")
	file, err := os.Create(image)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Truncate(64 << 20); err != nil {
		t.Fatal(err)
	}
	run(t, "mkfs.ext4", "-q", "-O", "^has_journal", image)
	device := strings.TrimSpace(run(t, "losetup", "--find", "--show", image))
	t.Cleanup(func() { run(t, "losetup", "--detach", device) })
	d := disk{dir: t.TempDir()}
	if err := unix.Mount(device, d.dir, "ext4", 0, ""); err != nil {
		t.Fatalf("mount %s: %v", device, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(d.dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	var stat unix.Stat_t
	if err := unix.Stat(device, &stat); err != nil {
		t.Fatal(err)
	}
	d.device = fmt.Sprintf("%d:%d", unix.Major(stat.Rdev), unix.Minor(stat.Rdev))
	return d
}

// file makes a file whose blocks are on the disk.
func (d disk) file(t *testing.T) string {
	t.Helper()
	path := filepath.Join(d.dir, "data")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Write(make([]byte, 8<<20)); err != nil {
		t.Fatal(err)
	}
	if err := file.Sync(); err != nil {
		t.Fatal(err)
	}
	return path
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		testneeds.Missing(t, testneeds.DiskTools, name)
	}
	output, err := exec.Command(path, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, output)
	}
	return string(output)
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func write(t *testing.T, path, value string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(value), 0); err != nil {
		t.Fatal(err)
	}
}

// TestMain runs the test binary as the target's processes too, and as an injector that can
// be killed.
func TestMain(m *testing.M) {
	roles := map[string]func(args []string) error{
		"first": first, "overlaid": overlaid, "read": directIO, "write": directIO,
		"inject": injectAndHang, "enclose": enclose,
	}
	if len(os.Args) < 2 || roles[os.Args[1]] == nil {
		os.Exit(m.Run())
	}
	if os.Getenv(enclosed) == "" {
		if _, err := os.Stdin.Read(make([]byte, 8)); err != nil {
			os.Exit(1)
		}
	}
	if err := roles[os.Args[1]](os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, os.Args[1], err)
		os.Exit(1)
	}
}

// first is a container's first process. It ends with the test.
func first([]string) error {
	fmt.Println("running")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// overlaid is a first process that sees an overlay as its root, as containers do. args are
// the lower, upper, work and mount directories.
func overlaid(args []string) error {
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", args[1], args[2], args[3])
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("overlay", args[4], "overlay", 0, options); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", filepath.Join(args[4], "cache"), "tmpfs", 0, ""); err != nil {
		return err
	}
	if err := unix.Chroot(args[4]); err != nil {
		return err
	}
	return first(nil)
}

// directIO reads or writes blocks of a file past the page cache, and prints how long that
// took.
func directIO(args []string) error {
	size, _ := strconv.Atoi(args[2])
	blocks, _ := strconv.Atoi(args[3])
	fd, err := unix.Open(args[1], unix.O_RDWR|unix.O_DIRECT, 0)
	if err != nil {
		return err
	}
	transfer := unix.Pread
	if args[0] == "write" {
		transfer = unix.Pwrite
	}
	buffer := aligned(size)
	started := time.Now()
	for block := range blocks {
		if n, err := transfer(fd, buffer, int64(block*size)%(8<<20)); n != size {
			return fmt.Errorf("block %d: %d bytes, %w", block, n, err)
		}
	}
	fmt.Println(time.Since(started))
	return nil
}

// aligned returns a buffer with the alignment for direct I/O.
func aligned(size int) []byte {
	const page = 4096
	buffer := make([]byte, size+page)
	offset := page - int(uintptr(unsafe.Pointer(&buffer[0]))%page)
	return buffer[offset : offset+size]
}

// enclosed is in the environment of a program that enclose started.
const enclosed = "SQUALL_TEST_ENCLOSED"

// enclose is injectAndHang in a cgroup namespace of its own, as in a chaos pod.
func enclose(args []string) error {
	runtime.LockOSThread() // the namespace is the thread's, and then the new program's
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return err
	}
	args = append([]string{"injector", "inject"}, args[1:]...)
	return unix.Exec("/proc/self/exe", args, []string{enclosed + "=yes"})
}

// injectAndHang is an injector that reports when it has injected and never cleans. args are
// the journal's directory, the path, the container's ID, and the directory of processes.
func injectAndHang(args []string) error {
	document := injection(&container{Group: &testcontainer.Group{ID: args[3]}})
	loaded, err := target.Load(context.Background(), document, args[4])
	if err != nil {
		return err
	}
	notes, err := journal.Open(args[1], loaded)
	if err != nil {
		return err
	}
	defer notes.Close()
	params := v1beta1.DiskPressure{Path: args[2], Throttling: v1beta1.DiskPressureThrottling{ReadBytesPerSec: some(1 << 20), WriteIOPSPerSec: some(50)}}
	if err := New(params, loaded, notes).Inject(context.Background()); err != nil {
		return err
	}
	return first(nil)
}
