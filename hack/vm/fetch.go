package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"

	"github.com/squall-chaos/squall/hack/cluster"
)

// Fetch unpacks a package of Debian into the cache, once, and returns the
// directory. Nothing is installed.
func Fetch(ctx context.Context, cache, name string, logf func(string, ...any)) (string, error) {
	dir := filepath.Join(cache, name)
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	lock, err := cluster.Lock(filepath.Join(cache, "fetch.lock"), true)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	half := dir + ".half"
	if err := errors.Join(os.RemoveAll(half), os.MkdirAll(half, 0o755)); err != nil {
		return "", err
	}
	logf("fetching Debian's package %s", name)
	if err := download(ctx, half, name); err != nil {
		return "", fmt.Errorf("fetch a kernel: %w", err)
	}
	archives, err := filepath.Glob(filepath.Join(half, "*.deb"))
	if err != nil || len(archives) != 1 {
		return "", fmt.Errorf("apt-get download %s brought %v, want one archive", name, archives)
	}
	if err := apt(ctx, half, "dpkg", "-x", archives[0], half); err != nil {
		return "", err
	}
	return dir, errors.Join(os.Remove(archives[0]), os.Rename(half, dir))
}

// download asks for the package lists first if there are none, as on a bare
// machine, or if what they name is no longer there.
func download(ctx context.Context, dir, name string) error {
	try := func() error {
		real, err := dependency(ctx, name)
		if err != nil {
			return err
		}
		return apt(ctx, dir, "apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", real)
	}
	if try() == nil {
		return nil
	}
	if err := apt(ctx, dir, "apt-get", "-q", "-o", "DPkg::Lock::Timeout=300", "update"); err != nil {
		return err
	}
	return try()
}

// kernelPackage is what a package without files depends on.
var kernelPackage = regexp.MustCompile(`Depends: (linux-image-[0-9][^\s]*)`)

// dependency is the package with the files: linux-image-amd64 has none, and
// depends on the kernel of the day.
func dependency(ctx context.Context, name string) (string, error) {
	out, err := exec.CommandContext(ctx, "apt-cache", "depends", name).Output()
	if err != nil {
		return "", fmt.Errorf("apt-cache depends %s: %w", name, err)
	}
	if found := kernelPackage.FindSubmatch(out); found != nil {
		return string(found[1]), nil
	}
	return name, nil
}

func apt(ctx context.Context, dir, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %v: %w", program, args, err)
	}
	return nil
}
