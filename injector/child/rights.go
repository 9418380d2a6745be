//go:build linux

package child

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// GiveUpRights removes all capabilities from the calling thread, for good, and from the
// program that it executes, which would otherwise regain them as root's. The thread must be
// locked and is of no use for anything else: all others keep their rights.
func GiveUpRights() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid a child new rights: %w", err)
	}
	header, none := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("take a child's capabilities: %w", err)
	}
	return nil
}
