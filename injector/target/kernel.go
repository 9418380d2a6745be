package target

import "golang.org/x/sys/unix"

// KernelRelease is the version of the node's kernel, such as "6.1.0-18-amd64".
func KernelRelease() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(name.Release[:])
}
