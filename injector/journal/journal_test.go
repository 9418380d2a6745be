//go:build linux

package journal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/target"
)

func anyTarget() *target.Target {
	return &target.Target{
		Injection: v1beta1.Injection{
			Disruption: v1beta1.DisruptionRef{Namespace: "shop", Name: "slow", UID: "d-1"},
			Kind:       v1beta1.KindDiskPressure,
			Params:     []byte(`{"path":"/data"}`),
			Target:     v1beta1.InjectionTarget{Name: "db-0", UID: "p-1"},
		},
		Containers: []target.Container{{Name: "db", ID: "abc", PID: 7, StartTime: 42,
			Netns: target.Netns{NetnsID: target.NetnsID{Dev: 4, Ino: 99}, Path: "/proc/7/ns/net"}}},
	}
}

func mustOpen(t *testing.T, dir string, of *target.Target) *Journal {
	t.Helper()
	j, err := Open(dir, of)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(j.Close)
	return j
}

func mustWrite(t *testing.T, j *Journal, changes ...Change) {
	t.Helper()
	for _, change := range changes {
		if err := j.Write(change); err != nil {
			t.Fatalf("Write: %v", err)
		}
	}
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestRecordOutlivesItsProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "by", "open")
	changes := []Change{{"/a", "1", "2"}, {"/b", "", "3"}}
	j := mustOpen(t, dir, anyTarget())
	if j.found {
		t.Error("found = true for a new record")
	}
	mustWrite(t, j, changes...)
	j.Close() // as the kernel does when the process is killed

	again, err := Reopen(dir, anyTarget().Injection)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if !again.found {
		t.Error("found = false for a record that was left behind")
	}
	if diff := cmp.Diff(changes, again.Changes()); diff != "" {
		t.Errorf("changes (-written +read):\n%s", diff)
	}
	boot, err := BootID()
	if err != nil {
		t.Fatal(err)
	}
	want := Record{BootID: boot, Injection: anyTarget().Injection, Containers: anyTarget().Containers, Changes: changes}
	ignoreSpace := cmp.Transformer("compact", func(raw []byte) string { return strings.Join(strings.Fields(string(raw)), "") })
	got := again.Record()
	if diff := cmp.Diff(string(want.Injection.Params), strings.Join(strings.Fields(string(got.Injection.Params)), "")); diff != "" {
		t.Errorf("parameters: %s", diff)
	}
	got.Injection.Params, want.Injection.Params = nil, nil
	if diff := cmp.Diff(want, got, ignoreSpace, cmp.AllowUnexported(target.Container{})); diff != "" {
		t.Errorf("record (-written +read):\n%s", diff)
	}
}

func TestOpenKeepsWhatAnEarlierProcessLeft(t *testing.T) {
	dir := t.TempDir()
	first := mustOpen(t, dir, anyTarget())
	mustWrite(t, first, Change{"/a", "1", "2"})
	first.Close()

	restarted := anyTarget()
	restarted.Containers[0].ID, restarted.Containers[0].PID = "def", 8
	second := mustOpen(t, dir, restarted)
	mustWrite(t, second, Change{"/b", "3", "4"})

	if diff := cmp.Diff([]Change{{"/a", "1", "2"}, {"/b", "3", "4"}}, second.Changes()); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if got := second.Record().Containers; len(got) != 2 || got[0].ID != "abc" || got[1].ID != "def" {
		t.Errorf("containers = %+v, want the old one and the new one", got)
	}
}

func TestRecordOfAnEarlierBootIsReplaced(t *testing.T) {
	dir := t.TempDir()
	first := mustOpen(t, dir, anyTarget())
	first.record.BootID = "another boot"
	mustWrite(t, first, Change{"/a", "1", "2"})
	first.Close()

	second := mustOpen(t, dir, anyTarget())
	if second.found || len(second.Changes()) != 0 {
		t.Errorf("found = %t, Changes() = %v, want a new record", second.found, second.Changes())
	}
}

func TestALivingProcessKeepsOthersOut(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir, anyTarget())
	if _, err := Open(dir, anyTarget()); !errors.Is(err, ErrBusy) {
		t.Errorf("Open() of an open journal = %v, want ErrBusy", err)
	}
	if _, err := Reopen(dir, anyTarget().Injection); !errors.Is(err, ErrBusy) {
		t.Errorf("Reopen() of an open journal = %v, want ErrBusy", err)
	}
	j.Close()
	mustOpen(t, dir, anyTarget())
}

func TestRemoveLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir, anyTarget())
	mustWrite(t, j, Change{"/a", "1", "2"})
	for range 2 {
		if err := j.Remove(); err != nil {
			t.Fatalf("Remove: %v", err)
		}
		if got := files(t, dir); len(got) != 0 {
			t.Errorf("files after Remove = %v, want none", got)
		}
	}
	if _, err := Reopen(dir, anyTarget().Injection); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Reopen() after Remove = %v, want ErrNotExist", err)
	}
	if got := files(t, dir); len(got) != 0 {
		t.Errorf("Reopen without a record left %v", got)
	}
}

func TestCrashWhileWritingLeavesTheOldRecord(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir, anyTarget())
	mustWrite(t, j, Change{"/a", "1", "2"})
	j.Close()
	// The crash left a part of the next record in its temporary file.
	if err := os.WriteFile(j.path+".tmp", []byte(`{"bootID": "x", "chan`), 0o600); err != nil {
		t.Fatal(err)
	}

	records, err := List(dir)
	if err != nil || len(records) != 1 {
		t.Fatalf("List() = %v, %v, want the one record", records, err)
	}
	again := mustOpen(t, dir, anyTarget())
	mustWrite(t, again, Change{"/b", "3", "4"})
	if diff := cmp.Diff([]Change{{"/a", "1", "2"}, {"/b", "3", "4"}}, again.Changes()); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if err := again.Remove(); err != nil {
		t.Fatal(err)
	}
	if got := files(t, dir); len(got) != 0 {
		t.Errorf("files after Remove = %v, want none", got)
	}
}

func TestNoteIsOnTheDiskWhenWriteReturns(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir, anyTarget())
	mustWrite(t, j, Change{"/a", "1", "2"})
	records, err := List(dir) // reads the files while the writer still runs
	if err != nil || len(records) != 1 {
		t.Fatalf("List() = %v, %v, want one record", records, err)
	}
	if diff := cmp.Diff([]Change{{"/a", "1", "2"}}, records[0].Changes); diff != "" {
		t.Errorf("changes on the disk (-want +got):\n%s", diff)
	}
}

func TestListReportsUnreadableRecords(t *testing.T) {
	dir := t.TempDir()
	mustOpen(t, dir, anyTarget())
	for name, text := range map[string]string{
		"d-2_p-1_network-disruption.json":      "{",
		"d-3_p-1_network-disruption.json.lock": "",
		"d-4_p-1_network-disruption.json.tmp":  "{",
		"README.txt":                           "somebody else's",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := List(dir)
	if err != nil || len(entries) != 4 {
		t.Fatalf("List() = %+v, %v, want four entries", entries, err)
	}
	if broken := entries[1]; broken.Err == nil || broken.Injection.Disruption.UID != "d-2" || broken.Injection.Kind != v1beta1.KindNetwork {
		t.Errorf("entry = %+v, want the error of d-2's record", broken)
	}
	for _, entry := range entries[2:] {
		if !entry.Missing || entry.Err != nil {
			t.Errorf("entry = %+v, want one whose record is missing", entry)
		}
		if _, err := Reopen(dir, entry.Injection); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Reopen() = %v, want ErrNotExist", err)
		}
	}
	if entries, err := List(dir); err != nil || len(entries) != 2 {
		t.Errorf("List() = %+v, %v, want what was left half made to be gone", entries, err)
	}
}

func TestListOfAMissingDirectoryIsEmpty(t *testing.T) {
	if records, err := List(filepath.Join(t.TempDir(), "none")); len(records) != 0 || err != nil {
		t.Errorf("List() = %v, %v, want nothing", records, err)
	}
}

func TestNamesThatLeaveTheDirectoryAreRefused(t *testing.T) {
	for _, uid := range []string{"", "../x", "a/b", ".", "a_b"} {
		bad := anyTarget()
		bad.Injection.Disruption.UID = v1beta1.DisruptionRef{}.UID
		bad.Injection.Target.UID = bad.Injection.Disruption.UID
		bad.Injection.Kind = v1beta1.Kind(uid)
		if _, err := Open(t.TempDir(), bad); err == nil {
			t.Errorf("Open() with %q in the name succeeded", uid)
		}
	}
}

func TestRestore(t *testing.T) {
	change := Change{Object: "/cpu.max", Before: "max", After: "50"}
	broken := errors.New("input/output error")
	tests := []struct {
		name      string
		current   string
		readError error
		wantValue string
		conflict  bool
		wantError error
	}{
		{name: "what the injection made is replaced", current: "50", wantValue: "max"},
		{name: "what was there before stays", current: "max", wantValue: "max"},
		{name: "somebody else's value stays and is reported", current: "70", wantValue: "70", conflict: true},
		{name: "a missing object needs nothing", current: "50", readError: fs.ErrNotExist, wantValue: "50"},
		{name: "a removed cgroup needs nothing", current: "50", readError: unix.ENODEV, wantValue: "50"},
		{name: "an error is reported", current: "50", readError: broken, wantValue: "50", wantError: broken},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			value := test.current
			read := func(string) (string, error) { return value, test.readError }
			write := func(_, v string) error { value = v; return nil }
			for range 2 { // a repetition changes nothing
				err := (&Journal{record: Record{Changes: []Change{change}}}).Restore(read, write)
				var conflict *ConflictError
				if errors.As(err, &conflict) != test.conflict {
					t.Errorf("Restore() = %v, want a conflict: %t", err, test.conflict)
				}
				if test.conflict {
					for _, named := range []string{"/cpu.max", `"max"`, `"50"`, `"70"`} {
						if !strings.Contains(err.Error(), named) {
							t.Errorf("%q does not name %s", err, named)
						}
					}
					continue
				}
				if !errors.Is(err, test.wantError) {
					t.Errorf("Restore() = %v, want %v", err, test.wantError)
				}
			}
			if value != test.wantValue {
				t.Errorf("value after Restore = %q, want %q", value, test.wantValue)
			}
		})
	}
}

// A process may die before the record, between record and change, or after the change. The
// values are restored in each case.
func TestCrashAtEveryStep(t *testing.T) {
	for _, steps := range []int{0, 1, 2, 3, 4} {
		dir := t.TempDir()
		values := map[string]string{"/a": "1"}
		j := mustOpen(t, dir, anyTarget())
		script := []func(){
			func() { mustWrite(t, j, Change{"/a", "1", "2"}) },
			func() { values["/a"] = "2" },
			func() { mustWrite(t, j, Change{"/a", "2", "3"}) }, // the same value once more
			func() { values["/a"] = "3" },
		}
		for _, step := range script[:steps] {
			step()
		}
		j.Close()

		again, err := Reopen(dir, anyTarget().Injection)
		if err != nil {
			t.Fatal(err)
		}
		read := func(object string) (string, error) { return values[object], nil }
		write := func(object, value string) error { values[object] = value; return nil }
		for range 2 {
			if err := again.Restore(read, write); err != nil {
				t.Errorf("crash after %d steps: Restore() = %v", steps, err)
			}
		}
		if values["/a"] != "1" {
			t.Errorf("crash after %d steps: value = %q, want 1", steps, values["/a"])
		}
		again.Close()
	}
}

// Root writes the values of a record to the kernel, so a record must be root's own.
func TestForeignRecordsAreNotBelieved(t *testing.T) {
	of := anyTarget().Injection
	genuine := func(t *testing.T, dir string) string {
		j := mustOpen(t, dir, anyTarget())
		j.Close()
		return j.Path()
	}
	forgeries := map[string]struct {
		forge func(t *testing.T, path string) error
		want  string
	}{
		"a link": {func(t *testing.T, path string) error {
			elsewhere := filepath.Join(t.TempDir(), "record")
			return errors.Join(os.Rename(path, elsewhere), os.Symlink(elsewhere, path))
		}, "is a link"},
		"a pipe": {func(_ *testing.T, path string) error {
			return errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600))
		}, "is no regular file"},
		"one that others may write": {func(_ *testing.T, path string) error { return os.Chmod(path, 0o620) }, "mode 0620"},
		"a large one":               {func(_ *testing.T, path string) error { return os.Truncate(path, maxRecord+1) }, "no injector writes more"},
	}
	if os.Geteuid() == 0 {
		forgeries["another user's"] = struct {
			forge func(t *testing.T, path string) error
			want  string
		}{func(_ *testing.T, path string) error { return os.Chown(path, 1000, 1000) }, "of user 1000"}
	}
	for name, test := range forgeries {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := genuine(t, dir)
			if err := test.forge(t, path); err != nil {
				t.Fatal(err)
			}
			entries, err := List(dir)
			if err != nil || len(entries) != 1 || entries[0].Err == nil || !strings.Contains(entries[0].Err.Error(), test.want) {
				t.Errorf("List() = %+v, %v, want an entry with the error %q", entries, err, test.want)
			}
			if j, err := Reopen(dir, of); err == nil {
				t.Errorf("Reopen() = %+v, want an error", j.Record())
			}
			if j, err := Open(dir, anyTarget()); err == nil {
				t.Errorf("Open() = %+v, want an error", j.Record())
			}
			if _, err := os.Lstat(path); err != nil {
				t.Errorf("it is gone, and nobody could look into it: %v", err)
			}
		})
	}
	t.Run("links in place of what is written are not followed", func(t *testing.T) {
		for _, suffix := range []string{temporary, locked} {
			dir, foreign := t.TempDir(), filepath.Join(t.TempDir(), "foreign")
			if err := os.WriteFile(foreign, []byte("theirs"), 0o600); err != nil {
				t.Fatal(err)
			}
			name, err := fileName(of)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(foreign, filepath.Join(dir, name+suffix)); err != nil {
				t.Fatal(err)
			}
			if j, err := Open(dir, anyTarget()); err == nil {
				j.Close()
				t.Errorf("Open() with a link %s = nil, want an error", suffix)
			}
			if text, err := os.ReadFile(foreign); string(text) != "theirs" {
				t.Errorf("behind the link %s is %q, %v, want what was there", suffix, text, err)
			}
		}
	})
}
