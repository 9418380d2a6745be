// Package testneeds checks what tests need of the machine that they run on. It promises
// that an unmet need is visible: the test is skipped with the reason, and fails where
// everything is required (SQUALL_REQUIRE=1).
package testneeds

import (
	"fmt"
	"os"
	"testing"
)

// The needs, as a skipped test reports them.
const (
	Root             = "needs root"
	Cgroups          = "needs a writable cgroup hierarchy"
	UnifiedCgroups   = "needs a cgroup hierarchy of version 2"
	DiskLimits       = "needs a cgroup controller that limits disks: blkio of version 1 or io of version 2"
	MemoryLimits     = "needs a cgroup controller that limits memory"
	FastDisk         = "needs a disk that is faster than the limit to be seen"
	DiskTools        = "needs the tools that make a disk"
	Overlay          = "needs a kernel with overlay filesystems"
	Processors       = "needs more processors"
	NetworkLinks     = "needs to make network links"
	PermissionEvents = "needs a kernel with permission events of fanotify"
	MountObjects     = "needs a kernel that mounts single files and directories of a filesystem (Linux 5.12)"
	AttachMechanism  = "needs a kernel that attaches programs in this way"
	Queues           = "needs a kernel with queueing disciplines and intermediate devices"

	// The needs of tests for another machine than that on which everything is required.
	OnlyVersion1 = "is about cgroups of version 1"
	OnlyVersion2 = "is about cgroups of version 2 alone"
	NoPods       = "needs a machine without pods"
	// DecidingPrograms are of type LSM or fmod_ret.
	DecidingPrograms = "needs a kernel that takes BPF programs which decide about opens"
)

// Slack is by which factor a measurement may be further from the requested value. It is 1,
// or more on a virtual machine, whose clock stops while others have the processor.
func Slack() int {
	if Virtual() {
		return 4
	}
	return 1
}

// Virtual is true on a virtual machine that was made for the tests, which they may change
// freely: SQUALL_TEST_VIRTUAL=1 marks it.
func Virtual() bool { return os.Getenv("SQUALL_TEST_VIRTUAL") == "1" }

// BeRoot calls Missing unless the user is root.
func BeRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		Missing(t, Root)
	}
}

// Missing ends a test that this machine cannot run. A test for another machine than the one
// on which everything is required calls t.Skip instead, and is on the list of the suite.
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
