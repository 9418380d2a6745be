// Package testneeds says what tests need of the machine that they run on. It
// promises that a need which is not met is seen: the test is skipped with the
// reason, and fails where everything is required (SQUALL_REQUIRE=1).
package testneeds

import (
	"fmt"
	"os"
	"testing"
)

// The needs, in the words in which a skipped test tells them.
const (
	Root            = "needs root"
	Cgroups         = "needs a writable cgroup hierarchy"
	UnifiedCgroups  = "needs a cgroup hierarchy of version 2"
	DiskLimits      = "needs a cgroup controller that limits disks: blkio of version 1 or io of version 2"
	FastDisk        = "needs a disk that is faster than the limit to be seen"
	DiskTools       = "needs the tools that make a disk"
	Overlay         = "needs a kernel with overlay filesystems"
	Processors      = "needs more processors"
	NetworkLinks    = "needs to make network links"
	AttachMechanism = "needs a kernel that attaches programs in this way"

	// Of tests for another machine than that on which everything is required.
	OnlyVersion1 = "is about cgroups of version 1"
	OnlyVersion2 = "is about cgroups of version 2 alone"
	NoPods       = "needs a machine without pods"
)

// BeRoot is Missing for everybody but root.
func BeRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		Missing(t, Root)
	}
}

// Missing ends a test that this machine cannot run. A test for another machine
// than the one on which everything is required calls t.Skip instead, and stands on
// the list of the suite.
func Missing(t *testing.T, need string, details ...any) {
	t.Helper()
	if len(details) > 0 {
		need += ": " + fmt.Sprint(details...)
	}
	if os.Getenv("SQUALL_REQUIRE") == "1" {
		t.Fatalf("%s; it is required (SQUALL_REQUIRE=1)", need)
	}
	t.Skip(need)
}
