//go:build linux

package diskfailure

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/testcontainer"
	"github.com/squall-chaos/squall/test/testneeds"
)

// files makes files in a directory of their own.
func files(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("content\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func want(t *testing.T, what string, want, got map[string]int) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// inEachWay runs a test with each way in which a listener makes opens fail, and with the
// errors of that way on this kernel.
func inEachWay(t *testing.T, test func(t *testing.T, by string, gives []string)) {
	for _, by := range []string{byLSM, byModifyReturn, byFanotify} {
		t.Run(by, func(t *testing.T) { test(t, by, given(t, by)) })
	}
}

func given(t *testing.T, by string) []string {
	t.Helper()
	testneeds.BeRoot(t)
	names, err := errnosBy(by)
	switch {
	case err != nil && by == byFanotify:
		testneeds.Missing(t, testneeds.PermissionEvents, err)
	case err != nil:
		t.Skipf("%s: %v", testneeds.DecidingPrograms, err)
	}
	return names
}

// Each error of the API is either given, with the result of open(2), or refused by name
// with nothing changed.
func TestOpensFailWithTheErrorAskedFor(t *testing.T) {
	inEachWay(t, func(t *testing.T, by string, gives []string) {
		if !slices.Contains(gives, "EPERM") {
			t.Fatalf("the kernel gives %v, want at least EPERM", gives)
		}
		c, other := testcontainer.Start(t, testcontainer.Sleeps...), testcontainer.Start(t, testcontainer.Sleeps...)
		dir := files(t, "data/file", "else/file")
		file := filepath.Join(dir, "data/file")
		for _, name := range slices.Sorted(maps.Keys(errnos)) {
			if by == byModifyReturn && name != "ENOENT" {
				continue // the program is that of the other hook
			}
			t.Run(name, func(t *testing.T) {
				injector := newInjector(t, by, params(name, "", filepath.Join(dir, "data")), c)
				if !slices.Contains(gives, name) {
					wantRefused(t, injector, name, gives)
					return
				}
				inject(t, injector)
				kernels := strings.Replace(name, "EWOULDBLOCK", "EAGAIN", 1) // one number, two names
				want(t, "opens below the path", map[string]int{kernels: 20}, opens(t, c, file, unix.O_RDONLY, 20))
				want(t, "opens for writing", map[string]int{kernels: 5}, opens(t, c, file, unix.O_RDWR|unix.O_TRUNC, 5))
				want(t, "opens of the directory", map[string]int{kernels: 5}, opens(t, c, filepath.Dir(file), unix.O_RDONLY|unix.O_DIRECTORY, 5))
				want(t, "opens elsewhere", map[string]int{"ok": 20}, opens(t, c, filepath.Join(dir, "else/file"), unix.O_RDONLY, 20))
				want(t, "opens in another container", map[string]int{"ok": 20}, opens(t, other, file, unix.O_RDONLY, 20))
				want(t, "opens in no container", map[string]int{"ok": 20}, openedOutside(t, file, 20))
				want(t, "opens from outside in the container's files", map[string]int{"ok": 20},
					openedOutside(t, filepath.Join(procOf(c), "root", file), 20))
				clean(t, injector)
				want(t, "opens after Clean", map[string]int{"ok": 20}, opens(t, c, file, unix.O_RDONLY, 20))
				clean(t, injector)
			})
		}
		if content, err := os.ReadFile(file); err != nil || len(content) == 0 {
			t.Errorf("the file holds %q, %v: an open that failed has cut it off", content, err)
		}
	})
}

func wantRefused(t *testing.T, injector *Injector, name string, gives []string) {
	t.Helper()
	err := injector.Inject(t.Context())
	if err == nil {
		t.Fatalf("Inject = nil, want %s refused", name)
	}
	for _, word := range append([]string{name, "node-7", target.KernelRelease(), "nothing was changed"}, gives...) {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("Inject = %v, want %q in it", err, word)
		}
	}
	if left, err := injector.Left(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("Left after a refusal = %v, %v, want nothing", left, err)
	}
	if _, err := injector.Probe(); err == nil {
		t.Error("Probe = nil, want the error of the injection")
	}
}

func TestSoManyOfAHundredOpensFail(t *testing.T) {
	inEachWay(t, func(t *testing.T, by string, _ []string) {
		dir := files(t, "file")
		for probability, fail := range map[string]int{"1%": 10, "37%": 370, "80%": 800, "100%": 1000} {
			t.Run(probability, func(t *testing.T) {
				c := testcontainer.Start(t, testcontainer.Sleeps...)
				inject(t, newInjector(t, by, params("EPERM", probability, dir), c))
				wanted := map[string]int{"EPERM": fail}
				if fail < 1000 {
					wanted["ok"] = 1000 - fail
				}
				want(t, "opens", wanted, opens(t, c, filepath.Join(dir, "file"), unix.O_RDONLY, 1000))
			})
		}
	})
}

// TestPaths shows which files count as below a path.
func TestPaths(t *testing.T) {
	inEachWay(t, func(t *testing.T, by string, _ []string) {
		dir := files(t, "data/file", "database", "elsewhere/file", "volume/hidden")
		if err := os.Symlink("elsewhere", filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
		in := func(name string) string { return filepath.Join(dir, name) }
		for _, test := range []struct {
			name, path, file string
			flags            int
			fails            bool
		}{
			{"the file itself", "data/file", "data/file", 0, true},
			{"below a directory", "data", "data/file", 0, true},
			{"a prefix is a string, not a directory", "data", "database", 0, true},
			{"with a slash it is a directory", "data/", "data/file", 0, true},
			{"with a slash it is nothing else", "data/", "database", 0, false},
			{"a path through a link", "link/file", "elsewhere/file", 0, true},
			{"a path that is a link", "link", "elsewhere/file", 0, true},
			{"a link to a path", "elsewhere", "link/file", 0, true},
			{"a volume at the path", "volume", "volume/file", 0, true},
			{"a volume below the path", "vol", "volume/file", 0, true},
			{"a path in a volume", "volume/file", "volume/file", 0, true},
			{"a file that the open makes", "data/new", "data/new", unix.O_CREAT | unix.O_WRONLY, true},
			{"a file that is made later", "nothing/yet", "nothing/yet/file", unix.O_CREAT | unix.O_WRONLY, true},
			{"elsewhere", "data", "elsewhere/file", 0, false},
		} {
			t.Run(test.name, func(t *testing.T) {
				c := testcontainer.Start(t, "/proc/self/exe", "mount", in("volume"))
				testcontainer.Eventually(t, "the volume is mounted", func() error {
					_, err := os.Stat(filepath.Join(procOf(c), "root", in("volume/file")))
					return err
				})
				prefix := in(test.path)
				if strings.HasSuffix(test.path, "/") {
					prefix += "/"
				}
				injector := newInjector(t, by, params("EPERM", "", prefix), c)
				inject(t, injector)
				if test.path == "nothing/yet" {
					if notes := strings.Join(injector.Notes(), "\n"); !strings.Contains(notes, "what is made there fail too") || !strings.Contains(notes, prefix) {
						t.Errorf("Notes = %q, want the path that there is not", notes)
					}
					if err := os.MkdirAll(in("nothing/yet"), 0o755); err != nil {
						t.Fatal(err)
					}
				}
				end := map[bool]string{true: "EPERM", false: "ok"}[test.fails]
				want(t, "opens of "+test.file, map[string]int{end: 3}, opens(t, c, in(test.file), test.flags, 3))
			})
		}
	})
}

func procOf(c *testcontainer.Container) string { return fmt.Sprintf("/proc/%d", c.PID) }

func TestWhatCannotFailIsRefused(t *testing.T) {
	inEachWay(t, func(t *testing.T, by string, _ []string) {
		c := testcontainer.Start(t, testcontainer.Sleeps...)
		for _, test := range []struct{ name, path, want string }{
			{"a filesystem of the kernel", "/proc/sys", "type proc"},
			{"a path of the working directory", "data", "absolute"},
		} {
			t.Run(test.name, func(t *testing.T) {
				injector := newInjector(t, by, params("EPERM", "", test.path), c)
				if err := injector.Inject(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), test.path) {
					t.Errorf("Inject = %v, want %q and the path in it", err, test.want)
				}
			})
		}
	})
}

// A file that is open stays usable.
func TestOpenFilesStayOpen(t *testing.T) {
	inEachWay(t, func(t *testing.T, by string, _ []string) {
		file := filepath.Join(files(t, "file"), "file")
		c := testcontainer.Start(t, "sh", "-c", `exec 3<"$0" 4>"$0.read"; while [ ! -e "$0.go" ]; do sleep 0.05; done; cat <&3 >&4; exec sleep 1000`, file)
		testcontainer.Eventually(t, "the files are open", func() error {
			_, err := os.Stat(filepath.Join(procOf(c), "fd/4"))
			return err
		})
		inject(t, newInjector(t, by, params("EPERM", "", file), c))
		want(t, "opens", map[string]int{"EPERM": 3}, opens(t, c, file, 0, 3))
		if err := os.WriteFile(file+".go", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		testcontainer.Eventually(t, "what was open is read and written", func() error {
			if content, err := os.ReadFile(file + ".read"); err != nil || string(content) != "content\n" {
				return fmt.Errorf("%q, %w", content, err)
			}
			return nil
		})
	})
}

// All files of a container can be covered by one path, except the kernel's own filesystems.
func TestRootOfAContainer(t *testing.T) {
	inEachWay(t, func(t *testing.T, by string, _ []string) {
		dir := files(t, "file")
		c, other := testcontainer.Start(t, testcontainer.Sleeps...), testcontainer.Start(t, testcontainer.Sleeps...)
		c.AwaitSleep(t) // its own opens would be counted
		injector := newInjector(t, by, params("EPERM", "50%", "/"), c)
		inject(t, injector)
		// Every second open fails. The first one starts the program.
		want(t, "opens", map[string]int{"ok": 5, "EPERM": 6}, opens(t, c, filepath.Join(dir, "file"), 0, 11))
		want(t, "opens of the kernel's files", map[string]int{"ok": 10}, opens(t, c, "/proc/version", 0, 10))
		if notes := strings.Join(injector.Notes(), "\n"); !strings.Contains(notes, "/proc do not fail") {
			t.Errorf("Notes = %q, want what does not fail", notes)
		}
		want(t, "opens in another container", map[string]int{"ok": 20}, opens(t, other, filepath.Join(dir, "file"), 0, 20))
	})
}

// Only the chosen containers are disrupted, each by a listener of its own.
func TestChosenContainers(t *testing.T) {
	inEachWay(t, func(t *testing.T, by string, _ []string) {
		file := filepath.Join(files(t, "file"), "file")
		var c []*testcontainer.Container
		for range 3 {
			c = append(c, testcontainer.Start(t, testcontainer.Sleeps...))
		}
		injector := newInjector(t, by, params("EPERM", "", file), c[0], c[1])
		inject(t, injector)
		if left, err := injector.Left(t.Context()); err != nil || len(left) != 2 {
			t.Errorf("Left = %v, %v, want two listeners", left, err)
		}
		for n, end := range []string{"EPERM", "EPERM", "ok"} {
			want(t, fmt.Sprint("opens of container ", n), map[string]int{end: 5}, opens(t, c[n], file, 0, 5))
		}
		marks, err := Audit(t.Context(), target.DefaultProc, nil)
		if err != nil {
			t.Fatal(err)
		}
		mine := slices.DeleteFunc(marks, func(m v1beta1.Mark) bool { return m.Disruption.UID != injector.target.Injection.Disruption.UID })
		if len(mine) != 2 || mine[0].Kind != v1beta1.KindDiskFailure || mine[0].Target != "pod-uid" {
			t.Errorf("Audit = %+v, want both listeners", mine)
		}
	})
}

// At level node the files of the node's first process fail, and no container's.
func TestNodeLevel(t *testing.T) {
	inEachWay(t, func(t *testing.T, by string, _ []string) {
		dir := files(t, "data/file", "else/file")
		node, container := testcontainer.Start(t, testcontainer.Sleeps...), testcontainer.Start(t, testcontainer.Sleeps...)
		document := injection(node)
		document.Level, document.Target.Containers = v1beta1.LevelNode, nil
		load := func(paths ...string) *Injector {
			loaded, err := target.Load(t.Context(), document, testcontainer.NodeProc(t, node.PID))
			if err != nil {
				t.Fatal(err)
			}
			return injectorFor(t, by, params("EPERM", "", paths...), loaded)
		}
		injector := load(filepath.Join(dir, "data"))
		inject(t, injector)
		want(t, "opens of the node", map[string]int{"EPERM": 5}, opens(t, node, filepath.Join(dir, "data/file"), 0, 5))
		want(t, "opens of the node elsewhere", map[string]int{"ok": 5}, opens(t, node, filepath.Join(dir, "else/file"), 0, 5))
		want(t, "opens of a container", map[string]int{"ok": 5}, opens(t, container, filepath.Join(dir, "data/file"), 0, 5))
		clean(t, injector)
		want(t, "opens after Clean", map[string]int{"ok": 5}, opens(t, node, filepath.Join(dir, "data/file"), 0, 5))

		if err := os.Symlink("/", filepath.Join(dir, "root")); err != nil {
			t.Fatal(err)
		}
		if err := load(filepath.Join(dir, "root")).Inject(t.Context()); err == nil || !strings.Contains(err.Error(), "whole node") {
			t.Errorf("Inject of a link to the root = %v, want it refused", err)
		}
	})
}

// onlyListener is the process of the injector's one listener.
func onlyListener(t *testing.T, injector *Injector) (pid int) {
	t.Helper()
	pids, err := injector.listeners.PIDs()
	if err != nil || len(pids) != 1 {
		t.Fatalf("listeners = %v, %v, want one", pids, err)
	}
	return pids[0]
}

// injectedElsewhere starts a process that has injected, and holds the injection. The end of
// the test kills it.
func injectedElsewhere(t *testing.T, by string, c *testcontainer.Container, errno, path string) *exec.Cmd {
	t.Helper()
	command := exec.Command("/proc/self/exe", "inject", by, c.ID, errno, path, t.TempDir())
	command.Stderr = os.Stderr
	input, _ := command.StdinPipe()
	t.Cleanup(func() { _ = input.Close() })
	output, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	if line, err := bufio.NewReader(output).ReadString('\n'); err != nil {
		t.Fatalf("the injector output %q, %v", line, err)
	}
	return command
}

// A listener that hangs is ended, so that opens continue, and the injector reports it.
func TestListenerThatHangsIsEnded(t *testing.T) {
	given(t, byFanotify)
	file := filepath.Join(files(t, "file"), "file")
	c := testcontainer.Start(t, testcontainer.Sleeps...)
	injector := newInjector(t, byFanotify, params("EPERM", "", file), c)
	inject(t, injector)
	testcontainer.Freeze(t, onlyListener(t, injector))
	began := time.Now()
	want(t, "opens while the listener hangs", map[string]int{"ok": 3}, opens(t, c, file, 0, 3))
	t.Logf("opens waited for %s", time.Since(began))
	if waited := time.Since(began); waited > time.Minute {
		t.Errorf("opens waited for %s, want an end", waited)
	}
	select {
	case err := <-injector.EffectLost():
		if !strings.Contains(err.Error(), "did not answer") || !strings.Contains(err.Error(), "db-0") {
			t.Errorf("Lost = %v, want the container and that its listener did not answer", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("nobody was told")
	}
}

// The rights of a chaos pod are enough for each way.
func TestRightsOfAChaosPodAreEnough(t *testing.T) {
	inEachWay(t, func(t *testing.T, by string, gives []string) {
		output, err := exec.Command("/proc/self/exe", "bounded", "gives", by).CombinedOutput()
		var names []string
		if err == nil {
			err = json.Unmarshal(output, &names)
		}
		if diff := cmp.Diff(gives, names); err != nil || diff != "" {
			t.Errorf("with the rights of a chaos pod: %v, %s (-want +got):\n%s", err, output, diff)
		}
	})
}

// rule 58
func TestNothingOutlivesTheInjectorOrTheTarget(t *testing.T) {
	inEachWay(t, func(t *testing.T, by string, _ []string) {
		file := filepath.Join(files(t, "file"), "file")
		for _, test := range []struct {
			name string
			end  func(t *testing.T, injector *exec.Cmd, c *testcontainer.Container)
		}{
			{"the injector is killed", func(t *testing.T, injector *exec.Cmd, _ *testcontainer.Container) { _ = injector.Process.Kill() }},
			{"the container ends", func(t *testing.T, _ *exec.Cmd, c *testcontainer.Container) { c.Kill(t) }},
		} {
			t.Run(test.name, func(t *testing.T) {
				c := testcontainer.Start(t, testcontainer.Sleeps...)
				command := injectedElsewhere(t, by, c, "EPERM", file)
				want(t, "opens before", map[string]int{"EPERM": 3}, opens(t, c, file, 0, 3))
				test.end(t, command, c)
				children := listeners.Of(&target.Target{Injection: injection(c)})
				testcontainer.Eventually(t, "the listener is gone", func() error {
					if left, err := children.Left(); err != nil || len(left) > 0 {
						return fmt.Errorf("%v, %w", left, err)
					}
					return nil
				})
				if c.Running() {
					want(t, "opens afterwards", map[string]int{"ok": 3}, opens(t, c, file, 0, 3))
				}
			})
		}
	})
}
