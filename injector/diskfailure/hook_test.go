//go:build linux

package diskfailure

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"

	"github.com/squall-chaos/squall/test/testcontainer"
)

// inEachHook runs a test with each way that has a hook.
func inEachHook(t *testing.T, test func(t *testing.T, by string)) {
	for _, by := range []string{byLSM, byModifyReturn} {
		t.Run(by, func(t *testing.T) { given(t, by); test(t, by) })
	}
}

// programsAndLinks lists all BPF programs of these names in the kernel, and the links of
// each. Other tests load programs at the same time.
func programsAndLinks(t *testing.T, names ...string) string {
	t.Helper()
	var text strings.Builder
	wanted := map[ebpf.ProgramID]bool{}
	for id, err := ebpf.ProgramGetNextID(0); err == nil; id, err = ebpf.ProgramGetNextID(id) {
		program, err := ebpf.NewProgramFromID(id)
		if err != nil {
			continue // it is gone meanwhile
		}
		info, err := program.Info()
		program.Close()
		if err == nil && slices.Contains(names, info.Name) {
			wanted[id] = true
			fmt.Fprintf(&text, "program %d %s\n", id, info.Name)
		}
	}
	links := &link.Iterator{}
	defer links.Close()
	for links.Next() {
		if info, err := links.Link.Info(); err == nil && wanted[info.Program] {
			fmt.Fprintf(&text, "link %d of program %d\n", links.ID, info.Program)
		}
	}
	if err := links.Err(); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// A foreign program at the same hook stays, and none of ours does.
func TestNoProgramStays(t *testing.T) {
	inEachHook(t, func(t *testing.T, by string) {
		spec := hooks[by].program("foreign", asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()})
		foreign, err := ebpf.NewProgram(spec)
		if err != nil {
			t.Fatal(err)
		}
		defer foreign.Close()
		attached, err := hooks[by].put(foreign)
		if err != nil {
			t.Fatal(err)
		}
		defer attached.Close()
		before := programsAndLinks(t, "foreign", programName)
		file := filepath.Join(files(t, "file"), "file")
		c := testcontainer.Start(t, testcontainer.Sleeps...)
		injector := newInjector(t, by, params("ENOENT", "", file), c)
		inject(t, injector)
		want(t, "opens", map[string]int{"ENOENT": 3}, opens(t, c, file, 0, 3))
		if during := programsAndLinks(t, "foreign", programName); during == before {
			t.Errorf("the kernel holds %s, want a program and a link more", during)
		}
		for range 2 {
			clean(t, injector)
			if diff := cmp.Diff(before, programsAndLinks(t, "foreign", programName)); diff != "" {
				t.Errorf("what the kernel holds (-before +after):\n%s", diff)
			}
		}
	})
}

// A filesystem that opens files of its own, like those of containers, does not make an open
// count twice.
func TestOpensOnAnOverlayCountOnce(t *testing.T) {
	inEachHook(t, func(t *testing.T, by string) {
		dir := t.TempDir()
		c := testcontainer.Start(t, "/proc/self/exe", "overlay", dir)
		file := filepath.Join(dir, "merged/file")
		testcontainer.Eventually(t, "the overlay is mounted", func() error {
			_, err := os.Stat(filepath.Join(procOf(c), "root", file))
			return err
		})
		inject(t, newInjector(t, by, params("ENOSPC", "20%", filepath.Dir(file)), c))
		want(t, "opens", map[string]int{"ENOSPC": 20, "ok": 80}, opens(t, c, file, 0, 100))
	})
}

// No open waits for a process that holds a program. But a process that hangs would not see
// the end of its target: it is ended, and the injector reports it.
func TestProgramNeedsNoListenerToAnswer(t *testing.T) {
	inEachHook(t, func(t *testing.T, by string) {
		file := filepath.Join(files(t, "file"), "file")
		c := testcontainer.Start(t, testcontainer.Sleeps...)
		injector := newInjector(t, by, params("ENOENT", "", file), c)
		inject(t, injector)
		testcontainer.Freeze(t, onlyListener(t, injector))
		want(t, "opens while the listener hangs", map[string]int{"ENOENT": 3}, opens(t, c, file, 0, 3))
		select {
		case err := <-injector.EffectLost():
			if !strings.Contains(err.Error(), "did not answer") {
				t.Errorf("Lost = %v, want that the listener did not answer", err)
			}
		case <-time.After(time.Minute):
			t.Error("nobody was told")
		}
		want(t, "opens after it was ended", map[string]int{"ok": 3}, opens(t, c, file, 0, 3))
	})
}

// A program that is detached, by any other program, ends its process: the injector reports
// that within 20 s.
func TestProgramTakenOffIsLost(t *testing.T) {
	inEachHook(t, func(t *testing.T, by string) {
		file := filepath.Join(files(t, "file"), "file")
		c := testcontainer.Start(t, testcontainer.Sleeps...)
		injector := newInjector(t, by, params("ENOENT", "", file), c)
		inject(t, injector)
		listener, err := os.FindProcess(onlyListener(t, injector))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := listener.Kill(); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-injector.EffectLost():
			t.Logf("told after %s: %v", time.Since(began), err)
		case <-time.After(20 * time.Second):
			t.Error("nobody was told within 20 s")
		}
		want(t, "opens afterwards", map[string]int{"ok": 3}, opens(t, c, file, 0, 3))
	})
}

// The count of opens that failed is the proof.
func TestProgramsCountWhatFailed(t *testing.T) {
	inEachHook(t, func(t *testing.T, by string) {
		file := filepath.Join(files(t, "file"), "file")
		c := testcontainer.Start(t, testcontainer.Sleeps...)
		injector := newInjector(t, by, params("EMFILE", "50%", file), c)
		inject(t, injector)
		want(t, "opens", map[string]int{"EMFILE": 20, "ok": 20}, opens(t, c, file, 0, 40))
		testcontainer.Eventually(t, "the count is told", func() error {
			state, evidence, err := injector.Prove(t.Context())
			if evidence != "20 opens failed" {
				return fmt.Errorf("%s, %q, %w", state, evidence, err)
			}
			return nil
		})
	})
}
