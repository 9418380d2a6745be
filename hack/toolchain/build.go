package toolchain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/squall-chaos/squall/hack/archive"
	"github.com/squall-chaos/squall/hack/cluster"
	"github.com/squall-chaos/squall/hack/debian"
)

// freeForBuild is the room that the modules, Go's build cache and the programs
// need, in bytes.
const freeForBuild = 10 << 30

// Builder builds what is missing in the cache.
type Builder struct {
	Hack   string                           // directory of the hack module
	Cache  string                           // directory of the results
	Report func(format string, args ...any) // gets one line for each step
}

// CacheDir is where programs are kept for the user.
func CacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache directory: %w; set XDG_CACHE_HOME", err)
	}
	return filepath.Join(dir, "squall"), nil
}

// All builds every tool that is not in the cache and returns the directory of
// each by name. Of several at once one builds and the others wait for it.
func (b Builder) All(ctx context.Context) (map[string]string, error) {
	dirs := map[string]string{}
	for _, t := range Tools() {
		key, version, err := Key(os.DirFS(b.Hack), t)
		if err != nil {
			return nil, err
		}
		dir := filepath.Join(b.Cache, key)
		if err := b.ensure(ctx, t, version, dir); err != nil {
			return nil, err
		}
		dirs[t.Name] = dir
	}
	return dirs, nil
}

func (b Builder) ensure(ctx context.Context, t Tool, version, dir string) error {
	if exists(dir) {
		return nil
	}
	lock, err := cluster.Lock(filepath.Join(b.Cache, "build.lock"), false)
	if errors.Is(err, cluster.ErrLocked) {
		b.Report("waiting for another build in %s", b.Cache)
		lock, err = cluster.Lock(filepath.Join(b.Cache, "build.lock"), true)
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	if exists(dir) {
		return nil
	}
	if err := b.check(ctx, t); err != nil {
		return err
	}
	half := dir + ".half"
	if err := os.RemoveAll(half); err != nil {
		return fmt.Errorf("build %s: %w", t.Name, err)
	}
	if err := os.MkdirAll(half, 0o755); err != nil {
		return fmt.Errorf("build %s: %w", t.Name, err)
	}
	defer os.RemoveAll(half) // not there any more after a success
	began := time.Now()
	b.Report("building %s %s", t.Name, version)
	if err := b.build(ctx, t, version, half); err != nil {
		return err
	}
	if err := os.Rename(half, dir); err != nil {
		return fmt.Errorf("build %s: %w", t.Name, err)
	}
	b.Report("built %s %s in %.1f s", t.Name, version, time.Since(began).Seconds())
	return nil
}

// check looks for what would otherwise fail late and hard to read, and
// installs what it can.
func (b Builder) check(ctx context.Context, t Tool) error {
	if _, err := exec.LookPath("go"); err != nil {
		return fmt.Errorf("building %s needs go; install Go 1.26 or newer", t.Name)
	}
	if err := debian.Install(ctx, b.Report, t.Needs...); err != nil {
		return fmt.Errorf("build %s: %w", t.Name, err)
	}
	if t.Name != "kubernetes" {
		return nil // the others are small beside it
	}
	return CheckSpace(b.Cache, freeForBuild)
}

// CheckSpace returns an error if the disk of a directory, which must exist, has
// fewer than the given number of bytes free.
func CheckSpace(dir string, want uint64) error {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return fmt.Errorf("ask for the free space of %s: %w", dir, err)
	}
	if free := stat.Bavail * uint64(stat.Bsize); free < want {
		return fmt.Errorf("%s has %.1f GiB free, want %.1f; make room or move it (XDG_CACHE_HOME for programs, --dir for the cluster)",
			dir, gib(free), gib(want))
	}
	return nil
}

func gib(bytes uint64) float64 { return float64(bytes) / (1 << 30) }

func (b Builder) build(ctx context.Context, t Tool, version, out string) error {
	builds := t.Builds(version)
	for _, step := range builds {
		began := time.Now()
		if err := b.goBuild(ctx, t, step, out); err != nil {
			return err
		}
		for _, name := range step.Names {
			if err := os.Link(filepath.Join(out, step.Output), filepath.Join(out, name)); err != nil {
				return fmt.Errorf("build %s: %w", t.Name, err)
			}
		}
		if len(builds) > 1 {
			b.Report("  %s in %.1f s", step.Output, time.Since(began).Seconds())
		}
	}
	for _, image := range t.Images {
		if err := writeImage(image, out); err != nil {
			return err
		}
	}
	return nil
}

func (b Builder) goBuild(ctx context.Context, t Tool, step Build, out string) error {
	args := []string{"build", "-trimpath", "-buildvcs=false", "-tags", step.Tags,
		"-ldflags", strings.TrimSpace("-s -w " + step.LDFlags), "-o", out + "/" + step.Output}
	cmd := exec.CommandContext(ctx, "go", append(args, step.Packages...)...)
	cmd.Dir = filepath.Join(b.Hack, t.Dir)
	cgo := "CGO_ENABLED=0"
	if step.CGO {
		cgo = "CGO_ENABLED=1"
	}
	cmd.Env = append(os.Environ(), cgo, "GOWORK=off", "GOOS=linux", "GOARCH="+runtime.GOARCH)
	runtime.LockOSThread() // the signal below comes when this thread ends, not the process
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}    // no build outlives this process and the lock
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // go removes its half-made files
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", t.Name, err, tail(string(output), 20))
	}
	return nil
}

func writeImage(image Image, dir string) error {
	f, err := os.Create(filepath.Join(dir, image.Name+".tar"))
	if err != nil {
		return fmt.Errorf("write image %s: %w", image.Name, err)
	}
	program := "/" + image.Program
	return errors.Join(archive.Write(f, archive.Image{
		Name:       "squall.local/" + image.Name + ":dev",
		Entrypoint: []string{program},
		Files:      []archive.File{{Source: filepath.Join(dir, image.Program), Path: program}},
	}), f.Close())
}

// tail is the last lines of a text.
func tail(text string, count int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
