//go:build linux

package diskfailure

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/testcontainer"
	"github.com/squall-chaos/squall/test/testneeds"
)

// coverable skips the test if covers do not give all errors on this kernel.
func coverable(t *testing.T) {
	t.Helper()
	testneeds.BeRoot(t)
	if names, err := coverErrnos(); err != nil || len(names) != len(fileErrnos) {
		testneeds.Missing(t, testneeds.MountObjects, names, err)
	}
}

// tableOf returns the table of mounts that a process sees, without those of other tests,
// which end with their directories.
func tableOf(t *testing.T, dir string) string {
	t.Helper()
	table, err := os.ReadFile(dir + "/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	test, _, _ := strings.Cut(t.Name(), "/")
	var mine strings.Builder
	for line := range strings.Lines(string(table)) {
		if !strings.Contains(line, "/Test") || strings.Contains(line, "/"+test) {
			mine.WriteString(line)
		}
	}
	return mine.String()
}

func TestCoveredFilesAndDirectories(t *testing.T) {
	coverable(t)
	dir := files(t, "data/file", "database", "single", "else/file")
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := os.Symlink("single", in("link")); err != nil {
		t.Fatal(err)
	}
	const create = unix.O_CREAT | unix.O_WRONLY
	for _, test := range []struct {
		name, errno, path, file string
		flags                   int
		want                    string
	}{
		{"the default is ENOENT", "", "single", "single", 0, "ENOENT"},
		{"a file, to write", "ENOENT", "single", "single", unix.O_RDWR, "ENOENT"},
		{"a file that would be made if it were not there", "ENOENT", "single", "single", create, "ENOENT"},
		{"a link to the path", "ENOENT", "single", "link", 0, "ENOENT"},
		{"a path that is a link", "ENOENT", "link", "single", 0, "ENOENT"},
		{"below a directory", "ENOENT", "data", "data/file", 0, "ENOENT"},
		{"a new file below a directory", "ENOENT", "data", "data/new", create, "ENOENT"},
		{"a prefix is a string, not a directory", "ENOENT", "dat", "database", 0, "ENOENT"},
		{"a prefix of a directory's name", "ENOENT", "dat", "data/file", 0, "ENOENT"},
		{"with a slash it is a directory", "ENOENT", "data/", "data/file", 0, "ENOENT"},
		{"with a slash it is nothing else", "ENOENT", "data/", "database", 0, "ok"},
		{"a link to itself", "ELOOP", "single", "single", 0, "ELOOP"},
		{"a name that is too long", "ENAMETOOLONG", "single", "single", create, "ENAMETOOLONG"},
		{"a socket", "ENXIO", "single", "single", unix.O_RDWR, "ENXIO"},
		{"elsewhere", "ENOENT", "data", "else/file", 0, "ok"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, other := testcontainer.Start(t, testcontainer.Sleeps...), testcontainer.Start(t, testcontainer.Sleeps...)
			prefix := in(test.path)
			if strings.HasSuffix(test.path, "/") {
				prefix += "/"
			}
			before, host, others := tableOf(t, procOf(c)), tableOf(t, "/proc/self"), tableOf(t, procOf(other))
			injector := newInjector(t, byMount, params(test.errno, "", prefix), c)
			inject(t, injector)
			want(t, "opens of "+test.file, map[string]int{test.want: 5}, opens(t, c, in(test.file), test.flags, 5))
			if strings.Contains(test.want, "E") {
				want(t, "opens in another container", map[string]int{"ok": 3}, opens(t, other, in("single"), 0, 3))
				want(t, "opens in no container", map[string]int{"ok": 3}, openedOutside(t, in("data/file"), 3))
			}
			if left, err := injector.Left(t.Context()); err != nil || len(left) == 0 {
				t.Errorf("Left = %v, %v, want the mounts", left, err)
			}
			if changes := injector.journal.Changes(); len(changes) == 0 {
				t.Error("the journal holds nothing")
			}
			for range 2 {
				clean(t, injector)
				if diff := cmp.Diff([]string{before, host, others}, []string{tableOf(t, procOf(c)), tableOf(t, "/proc/self"), tableOf(t, procOf(other))}); diff != "" {
					t.Errorf("mounts of the container, of this process and of another container (-before +after):\n%s", diff)
				}
			}
			if test.flags == 0 {
				want(t, "opens after Clean", map[string]int{"ok": 3}, opens(t, c, in(test.file), 0, 3))
			}
		})
	}
}

func TestWhatCannotBeCoveredIsRefused(t *testing.T) {
	coverable(t)
	dir := files(t, "data/file", "single")
	in := func(name string) string { return filepath.Join(dir, name) }
	c := testcontainer.Start(t, testcontainer.Sleeps...)
	for _, test := range []struct{ name, errno, probability, path, want string }{
		{"a part of the opens", "ENOENT", "80%", in("single"), "ENOENT with probability 80%"},
		{"another error of a directory", "ELOOP", "", in("data"), "it is a directory"},
		{"nothing is there", "ENOENT", "", in("none"), "no container has any of " + in("none")},
		{"the root", "ENOENT", "", "/", "name a path below it"},
		{"a filesystem of the kernel", "ENOENT", "", "/proc/sys/kernel", "type proc"},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := tableOf(t, procOf(c))
			injector := newInjector(t, byMount, params(test.errno, test.probability, test.path), c)
			if err := injector.Inject(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Inject = %v, want %q in it", err, test.want)
			}
			if diff := cmp.Diff(before, tableOf(t, procOf(c))); diff != "" {
				t.Errorf("mounts of the container (-before +after):\n%s", diff)
			}
			if changes := injector.journal.Changes(); len(changes) > 0 {
				t.Errorf("the journal holds %v, want nothing", changes)
			}
		})
	}
}

// A shared mount would cover the path for other containers too.
func TestSharedMountsAreNotCovered(t *testing.T) {
	coverable(t)
	dir := files(t, "volume/hidden")
	c := testcontainer.Start(t, "/proc/self/exe", "mount", filepath.Join(dir, "volume"), "shared")
	testcontainer.Eventually(t, "the volume is mounted", func() error {
		_, err := os.Stat(filepath.Join(procOf(c), "root", dir, "volume/file"))
		return err
	})
	injector := newInjector(t, byMount, params("ENOENT", "", filepath.Join(dir, "volume/file")), c)
	if err := injector.Inject(t.Context()); err == nil || !strings.Contains(err.Error(), "Bidirectional") {
		t.Errorf("Inject = %v, want the shared mount refused", err)
	}
}

// Two containers have the path, one does not: Notes reports it, and the others are
// disrupted.
func TestContainersWithoutThePathAreNoted(t *testing.T) {
	coverable(t)
	dir := files(t, "volume/hidden")
	file := filepath.Join(dir, "volume/file")
	with := testcontainer.Start(t, "/proc/self/exe", "mount", filepath.Join(dir, "volume"))
	without := testcontainer.Start(t, testcontainer.Sleeps...)
	testcontainer.Eventually(t, "the volume is mounted", func() error {
		_, err := os.Stat(filepath.Join(procOf(with), "root", file))
		return err
	})
	injector := newInjector(t, byMount, params("ENOENT", "", file), with, without)
	inject(t, injector)
	want(t, "opens", map[string]int{"ENOENT": 3}, opens(t, with, file, 0, 3))
	if notes := strings.Join(injector.Notes(), "\n"); !strings.Contains(notes, "container db-1 has no "+file) {
		t.Errorf("Notes = %q, want the container without the path", notes)
	}
}

// rule 58
func TestCoversAreCleanedAfterACrash(t *testing.T) {
	coverable(t)
	dir := files(t, "data/file")
	file := filepath.Join(dir, "data/file")
	c := testcontainer.Start(t, testcontainer.Sleeps...)
	before := tableOf(t, procOf(c))
	command := injectedElsewhere(t, byMount, c, "ENOENT", filepath.Dir(file))
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait()
	want(t, "opens after the injector was killed", map[string]int{"ENOENT": 3}, opens(t, c, file, 0, 3))
	marks, err := Audit(t.Context(), target.DefaultProc, nil)
	if err != nil {
		t.Fatal(err)
	}
	cleaner := newInjector(t, byMount, params("ENOENT", "", filepath.Dir(file)), c)
	found := false
	for _, mark := range marks {
		found = found || mark.Disruption.UID == cleaner.target.Injection.Disruption.UID && mark.Target == "pod-uid" && strings.Contains(mark.Object, filepath.Dir(file))
	}
	if !found {
		t.Errorf("Audit = %+v, want the mount", marks)
	}
	clean(t, cleaner)
	if diff := cmp.Diff(before, tableOf(t, procOf(c))); diff != "" {
		t.Errorf("mounts of the container (-before +after):\n%s", diff)
	}
	clean(t, cleaner)
}

// A mount that another program made over a cover is not ours to unmount.
func TestMountOverACoverIsLeftAndReported(t *testing.T) {
	coverable(t)
	dir := files(t, "single", "other")
	file := filepath.Join(dir, "single")
	c := testcontainer.Start(t, testcontainer.Sleeps...)
	injector := newInjector(t, byMount, params("ENXIO", "", file), c)
	inject(t, injector)
	inContainer := func(role string, args ...string) {
		t.Helper()
		args = append([]string{"enter", filepath.Base(procOf(c)), role}, args...)
		if output, err := exec.Command("/proc/self/exe", args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", role, err, output)
		}
	}
	inContainer("put", filepath.Join(dir, "other"), file)
	before := tableOf(t, procOf(c))
	if err := injector.Clean(t.Context()); err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "another mount covers it") {
		t.Errorf("Clean = %v, want the path and that somebody mounted over it", err)
	}
	if diff := cmp.Diff(before, tableOf(t, procOf(c))); diff != "" {
		t.Errorf("mounts of the container (-before +after):\n%s", diff)
	}
	inContainer("take", file)
	clean(t, injector)
}
