//go:build linux

package diskfailure

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/squall-chaos/squall/test/testcontainer"
)

// volume is a directory like the kubelet's for a ConfigMap: app.yaml leads through the link
// ..data to the directory of a generation, and an update swaps that link.
type volume struct {
	dir        string
	generation int
}

func newVolume(t *testing.T) *volume {
	t.Helper()
	v := &volume{dir: t.TempDir()}
	if err := os.Symlink("..data/app.yaml", v.file()); err != nil {
		t.Fatal(err)
	}
	v.update(t)
	return v
}

func (v *volume) file() string { return filepath.Join(v.dir, "app.yaml") }

func (v *volume) update(t *testing.T) {
	t.Helper()
	before := strconv.Itoa(v.generation)
	v.generation++
	now := strconv.Itoa(v.generation)
	data := filepath.Join(v.dir, "..data")
	for _, step := range []func() error{
		func() error { return os.Mkdir(filepath.Join(v.dir, now), 0o755) },
		func() error { return os.WriteFile(filepath.Join(v.dir, now, "app.yaml"), []byte(now), 0o644) },
		func() error { return os.Symlink(now, data+"_tmp") },
		func() error { return os.Rename(data+"_tmp", data) },
		func() error { return os.RemoveAll(filepath.Join(v.dir, before)) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
}

// wantMoved wants an injection to be where its paths lead, or a text about what is
// elsewhere.
func wantMoved(t *testing.T, when string, injector *Injector, want string) {
	t.Helper()
	got, err := injector.Moved(t.Context())
	if err != nil || (got == "") != (want == "") || !strings.Contains(got, want) {
		t.Errorf("%s: Moved = %q, %v, want %q", when, got, err, want)
	}
}

func TestLinksThatAreSwappedAreFollowed(t *testing.T) {
	follows := func(t *testing.T, by, errno string) {
		v := newVolume(t)
		c := testcontainer.Start(t, testcontainer.Sleeps...)
		injector := newInjector(t, by, params(errno, "", v.file()), c)
		for range 2 {
			inject(t, injector)
			wantMoved(t, "after the injection", injector, "")
			want(t, "opens", map[string]int{errno: 5}, opens(t, c, v.file(), 0, 5))
			v.update(t)
			want(t, "opens after the update", map[string]int{"ok": 5}, opens(t, c, v.file(), 0, 5))
			wantMoved(t, "after the update", injector, "app.yaml")
			clean(t, injector)
		}
	}
	inEachWay(t, func(t *testing.T, by string, _ []string) { follows(t, by, "EPERM") })
	t.Run(byMount, func(t *testing.T) {
		coverable(t)
		for _, errno := range fileErrnos {
			t.Run(errno, func(t *testing.T) { follows(t, byMount, errno) })
		}
	})
}

func TestFilesThatAreMadeLaterAreCovered(t *testing.T) {
	coverable(t)
	dir := files(t, "data/file", "database")
	c := testcontainer.Start(t, testcontainer.Sleeps...)
	injector := newInjector(t, byMount, params("ENOENT", "", filepath.Join(dir, "dat")), c)
	inject(t, injector)
	wantMoved(t, "after the injection", injector, "")
	if err := os.WriteFile(filepath.Join(dir, "data.new"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	wantMoved(t, "after a file was made", injector, "data.new")
}

func TestMountsThatComeAreFollowed(t *testing.T) {
	inEachWay(t, func(t *testing.T, by string, _ []string) {
		dir := files(t, "data/file")
		file := filepath.Join(dir, "data/file")
		c := testcontainer.Start(t, testcontainer.Sleeps...)
		injector := newInjector(t, by, params("EPERM", "", filepath.Join(dir, "data")), c)
		inject(t, injector)
		wantMoved(t, "after the injection", injector, "")
		mount := exec.Command("nsenter", "--target", strconv.Itoa(c.PID), "--mount", "sh", "-c", `mount -t tmpfs later "$0" && touch "$0/file"`, filepath.Dir(file))
		if output, err := mount.CombinedOutput(); err != nil {
			t.Fatalf("mount: %v: %s", err, output)
		}
		wantMoved(t, "after a mount", injector, filepath.Dir(file))
		clean(t, injector)
		inject(t, injector)
		want(t, "opens on the new mount", map[string]int{"EPERM": 5}, opens(t, c, file, 0, 5))
		wantMoved(t, "after the second injection", injector, "")
	})
}
