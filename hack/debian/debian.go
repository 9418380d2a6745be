// Package debian installs what a machine lacks from Debian's packages. It asks
// nothing of a machine that has everything.
package debian

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Need is something that a package brings: a program, a file, or a library as
// pkg-config knows it. One of them is set.
type Need struct{ Program, File, Library, Package string }

// ForCluster is what a machine needs to run the development cluster.
var ForCluster = []Need{
	{Program: "ip", Package: "iproute2"},
	{Program: "nsenter", Package: "util-linux"},
	{Program: "mount", Package: "mount"},
	{Program: "iptables", Package: "iptables"},
	{Program: "conntrack", Package: "conntrack"},
}

// ForCompiler is what it needs to build runc, or to look for data races.
var ForCompiler = []Need{
	{Program: "gcc", Package: "gcc"},
	{File: "/usr/include/stdlib.h", Package: "libc6-dev"},
	{Program: "pkg-config", Package: "pkg-config"},
	{Library: "libseccomp", Package: "libseccomp-dev"},
}

// ForTests is what tests need beside that.
var ForTests = []Need{
	{Program: "nft", Package: "nftables"},
	{Program: "mkfs.ext4", Package: "e2fsprogs"},
	{Program: "losetup", Package: "mount"},
	{Program: "git", Package: "git"},
	{Program: "chromium", Package: "chromium"},
	{Program: "promtool", Package: "prometheus"},
}

// ForRegistry is what it needs to publish a release on this machine.
var ForRegistry = []Need{{Program: "docker-registry", Package: "docker-registry"}}

// ForKernels is what it needs to run other kernels as virtual computers.
var ForKernels = []Need{{Program: "qemu-system-x86_64", Package: "qemu-system-x86"}}

// ForVirtualNodes is what it needs for nodes that are virtual computers with disks.
var ForVirtualNodes = []Need{ForKernels[0], {Program: "mkfs.ext4", Package: "e2fsprogs"}}

// ForSite is what it needs to build the site of the documents and look at it.
var ForSite = []Need{
	{Program: "git", Package: "git"},
	{File: "/usr/lib/python3/dist-packages/pymdownx", Package: "mkdocs-material"},
	{Program: "mkdocs", Package: "mkdocs-material"},
	{Program: "chromium", Package: "chromium"},
}

// Install installs the packages of what is missing.
func Install(ctx context.Context, logf func(string, ...any), needs ...Need) error {
	missing := missing(ctx, needs)
	if len(missing) == 0 {
		return nil
	}
	packages := strings.Join(missing, " ")
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("this machine lacks what Debian has in the packages %s, and it has no apt-get; install them as it installs others", packages)
	}
	logf("installing %s", packages)
	// Another apt-get may be at work, such as the nightly one.
	quiet := []string{"-o", "DPkg::Lock::Timeout=300", "-q"}
	if err := run(ctx, append(quiet, "update")...); err != nil {
		return fmt.Errorf("apt-get update, to install %s: %w", packages, err)
	}
	if err := run(ctx, append(append(quiet, "install", "-y", "--no-install-recommends"), missing...)...); err != nil {
		return fmt.Errorf("apt-get install %s: %w; run it as root", packages, err)
	}
	return nil
}

// missing are the packages of what is not there, each once.
func missing(ctx context.Context, needs []Need) []string {
	var packages []string
	asked := map[string]bool{}
	for _, need := range needs {
		if need.there(ctx) || asked[need.Package] {
			continue
		}
		asked[need.Package] = true
		packages = append(packages, need.Package)
	}
	return packages
}

func (n Need) there(ctx context.Context) bool {
	var err error
	switch {
	case n.Program != "":
		_, err = exec.LookPath(n.Program)
	case n.File != "":
		_, err = os.Stat(n.File)
	default:
		err = exec.CommandContext(ctx, "pkg-config", "--exists", n.Library).Run()
	}
	return err == nil
}

// run prints apt-get's output on the error output: the standard output belongs to
// the calling program's answer.
func run(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	return cmd.Run()
}
