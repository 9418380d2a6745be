package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/squall-chaos/squall/hack/cluster"
	"github.com/squall-chaos/squall/hack/debian"
	"github.com/squall-chaos/squall/hack/toolchain"
	"github.com/squall-chaos/squall/hack/vm"
)

// virtualPatience is how long virtual machines may take for what others do in
// seconds: without KVM their programs run ten to twenty times as long, and more
// than a minute passes until they have booted.
const virtualPatience = 15 * time.Minute

// errNotHere is what a virtual machine does not have.
var errNotHere = errors.New("the node is a virtual machine: its processes are not the host's; kubectl exec reaches its pods")

// kernel is the directory of the unpacked package with the kernel of the virtual
// machines that are wished for, or that the cluster of the directory has; "" if it
// has none.
func (w wishes) kernel(ctx context.Context, s steps, dir string) (string, error) {
	c, err := cluster.Load(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if w.virtual == 0 && (c == nil || c.Virtual == 0) {
		return "", nil
	}
	if err := debian.Install(ctx, s.logf, debian.ForVirtualNodes...); err != nil {
		return "", err
	}
	cache, err := toolchain.CacheDir()
	if err != nil {
		return "", err
	}
	return vm.Fetch(ctx, filepath.Join(cache, "kernels"), "linux-image-amd64", s.logf)
}

// buildGuest builds the program that virtual machines start with, without libraries,
// which they have none of. This program may want some: go run links with libc where a C
// compiler is there.
func buildGuest(ctx context.Context, c *cluster.Cluster) error {
	hack, err := hackDir()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.Guest()), 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", c.Guest(), "./devcluster")
	cmd.Dir, cmd.Env = hack, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the program of virtual machines: %w\n%s", err, output)
	}
	return nil
}
