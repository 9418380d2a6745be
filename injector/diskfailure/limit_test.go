//go:build linux

package diskfailure

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/testcontainer"
	"github.com/squall-chaos/squall/test/testneeds"
)

func TestAtMostEightProgramsAtAHook(t *testing.T) {
	const fewerTargets, fewerContainers = "select fewer targets on this node", "name at most 8 containers in spec.containers"
	for _, test := range []struct {
		name             string
		attached, wanted int
		refused          []string
	}{
		{"the first", 0, 1, nil},
		{"the eighth", 7, 1, nil},
		{"a pod of eight containers", 0, 8, nil},
		{"the ninth", 8, 1, []string{"node node-7 has 8 of Squall's", "needs 1 more", fewerTargets}},
		{"a pod of which a part has room", 6, 3, []string{"has 6 of Squall's", "needs 3 more", fewerTargets}},
		{"a pod of nine containers", 0, 9, []string{"needs 9 more", fewerContainers}},
		{"more than an older version attached", 38, 1, []string{"has 38 of Squall's", fewerTargets}},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := checkRoom("node node-7", "file_open", test.attached, test.wanted)
			if (err != nil) != (test.refused != nil) {
				t.Fatalf("checkRoom = %v, want it refused: %t", err, test.refused != nil)
			}
			if err == nil {
				return
			}
			for _, word := range append(test.refused, "the hook file_open", "the limit of 8", "Nothing was changed") {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("checkRoom = %v, want %q in it", err, word)
				}
			}
		})
	}
}

// besides is a type of programs that every kernel attaches, for tests of the count.
const besides = ebpf.SkLookup

// withAttached calls do while programs of these names are attached to a network
// namespace that nothing else is in.
func withAttached(t *testing.T, names []string, do func(attached []link.Link)) {
	t.Helper()
	testneeds.BeRoot(t)
	err := target.OnThrowawayThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		namespace, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(namespace)
		var attached []link.Link
		for _, name := range names {
			program, err := loadBesides(name)
			if err != nil {
				return err
			}
			defer program.Close()
			made, err := link.AttachNetNs(namespace, program)
			if err != nil {
				return err
			}
			defer made.Close()
			attached = append(attached, made)
		}
		do(attached)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func loadBesides(name string) (*ebpf.Program, error) {
	return ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: name, Type: besides, AttachType: ebpf.AttachSkLookup, License: programLicense,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()},
	})
}

// A program that is only loaded, or that has another name, does not count.
func TestOnlyAttachedProgramsOfOursCount(t *testing.T) {
	wantAttached := func(want int, when string) {
		t.Helper()
		if got, err := countAttached(besides, programName); err != nil || got != want {
			t.Errorf("countAttached %s = %d, %v, want %d", when, got, err, want)
		}
	}
	wantAttached(0, "before")
	withAttached(t, []string{programName, "foreign", probeName, programName}, func(attached []link.Link) {
		idle, err := loadBesides(programName)
		if err != nil {
			t.Error(err)
			return
		}
		defer idle.Close()
		wantAttached(2, "with two of ours, two others, and one that is only loaded")
		attached[0].Close()
		wantAttached(1, "after one was detached")
	})
}

// The hook of this test takes the programs that every kernel attaches.
func TestANodeWithEightProgramsTakesNoListener(t *testing.T) {
	const name = "a way of this test"
	hooks[name] = hook{besides, ebpf.AttachSkLookup, "file_open"}
	t.Cleanup(func() { delete(hooks, name) })
	injector := newInjector(t, byFanotify, params("ENOENT", "", files(t, "file")), testcontainer.Start(t, testcontainer.Sleeps...))
	injector.ways = []way{{name, func() ([]string, error) { return []string{"ENOENT"}, nil }}}
	withAttached(t, slices.Repeat([]string{programName}, programsPerHook), func([]link.Link) {
		err := injector.Inject(t.Context())
		if err == nil || !strings.Contains(err.Error(), "node node-7 has 8 of Squall's") {
			t.Errorf("Inject = %v, want it refused for the limit", err)
		}
		if left, err := injector.Left(t.Context()); err != nil || len(left) > 0 {
			t.Errorf("Left after a refusal = %v, %v, want nothing", left, err)
		}
	})
}

// Of ten injectors that begin together on a node, eight get a program. The others
// change nothing, and get one once there is room.
func TestTheNinthProgramIsRefused(t *testing.T) {
	inEachHook(t, func(t *testing.T, by string) {
		dir := files(t, "file")
		node := t.TempDir()
		injectors := make([]*Injector, programsPerHook+2)
		for n := range injectors {
			loaded, err := target.Load(t.Context(), injection(testcontainer.Start(t, testcontainer.Sleeps...)), "")
			if err != nil {
				t.Fatal(err)
			}
			injectors[n] = injectorIn(t, node, by, params("ENOENT", "", dir), loaded)
		}
		errs := make([]error, len(injectors))
		var all sync.WaitGroup
		for n, injector := range injectors {
			all.Go(func() { errs[n] = injector.Inject(t.Context()) })
		}
		all.Wait()
		var within, refused []*Injector
		for n, err := range errs {
			if err == nil {
				within = append(within, injectors[n])
				continue
			}
			refused = append(refused, injectors[n])
			if !strings.Contains(err.Error(), fmt.Sprintf("above the limit of %d", programsPerHook)) {
				t.Errorf("Inject = %v, want it refused for the limit", err)
			}
			if left, err := injectors[n].Left(t.Context()); err != nil || len(left) > 0 {
				t.Errorf("Left after a refusal = %v, %v, want nothing", left, err)
			}
		}
		if attached, err := countAttached(hooks[by].kind, programName); err != nil || attached != programsPerHook || len(within) != programsPerHook {
			t.Fatalf("%d injections succeeded, %d programs are attached, %v, want %d of both", len(within), attached, err, programsPerHook)
		}
		clean(t, within[0])
		inject(t, refused[0])
		if err := refused[1].Inject(t.Context()); err == nil {
			t.Error("Inject beside 8 others = nil, want it refused")
		}
	})
}
