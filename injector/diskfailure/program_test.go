//go:build linux

package diskfailure

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/test/testneeds"
)

// decides makes a program of another type from the part of a hook's program that has a
// path: every kernel runs that type for a test. It returns the result of an open.
func decides(t *testing.T, j judge) func(path string) int32 {
	t.Helper()
	testneeds.BeRoot(t)
	instructions := asm.Instructions{asm.LoadMapValue(regPath, 0, 0).WithReference(roomMap), asm.Mov.Imm(regBelow, 0)}
	for _, prefix := range j.prefixes {
		instructions = append(instructions, compare(prefix)...)
	}
	spec := &ebpf.CollectionSpec{Maps: j.maps(), Programs: map[string]*ebpf.ProgramSpec{
		programName: {Type: ebpf.SchedCLS, License: programLicense, Instructions: append(instructions, j.deny()...)},
	}}
	spec.Maps[roomMap].Type = ebpf.Array // one for all processors, filled by the test
	loaded, err := ebpf.NewCollection(spec)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(loaded.Close)
	return func(path string) int32 {
		t.Helper()
		// The rest of an earlier, longer path stays behind the end of this one.
		value := []byte(path + "\x00" + strings.Repeat("x", roomSize))[:roomSize]
		if err := loaded.Maps[roomMap].Put(uint32(0), value); err != nil {
			t.Fatal(err)
		}
		end, _, err := loaded.Programs[programName].Test(make([]byte, 14))
		if err != nil {
			t.Fatal(err)
		}
		return int32(end)
	}
}

func TestProgramsComparePaths(t *testing.T) {
	long := "/" + strings.Repeat("a-long-name/", 300)
	end := decides(t, judge{prefixes: []string{"/data", "/exactly", "/var/lib/db/", "/" + strings.Repeat("n", 61), long}, errno: unix.EIO, percent: 100})
	for path, fails := range map[string]bool{
		"/data": true, "/data/file": true, "/database": true, "/dat": false, "/Data": false, "/": false, "/x/data": false,
		"/exactly": true, "/exactl": false, "/exactly-this": true,
		"/var/lib/db": false, "/var/lib/db/": true, "/var/lib/db/0001": true, "/var/lib/dx/0001": false,
		"/" + strings.Repeat("n", 61): true, "/" + strings.Repeat("n", 60): false,
		long: true, long + "file": true, long[:len(long)-1]: false, long[:len(long)-1] + "x": false,
	} {
		want := map[bool]int32{true: -int32(unix.EIO), false: 0}[fails]
		if got := end(path); got != want {
			t.Errorf("the open of %.70s ends with %d, want %d", path, got, want)
		}
	}
}

// A program selects the same opens of a hundred as a listener does.
func TestProgramsFailTheSameShare(t *testing.T) {
	for _, percent := range []int{1, 37, 80, 99, 100} {
		end := decides(t, judge{prefixes: []string{"/"}, errno: unix.ENOSPC, percent: percent})
		like := share{percent: percent}
		for n := range 300 {
			want := int32(0)
			if like.next() {
				want = -int32(unix.ENOSPC)
			}
			if got := end("/file"); got != want {
				t.Fatalf("%d%%: open %d ends with %d, want %d", percent, n, got, want)
			}
		}
	}
}

// The verifier accepts the largest possible program, with each error.
func TestVerifierTakesEveryProgram(t *testing.T) {
	for _, by := range []string{byLSM, byModifyReturn} {
		t.Run(by, func(t *testing.T) {
			given(t, by)
			for _, prefixes := range []int{1, 128} { // a path, and 64 links
				o := order{Namespace: "mnt:[1]", Errno: unix.ENOENT, Percent: 50}
				for n := range prefixes {
					o.Prefixes = append(o.Prefixes, "/"+strings.Repeat("p", 58)+fmt.Sprintf("%03d", n))
				}
				for n := range 300 {
					o.Devices = append(o.Devices, uint32(n))
				}
				d, err := hooks[by].deny(programName, btf.NewCache(), o)
				if err != nil {
					t.Fatalf("%d prefixes: %+v", prefixes, err)
				}
				d.close()
			}
		})
	}
}

func TestKernelLayout(t *testing.T) {
	l, err := kernelLayout(btf.NewCache())
	if err != nil {
		t.Skipf("%s: %v", testneeds.DecidingPrograms, err)
	}
	for name, at := range map[string]int16{"task_struct.nsproxy": l.taskNamespaces, "inode.i_sb": l.inodeSuper, "mnt_namespace.ns.inum": l.mountNumber} {
		if at <= 0 {
			t.Errorf("%s is at %d, want it behind the beginning", name, at)
		}
	}
	if l.filePath == l.fileInode || l.filePath == l.fileMode || l.fileInode == l.fileMode {
		t.Errorf("layout = %+v, want each member of a file at a place of its own", l)
	}
}
