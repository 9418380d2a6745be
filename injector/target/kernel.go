//go:build linux

package target

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// KernelRelease is the version of the node's kernel, such as "6.1.0-18-amd64".
func KernelRelease() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(name.Release[:])
}

// CheckNetfilter returns an error if the kernel has no packet filter for programs. Call it
// before a connection is made in a network namespace: without a packet filter the library
// panics.
func CheckNetfilter() error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("open netfilter (CONFIG_NETFILTER_NETLINK, module nfnetlink): %w", err)
	}
	return unix.Close(fd)
}
